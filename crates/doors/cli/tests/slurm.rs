//! The recipes of the guide to jobs, in a Slurm of one node that runs here: jobs that end well, fail, are cancelled, reach their limit, or are requeued.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use terrace_testkit::{Missing, free_ports, skip, wait_until};

/// The user of the jobs. Slurm gives root no burst buffers.
const USER_NAME: &str = "nobody";
const USER_ID: u32 = 65_534;

/// Jobs that are to be ended from outside wait for this file, which nobody makes.
const GO_FILE: &str = "go";

/// Slurm's daemons, on one node, with the recipes of the guide.
struct Slurm {
    folder: TempDir,
    daemons: Vec<Child>,
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Returns a block of the guide.
fn recipe(file: &str) -> String {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/guide/jobs.md");
    let guide = fs::read_to_string(guide).unwrap();
    let block = guide.split("```").find(|block| block.lines().next().unwrap().ends_with(&format!(" {file}")));
    block.unwrap().split_once('\n').unwrap().1.to_owned()
}

impl Slurm {
    /// Starts it. None, with a counted skip, where it is not installed or this user may not.
    fn start() -> Option<Slurm> {
        let found =
            ["slurmctld", "slurmd", "munged", "runuser"].map(|name| Command::new(name).arg("--version").output());
        if let Some(missing) = found.into_iter().find_map(Result::err) {
            skip("jobs of Slurm", &Missing::new("slurm", format!("{missing}; `make slurm-installed` installs it")));
            return None;
        }
        if !rustix::process::geteuid().is_root() {
            skip("jobs of Slurm", &Missing::new("slurm", "its daemons need root"));
            return None;
        }
        let mut slurm = Slurm { folder: tempfile::tempdir().unwrap(), daemons: Vec::new() };
        // The jobs' user reaches all of it by name.
        fs::set_permissions(slurm.folder.path(), Permissions::from_mode(0o755)).unwrap();
        let own_folder = format!("local/{USER_NAME}");
        for folder in ["bin", "state", "spool", "local", &own_folder] {
            fs::create_dir(slurm.path(folder)).unwrap();
        }
        chown_all(&slurm.path(&own_folder));
        fs::copy(env!("CARGO_BIN_EXE_terrace"), slurm.path("bin/terrace")).unwrap();
        for (file, mode) in [("prolog", 0o755), ("epilog", 0o755), ("burst_buffer.lua", 0o644)] {
            let bin = format!("export PATH={}:", slurm.path("bin").display());
            let text = slurm.here(&recipe(file)).replace("export PATH=", &bin);
            fs::write(slurm.path(file), text).unwrap();
            fs::set_permissions(slurm.path(file), Permissions::from_mode(mode)).unwrap();
        }
        fs::write(slurm.path("burst_buffer.conf"), "StageInTimeout=60\nStageOutTimeout=60\n").unwrap();
        slurm.configure();
        slurm.run_daemons();
        Some(slurm)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the guide's folder on the node's disk.
    fn here(&self, text: &str) -> String {
        text.replace("/local/", &format!("{}/", self.path("local").display()))
    }

    fn configure(&self) {
        let at = self.folder.path().display();
        let name = Command::new("hostname").arg("-s").output().unwrap().stdout;
        let name = String::from_utf8(name).unwrap().trim().to_owned();
        let [controller, node] = free_ports(2)[..] else { unreachable!() };
        let text = format!(
            "ClusterName=test\nSlurmctldHost={name}(127.0.0.1)\nSlurmUser=root\nSlurmctldPort={controller}\nSlurmdPort={node}\n\
             AuthType=auth/munge\nAuthInfo=socket={at}/munge.socket,cred_expire=5\nCredType=cred/munge\nStateSaveLocation={at}/state\n\
             SlurmdSpoolDir={at}/spool\nSlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd.pid\n\
             SlurmctldLogFile={at}/slurmctld.log\nSlurmdLogFile={at}/slurmd.log\nProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
             MpiDefault=none\nReturnToService=2\nKillWait=2\nSlurmdParameters=config_overrides\nBurstBufferType=burst_buffer/lua\n\
             Prolog={at}/prolog\nEpilog={at}/epilog\nPrologFlags=Alloc\nNodeName={name} NodeAddr=127.0.0.1 CPUs=8\n\
             PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
        );
        fs::write(self.path("slurm.conf"), text).unwrap();
    }

    fn run_daemons(&mut self) {
        let below = |name: &str| self.path(name).display().to_string();
        fs::write(self.path("munge.key"), terrace_testkit::noise(1024, 1)).unwrap();
        fs::set_permissions(self.path("munge.key"), Permissions::from_mode(0o400)).unwrap();
        let mut munge = vec!["-F".to_owned(), "--force".to_owned()];
        for (flag, file) in
            [("socket", "socket"), ("key-file", "key"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed")]
        {
            munge.push(format!("--{flag}={}", below(&format!("munge.{file}"))));
        }
        self.run_daemon("munged", &munge);
        wait_until("munge answers", || self.path("munge.socket").exists());
        self.run_daemon("slurmctld", &["-D".to_owned(), "-c".to_owned()]);
        self.run_daemon("slurmd", &["-D".to_owned()]);
        wait_until("the node is there", || self.is_idle());
    }

    fn run_daemon(&mut self, program: &str, arguments: &[String]) {
        let log = fs::File::create(self.path(&format!("{program}.out"))).unwrap();
        let mut command = self.command(program);
        command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.daemons.push(command.spawn().unwrap());
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        command.env("SLURM_CONF", self.path("slurm.conf")).env("PATH", path).current_dir(self.folder.path());
        command
    }

    fn ask(&self, program: &str, arguments: &[&str]) -> String {
        let Output { stdout, .. } = self.command(program).args(arguments).output().unwrap();
        String::from_utf8_lossy(&stdout).into_owned()
    }

    fn is_idle(&self) -> bool {
        self.ask("sinfo", &["-h", "-o", "%T"]).trim() == "idle"
    }

    /// Makes the folder of a job, with an input and a program, and submits the script.
    fn submit(&self, name: &str, script: &str, flags: &[&str], program: &str) -> Job<'_> {
        let folder = self.path(name);
        fs::create_dir_all(folder.join("input")).unwrap();
        fs::write(folder.join("input/steps"), format!("{name}\n")).unwrap();
        let list = folder.join(if script.contains("inputs.list") { "inputs.list" } else { "stage.list" });
        if !list.exists() {
            fs::write(list, "input\n").unwrap();
        }
        let script = self.here(script).replace("/pfs/me", &folder.display().to_string());
        fs::write(folder.join("job.sh"), script).unwrap();
        fs::write(folder.join("program"), format!("#!/bin/bash\nset -e\n{program}")).unwrap();
        fs::set_permissions(folder.join("program"), Permissions::from_mode(0o755)).unwrap();
        chown_all(&folder);
        let mut submit = self.command("runuser");
        submit.args(["-u", USER_NAME, "--", "sbatch", "--parsable", "-o", "out.txt"]).args(flags).arg("job.sh");
        let submitted = submit.current_dir(&folder).output().unwrap();
        let id = String::from_utf8(submitted.stdout).unwrap().trim().to_owned();
        assert!(!id.is_empty(), "{}", String::from_utf8_lossy(&submitted.stderr));
        Job { slurm: self, folder, id }
    }
}

/// Gives a folder to the jobs' user.
fn chown_all(path: &Path) {
    chown(path, Some(USER_ID), Some(USER_ID)).unwrap();
    for entry in fs::read_dir(path).into_iter().flatten() {
        chown_all(&entry.unwrap().path());
    }
}

/// A job that was submitted.
struct Job<'s> {
    slurm: &'s Slurm,
    folder: PathBuf,
    id: String,
}

impl Job<'_> {
    fn shown(&self, field: &str) -> String {
        let shown = self.slurm.ask("scontrol", &["show", "job", "-o", &self.id]);
        let field = format!("{field}=");
        shown.split(' ').find_map(|word| word.strip_prefix(&field)).unwrap_or_default().to_owned()
    }

