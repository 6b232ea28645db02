//! Slurm's daemons on this machine, and jobs of theirs.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use terrace_testkit::{Missing, free_ports, skip, wait_until};

/// The user of the jobs. Slurm gives root no burst buffers.
pub const USER_NAME: &str = "nobody";
const USER_ID: u32 = 65_534;

/// Slurm's daemons. The node's disk is the folder `local`.
pub struct Slurm {
    folder: TempDir,
    nodes: Vec<Node>,
    daemons: Vec<Child>,
}

/// A node, which is a slurmd on this machine.
struct Node {
    name: String,
    address: String,
    /// Whether it has a folder `local` of its own, in which other nodes see nothing.
    has_own_disk: bool,
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Returns a block of a page of the guide.
pub fn recipe(page: &str, file: &str) -> String {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/guide").join(page);
    let guide = fs::read_to_string(guide).unwrap();
    let block =
        guide.split("```").find(|block| block.lines().next().is_some_and(|line| line.ends_with(&format!(" {file}"))));
    block.unwrap().split_once('\n').unwrap().1.to_owned()
}

impl Slurm {
    /// Starts it on one node, with the recipes of the guide to jobs. None, with a counted skip, where it is not installed or this user may not.
    pub fn start() -> Option<Slurm> {
        let name = Command::new("hostname").arg("-s").output().unwrap().stdout;
        let name = String::from_utf8(name).unwrap().trim().to_owned();
        let mut slurm = Slurm::make(vec![Node { name, address: "127.0.0.1".to_owned(), has_own_disk: false }])?;
        let own_folder = format!("local/{USER_NAME}");
        fs::create_dir(slurm.path(&own_folder)).unwrap();
        chown_all(&slurm.path(&own_folder));
        for (file, mode) in [("prolog", 0o755), ("epilog", 0o755), ("burst_buffer.lua", 0o644)] {
            let bin = format!("export PATH={}:", slurm.path("bin").display());
            let text = slurm.here(&recipe("jobs.md", file)).replace("export PATH=", &bin);
            fs::write(slurm.path(file), text).unwrap();
            fs::set_permissions(slurm.path(file), Permissions::from_mode(mode)).unwrap();
        }
        fs::write(slurm.path("burst_buffer.conf"), "StageInTimeout=60\nStageOutTimeout=60\n").unwrap();
        let at = slurm.folder.path().display().to_string();
        slurm.run_daemons(&format!(
            "KillWait=2\nBurstBufferType=burst_buffer/lua\nProlog={at}/prolog\nEpilog={at}/epilog\nPrologFlags=Alloc\n"
        ));
        Some(slurm)
    }

    /// Starts it on several nodes: addresses of loopback, each with a disk of its own. None as for [`Slurm::start`].
    #[cfg(feature = "cluster")]
    pub fn start_on(addresses: &[&str]) -> Option<Slurm> {
        let node = |address: &&str| Node { name: (*address).into(), address: (*address).into(), has_own_disk: true };
        let mut slurm = Slurm::make(addresses.iter().map(node).collect())?;
        for node in &slurm.nodes {
            fs::create_dir(slurm.disk(node)).unwrap();
            chown_all(&slurm.disk(node));
        }
        slurm.run_daemons("KillWait=60\n");
        Some(slurm)
    }

    /// Makes the folders.
    fn make(nodes: Vec<Node>) -> Option<Slurm> {
        let found = ["slurmctld", "slurmd", "munged", "runuser", "unshare"]
            .map(|name| Command::new(name).arg("--version").output());
        if let Some(missing) = found.into_iter().find_map(Result::err) {
            skip("jobs of Slurm", &Missing::new("slurm", format!("{missing}; `make slurm-installed` installs it")));
            return None;
        }
        if !rustix::process::geteuid().is_root() {
            skip("jobs of Slurm", &Missing::new("slurm", "its daemons need root"));
            return None;
        }
        let slurm = Slurm { folder: tempfile::tempdir().unwrap(), nodes, daemons: Vec::new() };
        // The jobs' user reaches all of it by name.
        fs::set_permissions(slurm.folder.path(), Permissions::from_mode(0o755)).unwrap();
        for folder in ["bin", "state", "local"] {
            fs::create_dir(slurm.path(folder)).unwrap();
        }
        slurm.add_program(Path::new(env!("CARGO_BIN_EXE_terrace")));
        Some(slurm)
    }

    /// Adds a program to what jobs find in PATH.
    pub fn add_program(&self, program: &Path) {
        fs::copy(program, self.path("bin").join(program.file_name().unwrap())).unwrap();
    }