    fn wait_for_state(&self, state: &str) {
        let (mut last, log) = (String::new(), self.slurm.path("slurmctld.log"));
        wait_until(&format!("{} is {state}, see {}", self.folder.display(), log.display()), || {
            last = self.shown("JobState");
            last == state
        });
    }

    /// Waits until the job's program has put what it made into the store.
    fn wait_for_program(&self) {
        wait_until(&format!("{} has put it", self.folder.display()), || self.folder.join("has-put").exists());
    }

    /// Waits until the job's folder on the node is gone, which the epilog removes once all is safe.
    fn wait_for_end(&self) {
        wait_until("the epilog has ended", || !self.local().exists());
    }

    fn local(&self) -> PathBuf {
        self.slurm.path("local/terrace").join(&self.id)
    }

    fn result(&self, name: &str) -> String {
        let path = self.folder.join("results").join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}; {}", path.display(), self.printed()))
    }

    fn printed(&self) -> String {
        fs::read_to_string(self.folder.join("out.txt")).unwrap_or_default()
    }

    fn report(&self) -> Value {
        serde_json::from_slice(&fs::read(self.folder.join(format!("end-{}.json", self.id))).unwrap()).unwrap()
    }
}

/// Reads the input from the store, and puts what it made there.
const PUT_PROGRAM: &str = "terrace cat input/steps > made; terrace put made out/; touch has-put\n";

fn wait_program() -> String {
    format!("{PUT_PROGRAM}while [ ! -e {GO_FILE} ]; do sleep 0.1; done\n")
}

#[test]
fn results_are_safe_in_whatever_way_a_job_ends() {
    let Some(slurm) = Slurm::start() else { return };
    let (script, waits) = (recipe("job.sh"), wait_program());
    // All begin at once: the one that reaches its limit takes a minute.
    let late = slurm.submit("late", &script, &["--time=1"], &waits);
    let well = slurm.submit("well", &script, &[], PUT_PROGRAM);
    let fails = slurm.submit("fails", &script, &[], &format!("{PUT_PROGRAM}exit 7\n"));
    let cancelled = slurm.submit("cancelled", &script, &[], &waits);
    let again = "if [ $SLURM_RESTART_COUNT ]; then terrace get out/made before; terrace put before second/; exit; fi\n";
    let requeued = slurm.submit("requeued", &script, &[], &format!("{again}{waits}"));
    fs::create_dir(slurm.path("lacks")).unwrap();
    fs::write(slurm.path("lacks/stage.list"), "input\nnothing\n").unwrap();
    let lacks = slurm.submit("lacks", &script, &[], PUT_PROGRAM);
    let buffered = slurm.submit("buffered", &recipe("buffered.sh"), &[], PUT_PROGRAM);
    let own = slurm.submit("own", &recipe("own.sh"), &[], &waits);

    own.wait_for_program();
    slurm.ask("scancel", &["--signal=TERM", "--batch", &own.id]);
    own.wait_for_state("COMPLETED");
    assert_eq!(own.result("out/made"), "own\n");
    assert!(!slurm.path("local").join(USER_NAME).join(&own.id).exists());
    cancelled.wait_for_program();
    slurm.ask("scancel", &[&cancelled.id]);
    requeued.wait_for_program();
    slurm.ask("scontrol", &["requeue", &requeued.id]);
    for (job, state) in [
        (&well, "COMPLETED"),
        (&fails, "FAILED"),
        (&cancelled, "CANCELLED"),
        (&late, "TIMEOUT"),
        (&requeued, "COMPLETED"),
    ] {
        job.wait_for_state(state);
        job.wait_for_end();
        let name = job.folder.file_name().unwrap().to_str().unwrap();
        assert_eq!(job.result("out/made"), format!("{name}\n"));
        let report = job.report();
        assert!(report["safe"] == true, "{report}");
    }
    assert_eq!(requeued.result("second/before"), "requeued\n", "the second run had what the first one made");
    lacks.wait_for_state("FAILED");
    lacks.wait_for_end();
    assert!(lacks.printed().contains("lacks/nothing") && !lacks.folder.join("has-put").exists(), "{}", lacks.printed());
    buffered.wait_for_state("COMPLETED");
    assert_eq!(buffered.result("out/made"), "buffered\n");
    wait_until("the buffer is removed", || !slurm.path("local/terrace/buffers").join(&buffered.id).exists());
    wait_until("no job has drained the node", || slurm.is_idle());
}

#[test]
fn a_node_keeps_results_that_have_no_place() {
    let Some(slurm) = Slurm::start() else { return };
    let no_place = recipe("buffered.sh").replace("/pfs/me/results", "/proc/none");
    let buffered = slurm.submit("buffered", &no_place, &[], PUT_PROGRAM);
    buffered.wait_for_state("STAGE_OUT");
    wait_until("the reason is shown", || buffered.shown("Reason").contains("/proc/none"));
    let buffer = slurm.path("local/terrace/buffers").join(&buffered.id);
    assert!(buffer.join("data/store").exists());
    slurm.ask("scancel", &["--hurry", &buffered.id]);
    wait_until("the buffer is given up", || !buffer.exists());

    fs::create_dir(slurm.path("full")).unwrap();
    fs::write(slurm.path("full/results"), "this is no folder").unwrap();
    let full = slurm.submit("full", &recipe("job.sh"), &[], PUT_PROGRAM);
    wait_until("the node is drained", || slurm.ask("sinfo", &["-h", "-o", "%T"]).contains("drain"));
    assert!(full.local().join("data/store").exists());
    // As the guide says: the end once more, then the node is used again.
    fs::remove_file(full.folder.join("results")).unwrap();
    let mut end = slurm.command("runuser");
    end.args(["-u", USER_NAME, "--", "terrace", "job", "end", "--to"]).arg(full.folder.join("results"));
    let end = end.env("TERRACE_STORE", full.local().join("data/store")).current_dir("/").output().unwrap();
    assert!(end.status.success(), "{}", String::from_utf8_lossy(&end.stderr));
    assert_eq!(full.result("out/made"), "full\n");
}