    /// The folder in which a node has its disk.
    fn disk(&self, node: &Node) -> PathBuf {
        self.path(&format!("disk.{}", node.name))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the guide's folder on the node's disk.
    fn here(&self, text: &str) -> String {
        text.replace("/local/", &format!("{}/", self.path("local").display()))
    }

    fn configure(&self, more: &str) {
        let at = self.folder.path().display();
        let ports = free_ports(self.nodes.len() + 1);
        let mut text = format!(
            "ClusterName=test\nSlurmctldHost=localhost(127.0.0.1)\nSlurmUser=root\nSlurmctldPort={}\n\
             AuthType=auth/munge\nAuthInfo=socket={at}/munge.socket,cred_expire=5\nCredType=cred/munge\nStateSaveLocation={at}/state\n\
             SlurmdSpoolDir={at}/spool.%n\nSlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd.%n.pid\n\
             SlurmctldLogFile={at}/slurmctld.log\nSlurmdLogFile={at}/slurmd.%n.log\nProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
             MpiDefault=none\nReturnToService=2\nSlurmdParameters=config_overrides\n{more}",
            ports[0]
        );
        for (Node { name, address, .. }, port) in self.nodes.iter().zip(&ports[1..]) {
            writeln!(text, "NodeName={name} NodeAddr={address} Port={port} CPUs=8").unwrap();
        }
        text.push_str("PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n");
        fs::write(self.path("slurm.conf"), text).unwrap();
    }

    /// Runs the daemons, with more lines of configuration.
    fn run_daemons(&mut self, more: &str) {
        self.configure(more);
        let below = |name: &str| self.path(name).display().to_string();
        fs::write(self.path("munge.key"), terrace_testkit::noise(1024, 1)).unwrap();
        fs::set_permissions(self.path("munge.key"), Permissions::from_mode(0o400)).unwrap();
        let mut munge = Command::new("munged");
        munge.args(["-F", "--force"]);
        for (flag, file) in
            [("socket", "socket"), ("key-file", "key"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed")]
        {
            munge.arg(format!("--{flag}={}", below(&format!("munge.{file}"))));
        }
        self.run_daemon("munged", munge);
        wait_until("munge answers", || self.path("munge.socket").exists());
        let mut controller = self.command("slurmctld");
        controller.args(["-D", "-c"]);
        self.run_daemon("slurmctld", controller);
        for number in 0..self.nodes.len() {
            let node = &self.nodes[number];
            let (name, daemon) = (format!("slurmd.{}", node.name), self.node_daemon(node));
            self.run_daemon(&name, daemon);
        }
        wait_until("the nodes are there", || self.is_idle());
    }

    /// The slurmd of a node. One with a disk of its own runs where `local` is this disk, and so do its jobs.
    fn node_daemon(&self, node: &Node) -> Command {
        let slurmd = ["slurmd", "-D", "-N", &node.name];
        if !node.has_own_disk {
            let mut command = self.command(slurmd[0]);
            command.args(&slurmd[1..]);
            return command;
        }
        let mut command = self.command("unshare");
        command.args(["--mount", "sh", "-c", r#"mount --bind "$0" "$1" && shift && exec "$@""#]);
        command.arg(self.disk(node)).arg(self.path("local")).args(slurmd);
        command
    }

    fn run_daemon(&mut self, name: &str, mut command: Command) {
        let log = fs::File::create(self.path(&format!("{name}.out"))).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.daemons.push(command.spawn().unwrap());
    }

    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        command.env("SLURM_CONF", self.path("slurm.conf")).env("PATH", path).current_dir(self.folder.path());
        command
    }

    pub fn ask(&self, program: &str, arguments: &[&str]) -> String {
        let Output { stdout, .. } = self.command(program).args(arguments).output().unwrap();
        String::from_utf8_lossy(&stdout).into_owned()
    }

    pub fn is_idle(&self) -> bool {
        self.ask("sinfo", &["-h", "-o", "%T"]).trim() == "idle"
    }

    /// Makes the folder of a job, with an input and a program, and submits the script.
    pub fn submit(&self, name: &str, script: &str, flags: &[&str], program: &str) -> Job<'_> {
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
pub struct Job<'s> {
    slurm: &'s Slurm,
    pub folder: PathBuf,
    pub id: String,
}

impl Job<'_> {
    pub fn shown(&self, field: &str) -> String {
        let shown = self.slurm.ask("scontrol", &["show", "job", "-o", &self.id]);
        let field = format!("{field}=");
        shown.split(' ').find_map(|word| word.strip_prefix(&field)).unwrap_or_default().to_owned()
    }

    pub fn wait_for_state(&self, state: &str) {
        let (mut last, log) = (String::new(), self.slurm.path("slurmctld.log"));
        wait_until(&format!("{} is {state}, see {}", self.folder.display(), log.display()), || {
            last = self.shown("JobState");
            last == state
        });
    }

    /// Waits until the job's program has put what it made into the store.
    pub fn wait_for_program(&self) {
        wait_until(&format!("{} has put it", self.folder.display()), || self.folder.join("has-put").exists());
    }

    /// Waits until the job's folder on the node is gone, which the epilog removes once all is safe.
    pub fn wait_for_end(&self) {
        wait_until("the epilog has ended", || !self.local().exists());
    }

    pub fn local(&self) -> PathBuf {
        self.slurm.path("local/terrace").join(&self.id)
    }

    pub fn result(&self, name: &str) -> String {
        let path = self.folder.join("results").join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}; {}", path.display(), self.printed()))
    }

    pub fn printed(&self) -> String {
        fs::read_to_string(self.folder.join("out.txt")).unwrap_or_default()
    }

    pub fn report(&self) -> Value {
        serde_json::from_slice(&fs::read(self.folder.join(format!("end-{}.json", self.id))).unwrap()).unwrap()
    }
}
