//! One store over the hosts of a job: each host is an address of this machine with a folder of its own, and runs `terrace cluster up`.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use terrace_testkit::{Missing, Random, SmallDisk, skip, wait_until};

const LOOPBACK_HOSTS: [&str; 5] = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"];

fn etcd() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/servers/etcd/etcd")
}

/// The process of `terrace cluster up` on a host. It is killed when this is dropped, and etcd with it.
struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).unwrap();
    }
}

/// A folder that all hosts see, and the jobs that use it one after the other.
struct Jobs {
    folder: tempfile::TempDir,
    /// The hosts of the present job.
    hosts: Vec<&'static str>,
    running: Vec<Up>,
}

impl Jobs {
    /// None if the test must be skipped.
    fn begin(test: &str) -> Option<Jobs> {
        if !etcd().is_file() {
            skip(test, &Missing::new("etcd", "there is no etcd in target/servers; `make etcd` builds it"));
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("pfs")).unwrap();
        Some(Jobs { folder, hosts: Vec::new(), running: Vec::new() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn said(&self, host: &str) -> String {
        fs::read_to_string(self.path(&format!("{host}.log"))).unwrap_or_default()
    }

    fn command(&self, host: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        command.args(arguments).env("TERRACE_STORE", self.path(host).join("store")).stdin(Stdio::null());
        command
    }

    fn run(&self, host: &str, arguments: &[&str]) -> Output {
        self.command(host, arguments).output().unwrap()
    }

    fn up_command(&self, host: &str) -> Command {
        let mut up = self.command(host, &["cluster", "up", "--host", host, "--hosts", &self.hosts.join(",")]);
        up.arg("--shared").arg(self.path("pfs/job")).arg("--local").arg(self.path(host)).arg("--etcd").arg(etcd());
        up
    }

    /// Starts a job, and waits until its store can be used.
    fn start(&mut self, hosts: &[&'static str], more: &[&str]) {
        self.hosts = hosts.to_vec();
        for host in hosts {
            let log = File::create(self.path(&format!("{host}.log"))).unwrap();
            let mut up = self.up_command(host);
            up.args(more).stdout(log.try_clone().unwrap()).stderr(log);
            self.running.push(Up(up.spawn().unwrap()));
        }
        wait_until("the store can be used", || {
            for (host, up) in self.hosts.iter().zip(&mut self.running) {
                let ended = up.0.try_wait().unwrap();
                assert!(
                    ended.is_none(),
                    "{host} has ended:\n{}",
                    fs::read_to_string(self.folder.path().join(format!("{host}.log"))).unwrap()
                );
            }
            self.hosts.iter().all(|host| self.said(host).contains("can be used"))
        });
    }

    fn put(&self, host: &str, key: &str, bytes: &[u8]) {
        let file = self.path("to-put");
        fs::write(&file, bytes).unwrap();
        told(&self.command(host, &["put"]).arg(file).arg(key).output().unwrap());
    }

    fn get(&self, host: &str, key: &str) -> Vec<u8> {
        let got = self.run(host, &["cat", key]);
        assert!(got.status.success(), "{key} on {host}: {}", String::from_utf8_lossy(&got.stderr));
        got.stdout
    }

    fn signal_all(&self, signal: Signal) {
        self.running.iter().for_each(|up| kill_process(Pid::from_child(&up.0), signal).unwrap());
    }

    /// Kills the job, and waits until etcd has ended with it.
    fn kill(&mut self) {
        let plan: serde_json::Value =
            serde_json::from_slice(&fs::read(self.path("pfs/job/plan.json")).unwrap()).unwrap();
        let port = plan["arrivals"][self.hosts[0]]["client_port"].as_u64().unwrap() as u16;
        assert!(TcpStream::connect((self.hosts[0], port)).is_ok());
        self.running.clear();
        wait_until("etcd has ended", || TcpStream::connect((self.hosts[0], port)).is_err());
    }

    /// Waits until all processes of the job have ended, and returns their exit codes.
    fn wait(&mut self) -> Vec<Option<i32>> {
        let mut codes = Vec::new();
        wait_until("the job has ended", || self.running.iter_mut().all(|up| up.0.try_wait().unwrap().is_some()));
        for mut up in self.running.drain(..) {
            codes.push(up.0.wait().unwrap().code());
        }
        codes
    }
}

fn told(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the message of a command that fails.
fn refused(output: &Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn wrong_options_are_named() {
    let Some(mut jobs) = Jobs::begin("wrong options of a job") else { return };
    jobs.hosts = vec![LOOPBACK_HOSTS[0], LOOPBACK_HOSTS[1]];
    let ask = |host: &str| jobs.up_command(host);
    let is_said = |output: Output, words: &str| {
        let said = refused(&output);
        assert!(said.contains(words), "{said}");
    };
    is_said(ask(LOOPBACK_HOSTS[2]).output().unwrap(), "the host 127.0.0.3 is none of 127.0.0.1, 127.0.0.2");
    is_said(
        ask(LOOPBACK_HOSTS[0]).args(["--patience", "1s"]).output().unwrap(),
        "these hosts have not come in time: 127.0.0.2",
    );
    is_said(
        ask(LOOPBACK_HOSTS[1]).args(["--patience", "1s"]).output().unwrap(),
        "the first host, 127.0.0.1, has not met",
    );
    let mut without =
        jobs.command(LOOPBACK_HOSTS[0], &["cluster", "up", "--hosts", LOOPBACK_HOSTS[0], "--host", LOOPBACK_HOSTS[0]]);
    without.arg("--shared").arg(jobs.path("pfs/job")).arg("--local").arg(jobs.path("l")).env("PATH", "/nowhere");
    is_said(without.output().unwrap(), "there is no etcd in PATH");
    let at = |shared: &Path| {
        let mut up = jobs.command(
            LOOPBACK_HOSTS[0],
            &["cluster", "up", "--hosts", LOOPBACK_HOSTS[0], "--host", LOOPBACK_HOSTS[0], "--etcd"],
        );
        up.arg(etcd()).arg("--local").arg(jobs.path("l")).arg("--shared").arg(shared).output().unwrap()
    };
    is_said(at(&jobs.path("not-mounted/job")), "not-mounted/job");
    is_said(at(Path::new("/proc/job")), "/proc/job");
    is_said(at(&jobs.path("pfs")), "can be read by others");
    fs::write(jobs.path("tiers.toml"), "[[tier]]\nname = 'more'\nkind = 'memory'\n").unwrap();
    let mut with_tiers = jobs.command(
        LOOPBACK_HOSTS[0],
        &["cluster", "up", "--hosts", LOOPBACK_HOSTS[0], "--host", LOOPBACK_HOSTS[0], "--etcd"],
    );
    with_tiers.arg(etcd()).arg("--shared").arg(jobs.path("pfs/job")).arg("--local").arg(jobs.path("l"));
    is_said(with_tiers.arg("--config").arg(jobs.path("tiers.toml")).output().unwrap(), "leave [[tier]] out");
}

#[test]
fn a_job_has_one_store_over_its_hosts() {
    let Some(mut jobs) = Jobs::begin("a job's store") else { return };
    jobs.start(&LOOPBACK_HOSTS[..3], &["--capacity", "1GiB"]);
    let bytes = Random::new(1).bytes(3_000_000);
    jobs.put(LOOPBACK_HOSTS[0], "runs/a", &bytes);
    assert!(jobs.get(LOOPBACK_HOSTS[1], "runs/a") == bytes && jobs.get(LOOPBACK_HOSTS[2], "runs/a") == bytes);
    let status: serde_json::Value =
        serde_json::from_str(&told(&jobs.run(LOOPBACK_HOSTS[2], &["cluster", "status", "--json"]))).unwrap();
    assert!(status["nodes"].as_array().unwrap().iter().all(|node| node["there"] == true), "{status}");
    // No second job uses the folder of a host.
    assert!(
        refused(&jobs.up_command(LOOPBACK_HOSTS[1]).output().unwrap()).contains("another `terrace cluster up` uses")
    );
    let report = jobs.path("report.json");
    told(&jobs.command(LOOPBACK_HOSTS[2], &["cluster", "down", "--report"]).arg(&report).output().unwrap());
    assert_eq!(jobs.wait(), [Some(0); 3]);
    let report: serde_json::Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    assert_eq!(report["unsafe"].as_array().unwrap().len(), 0, "{report}");
}

#[test]
fn an_end_without_time_names_what_is_lost() {
    let Some(mut jobs) = Jobs::begin("a job that ends without time") else { return };
    jobs.start(&LOOPBACK_HOSTS[..2], &["--deadline", "0s"]);
    let bytes = Random::new(2).bytes(300_000);
    jobs.put(LOOPBACK_HOSTS[1], "kept", &bytes);
    told(&jobs.run(LOOPBACK_HOSTS[0], &["stage", "kept", "--tier", "shared"]));
    jobs.put(LOOPBACK_HOSTS[1], "late", &bytes);
    // A scheduler sends it to all, and more than once.
    jobs.signal_all(Signal::TERM);
    jobs.signal_all(Signal::TERM);
    assert_eq!(jobs.wait(), [Some(1), Some(1)]);
    for host in &LOOPBACK_HOSTS[..2] {
        let said = jobs.said(host);
        assert!(said.contains("1 object not saved:\n  late  300000 bytes"), "{said}");
    }
}

/// Slurm signals all processes of a job: etcd ended at once, and the hosts could not tell each other that the job ends.
#[test]
fn a_signal_to_all_processes_of_a_job_ends_it() {
    let Some(mut jobs) = Jobs::begin("a job whose etcd gets a signal, too") else { return };
    jobs.start(&LOOPBACK_HOSTS[..2], &["--save-every", "1h"]);
    let bytes = Random::new(1).bytes(300_000);
    jobs.put(LOOPBACK_HOSTS[1], "late", &bytes);
    for up in &jobs.running {
        let id = up.0.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        for child in children.split_whitespace().filter_map(|child| Pid::from_raw(child.parse().unwrap())) {
            kill_process(child, Signal::TERM).unwrap();
        }
    }
    jobs.signal_all(Signal::TERM);
    let ended = jobs.wait();
    let said = format!("{}{}", jobs.said(LOOPBACK_HOSTS[0]), jobs.said(LOOPBACK_HOSTS[1]));
    assert!(ended == [Some(0); 2] && said.contains("etcd has ended") && said.contains("is started again"), "{said}");
    jobs.start(&LOOPBACK_HOSTS[2..4], &[]);
    assert!(jobs.get(LOOPBACK_HOSTS[3], "late") == bytes);
}

#[test]
fn the_next_job_goes_on_on_other_hosts() {
    let Some(mut jobs) = Jobs::begin("jobs that go on") else { return };
    fs::write(
        jobs.path("rules.toml"),
        "[store]\nreplicas = { default = 1 }\n[[rule]]\nprefix = 'twice'\nreplicas = 2\n",
    )
    .unwrap();
    let rules = jobs.path("rules.toml");
    jobs.start(&LOOPBACK_HOSTS[..3], &["--config", rules.to_str().unwrap()]);
    let contents: Vec<Vec<u8>> = (0..6).map(|n| Random::new(n).bytes(400_000 + n as usize)).collect();
    for (n, bytes) in contents.iter().enumerate() {
        jobs.put(LOOPBACK_HOSTS[n % 3], &format!("{}/{n}", ["once", "twice"][n / 3]), bytes);
    }
    told(&jobs.run(LOOPBACK_HOSTS[1], &["cluster", "down"]));
    assert_eq!(jobs.wait(), [Some(0); 3]);
    // On other hosts, without the disks of the first.
    jobs.start(&LOOPBACK_HOSTS[3..], &[]);
    let has_all = |jobs: &Jobs, host: &str| {
        for (n, bytes) in contents.iter().enumerate() {
            assert!(jobs.get(host, &format!("{}/{n}", ["once", "twice"][n / 3])) == *bytes);
        }
    };
    has_all(&jobs, LOOPBACK_HOSTS[3]);
    has_all(&jobs, LOOPBACK_HOSTS[4]);
    // What the first job's disks had is made on those of this one.
    wait_until("each object has two replicas again", || {
        (3..6).all(|n| {
            let located = told(&jobs.run(LOOPBACK_HOSTS[3], &["locate", &format!("twice/{n}")]));
            located.contains("shared") && LOOPBACK_HOSTS[3..].iter().any(|host| located.contains(&format!("{host}: ")))
        })
    });
    let config = fs::read_to_string(jobs.path(LOOPBACK_HOSTS[4]).join("store/terrace.toml")).unwrap();
    assert!(config.contains("prefix = \"twice\"") && !config.contains("127.0.0.1:"), "{config}");
    jobs.put(LOOPBACK_HOSTS[4], "later", &contents[0]);
    told(&jobs.run(LOOPBACK_HOSTS[3], &["rm", "once/0"]));
    told(&jobs.run(LOOPBACK_HOSTS[3], &["mv", "once/1", "once/0"]));
    jobs.signal_all(Signal::TERM);
    assert_eq!(jobs.wait(), [Some(0); 2]);
    // One host of the first job, whose disk still has what it had, and one of the second.
    jobs.start(&[LOOPBACK_HOSTS[0], LOOPBACK_HOSTS[4]], &[]);
    assert!(
        jobs.said(LOOPBACK_HOSTS[0]).contains("another job went on without what it holds"),
        "{}",
        jobs.said(LOOPBACK_HOSTS[0])
    );
    assert!(
        jobs.get(LOOPBACK_HOSTS[0], "later") == contents[0] && jobs.get(LOOPBACK_HOSTS[4], "once/0") == contents[1]
    );
    // A third job may not use the folder meanwhile.
    jobs.hosts = vec![LOOPBACK_HOSTS[1]];
    let other = refused(&jobs.up_command(LOOPBACK_HOSTS[1]).output().unwrap());
    assert!(other.contains("a job on 127.0.0.1, 127.0.0.5 uses the shared folder"), "{other}");
}

#[test]
fn a_killed_job_leaves_what_was_saved_and_the_rest_is_named() {
    let Some(mut jobs) = Jobs::begin("a killed job") else { return };
    let bytes: Vec<Vec<u8>> = (0..3).map(|n| Random::new(n).bytes(300_000)).collect();
    jobs.start(&LOOPBACK_HOSTS[..2], &["--save-every", "1s"]);
    jobs.put(LOOPBACK_HOSTS[0], "shared", &bytes[0]);
    told(&jobs.run(LOOPBACK_HOSTS[1], &["stage", "shared", "--tier", "shared"]));
    jobs.put(LOOPBACK_HOSTS[0], "local", &bytes[1]);
    let commit = told(&jobs.run(LOOPBACK_HOSTS[0], &["cluster", "status", "--json"]));
    let commit: serde_json::Value = serde_json::from_str(&commit).unwrap();
    let saved = jobs.path("pfs/job/saved.json");
    wait_until("the catalog is saved", || {
        let saved: serde_json::Value = serde_json::from_slice(&fs::read(&saved).unwrap()).unwrap();
        saved["sequence"].as_u64() >= commit["commit"].as_u64()
    });
    jobs.kill();
    // The same hosts have their disks.
    jobs.start(&LOOPBACK_HOSTS[..2], &["--save-every", "1h"]);
    assert!(jobs.get(LOOPBACK_HOSTS[0], "local") == bytes[1] && jobs.get(LOOPBACK_HOSTS[1], "shared") == bytes[0]);
    // Not saved, so the old content is what the next job has.
    jobs.put(LOOPBACK_HOSTS[0], "shared", &bytes[2]);
    jobs.put(LOOPBACK_HOSTS[0], "unsaved", &bytes[2]);
    told(&jobs.run(LOOPBACK_HOSTS[0], &["sync"]));
    // What the saved catalog names is not given back: no node says that it is further than that.
    let status: serde_json::Value =
        serde_json::from_str(&told(&jobs.run(LOOPBACK_HOSTS[0], &["cluster", "status", "--json"]))).unwrap();
    let sequence: serde_json::Value = serde_json::from_slice(&fs::read(&saved).unwrap()).unwrap();
    let sequence = sequence["sequence"].as_u64().unwrap();
    assert!(status["commit"].as_u64().unwrap() > sequence);
    assert!(
        status["nodes"].as_array().unwrap().iter().all(|node| node["reported"].as_u64().unwrap() <= sequence),
        "{status}"
    );
    jobs.kill();
    jobs.start(&LOOPBACK_HOSTS[2..4], &[]);
    assert!(jobs.get(LOOPBACK_HOSTS[3], "shared") == bytes[0]);
    let said = jobs.said(LOOPBACK_HOSTS[2]);
    assert!(said.contains("1 object had bytes only on disks that are not here any more"), "{said}");
    assert!(said.contains("\n  local  300000 bytes"), "{said}");
    assert!(!jobs.run(LOOPBACK_HOSTS[2], &["cat", "local"]).status.success());
    assert!(refused(&jobs.run(LOOPBACK_HOSTS[2], &["stat", "unsaved"])).contains("unsaved"));
    // It is put again, and all is well.
    jobs.put(LOOPBACK_HOSTS[2], "local", &bytes[1]);
    told(&jobs.run(LOOPBACK_HOSTS[3], &["cluster", "down"]));
    assert_eq!(jobs.wait(), [Some(0); 2]);
}

/// Writes a program that stands for one of Slurm.
fn write_program(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/bash\n{text}")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The script of the guide, with programs in the place of Slurm's that run each task on this machine.
#[test]
fn the_script_of_the_guide_runs() {
    let Some(jobs) = Jobs::begin("the script of a Slurm job") else { return };
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/guide/cluster.md");
    let guide = fs::read_to_string(guide).unwrap();
    let script = guide.split("```sh job.sh\n").nth(1).unwrap().split("```").next().unwrap();
    let root = jobs.folder.path().display().to_string();
    let script = script.replace("/pfs/me", &format!("{root}/pfs"));
    let script = script.replace("=/local/", &format!("={root}/{}/", LOOPBACK_HOSTS[0]));
    fs::write(jobs.path("job.sh"), script).unwrap();
    fs::create_dir_all(jobs.path("pfs/input")).unwrap();
    fs::create_dir(jobs.path("bin")).unwrap();
    let bytes = Random::new(5).bytes(200_000);
    fs::write(jobs.path("pfs/input/a"), &bytes).unwrap();
    write_program(
        &jobs.path("bin/scontrol"),
        &format!(
            "[ \"$*\" = 'show hostnames hosts[1-2]' ] && printf '%s\\n' {} {}\n",
            LOOPBACK_HOSTS[0], LOOPBACK_HOSTS[1]
        ),
    );
    let srun = "while [[ $1 == --* ]]; do shift; done\nfor host in HOSTS; do\n  \
                SLURMD_NODENAME=$host TERRACE_STORE=ROOT/$host/terrace/store \"${@//\\/local\\//ROOT/$host/}\" &\ndone\nwait\n";
    write_program(
        &jobs.path("bin/srun"),
        &srun.replace("ROOT", &root).replace("HOSTS", &LOOPBACK_HOSTS[..2].join(" ")),
    );
    let terrace = Path::new(env!("CARGO_BIN_EXE_terrace")).parent().unwrap();
    let etcd = etcd().parent().unwrap().display().to_string();
    let path = format!("{root}/bin:{etcd}:{}:{}", terrace.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.arg("job.sh").current_dir(jobs.folder.path()).env("PATH", path).env("SLURM_JOB_NODELIST", "hosts[1-2]");
    let done = bash.env_remove("SLURM_STEP_NODELIST").stdin(Stdio::null()).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && said.contains("all objects are saved"), "{said}");
    for host in &LOOPBACK_HOSTS[..2] {
        assert!(fs::read(jobs.path(host).join("copy/a")).unwrap() == bytes, "{said}");
    }
    assert!(fs::read_to_string(jobs.path("end.json")).unwrap().contains("\"unsafe\": []"));
}

#[test]
fn a_host_that_dies_keeps_what_only_it_has() {
    let Some(mut jobs) = Jobs::begin("a job with a host that dies") else { return };
    fs::write(jobs.path("once.toml"), "[store]\nreplicas = { default = 1 }\n").unwrap();
    let once = jobs.path("once.toml");
    jobs.start(&LOOPBACK_HOSTS[..3], &["--config", once.to_str().unwrap(), "--save-every", "1s"]);
    let bytes: Vec<Vec<u8>> = (0..3).map(|n| Random::new(n).bytes(200_000)).collect();
    jobs.put(LOOPBACK_HOSTS[0], "on the first", &bytes[0]);
    jobs.put(LOOPBACK_HOSTS[2], "on the last", &bytes[1]);
    let archive = format!(
        "[[tier]]\nname = 'archive'\nkind = 'object'\nservice = 'fs'\ntargets = ['{}']\n",
        jobs.path("pfs/archive").display()
    );
    fs::write(jobs.path("archive.toml"), archive).unwrap();
    told(&jobs.command(LOOPBACK_HOSTS[1], &["tiers", "add"]).arg(jobs.path("archive.toml")).output().unwrap());
    let located = told(&jobs.run(LOOPBACK_HOSTS[0], &["locate", "on the last"]));
    assert!(located.contains("127.0.0.3: "), "{located}");
    jobs.put(LOOPBACK_HOSTS[2], "unsynced", &bytes[2]);
    // Before the host has noted that it has synced that.
    drop(jobs.running.pop());
    let down = jobs.run(LOOPBACK_HOSTS[1], &["cluster", "down"]);
    let ended = jobs.wait();
    let said = format!("{}{}", String::from_utf8_lossy(&down.stdout), String::from_utf8_lossy(&down.stderr));
    let logs = || format!("{said}{}{}", jobs.said(LOOPBACK_HOSTS[0]), jobs.said(LOOPBACK_HOSTS[1]));
    let names = "2 objects not saved:\n  on the last  200000 bytes\n  unsynced  200000 bytes";
    assert!(!down.status.success() && said.contains(names), "{}", logs());
    assert_eq!(ended, [Some(1); 2], "{}", logs());
    // Its disk has it. The tier that was added stays, too.
    jobs.start(&LOOPBACK_HOSTS[2..4], &[]);
    assert!(
        jobs.get(LOOPBACK_HOSTS[3], "on the last") == bytes[1]
            && jobs.get(LOOPBACK_HOSTS[3], "on the first") == bytes[0]
            && jobs.get(LOOPBACK_HOSTS[3], "unsynced") == bytes[2]
    );
    told(&jobs.run(LOOPBACK_HOSTS[3], &["stage", "on the last", "--tier", "archive"]));
    told(&jobs.run(LOOPBACK_HOSTS[3], &["cluster", "down"]));
    assert_eq!(jobs.wait(), [Some(0); 2]);
    jobs.start(&LOOPBACK_HOSTS[..1], &[]);
    assert!(jobs.get(LOOPBACK_HOSTS[0], "on the last") == bytes[1]);
    let located = told(&jobs.run(LOOPBACK_HOSTS[0], &["locate", "on the last"]));
    assert!(located.contains("archive") && !located.contains("shared"), "{located}");
}

/// Copies to a shared folder that became full left no room for the catalog: no object was named, and the next job had none.
#[test]
fn copies_that_fill_the_shared_folder_leave_room_for_the_catalog() {
    let test = "a full shared folder";
    let Some(mut jobs) = Jobs::begin(test) else { return };
    let Some(disk) = SmallDisk::mount(test, &jobs.path("pfs/job"), "size=12m,mode=700") else { return };
    jobs.start(&LOOPBACK_HOSTS[..2], &[]);
    let contents: Vec<Vec<u8>> = (0..40).map(|n| Random::new(n).bytes(600_000)).collect();
    fs::create_dir(jobs.path("in")).unwrap();
    contents.iter().enumerate().for_each(|(n, bytes)| fs::write(jobs.path("in").join(n.to_string()), bytes).unwrap());
    told(
        &jobs.command(LOOPBACK_HOSTS[0], &["put", "--ack", "durable"]).arg(jobs.path("in")).arg("in").output().unwrap(),
    );
    let report = jobs.path("report.json");
    let down = jobs.command(LOOPBACK_HOSTS[1], &["cluster", "down", "--report"]).arg(&report).output().unwrap();
    let said = String::from_utf8_lossy(&down.stdout).into_owned();
    assert!(down.status.code() == Some(1) && said.contains("objects not saved:\n  in/"), "{said}");
    assert_eq!(jobs.wait(), [Some(1); 2]);
    let report: serde_json::Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    let named = report["unsafe"].as_array().unwrap();
    assert!((20..40).contains(&named.len()) && report["failure"].is_null(), "{report}");
    // The hosts' disks have what the report names.
    disk.remount("size=100m");
    jobs.start(&LOOPBACK_HOSTS[..2], &[]);
    for (n, bytes) in contents.iter().enumerate() {
        assert!(jobs.get(LOOPBACK_HOSTS[0], &format!("in/{n}")) == *bytes, "in/{n}");
    }
    told(&jobs.run(LOOPBACK_HOSTS[1], &["cluster", "down"]));
    assert_eq!(jobs.wait(), [Some(0); 2]);
    // Without those disks, the next job has all.
    jobs.start(&LOOPBACK_HOSTS[2..3], &[]);
    for (n, bytes) in contents.iter().enumerate() {
        assert!(jobs.get(LOOPBACK_HOSTS[2], &format!("in/{n}")) == *bytes, "in/{n}");
    }
    jobs.running.clear();
}

#[test]
fn a_catalog_that_finds_no_room_leaves_the_one_before_and_names_what_that_lacks() {
    let test = "a shared folder without room for the catalog";
    let Some(mut jobs) = Jobs::begin(test) else { return };
    let Some(disk) = SmallDisk::mount(test, &jobs.path("pfs/job"), "size=12m,mode=700") else { return };
    let bytes = Random::new(3).bytes(200_000);
    jobs.start(&LOOPBACK_HOSTS[..1], &["--save-every", "1s"]);
    jobs.put(LOOPBACK_HOSTS[0], "early", &bytes);
    told(&jobs.run(LOOPBACK_HOSTS[0], &["stage", "early", "--tier", "shared"]));
    let commit = told(&jobs.run(LOOPBACK_HOSTS[0], &["cluster", "status", "--json"]));
    let commit: serde_json::Value = serde_json::from_str(&commit).unwrap();
    let saved = jobs.path("pfs/job/saved.json");
    let read = || serde_json::from_slice::<serde_json::Value>(&fs::read(&saved).unwrap()).unwrap();
    wait_until("the catalog is saved", || read()["sequence"].as_u64() >= commit["commit"].as_u64());
    let is_old = |said: &str| !said.contains("the catalog is not saved");
    assert!(is_old(&jobs.said(LOOPBACK_HOSTS[0])), "{}", jobs.said(LOOPBACK_HOSTS[0]));
    // Somebody takes the room that is kept.
    let folder = jobs.path("pfs/job");
    let take_room = || {
        let entries = fs::read_dir(folder.join("saved")).unwrap().map(|entry| entry.unwrap().path());
        let rooms = entries.filter(|path| path.extension().is_some_and(|extension| extension == "new"));
        for room in rooms.chain([folder.join("room")]) {
            // The job may have used it meanwhile.
            let _ = fs::remove_file(room);
        }
        disk.fill_but(0);
    };
    wait_until("the folder is full, and the catalog is not saved", || {
        take_room();
        jobs.put(LOOPBACK_HOSTS[0], "late", &bytes);
        !is_old(&jobs.said(LOOPBACK_HOSTS[0]))
    });
    let before = read();
    let down = jobs.run(LOOPBACK_HOSTS[0], &["cluster", "down"]);
    let _ = jobs.wait();
    let said = format!("{}{}", String::from_utf8_lossy(&down.stdout), jobs.said(LOOPBACK_HOSTS[0]));
    assert!(down.status.code() == Some(1) && said.contains("\n  late  200000 bytes"), "{said}");
    assert!(!said.contains("  early"), "{said}");
    assert_eq!(read(), before);
    disk.make_room();
    jobs.start(&LOOPBACK_HOSTS[1..2], &[]);
    assert!(jobs.get(LOOPBACK_HOSTS[1], "early") == bytes);
    // If the catalog before cannot be read either, all objects are named.
    let before = jobs.path("pfs/job/saved").join(read()["file"].as_str().unwrap());
    File::options().write(true).open(before).unwrap().set_len(100).unwrap();
    take_room();
    let down = jobs.run(LOOPBACK_HOSTS[1], &["cluster", "down"]);
    let _ = jobs.wait();
    let said = format!("{}{}", String::from_utf8_lossy(&down.stdout), jobs.said(LOOPBACK_HOSTS[1]));
    assert!(down.status.code() == Some(1) && said.contains("\n  early  200000 bytes"), "{said}");
    assert!(said.contains("all objects are named"), "{said}");
    jobs.running.clear();
}

/// The second of two jobs that began at once said that a certificate was missing, which the first had removed.
#[test]
fn of_two_jobs_that_begin_at_once_one_says_that_another_uses_the_folder() {
    let Some(mut jobs) = Jobs::begin("two jobs at once") else { return };
    for hosts in [[0, 1], [2, 3]] {
        jobs.hosts = hosts.map(|host| LOOPBACK_HOSTS[host]).to_vec();
        for host in jobs.hosts.clone() {
            let log = File::create(jobs.path(&format!("{host}.log"))).unwrap();
            let mut up = jobs.up_command(host);
            up.args(["--patience", "20s"]).stdout(log.try_clone().unwrap()).stderr(log);
            jobs.running.push(Up(up.spawn().unwrap()));
        }
    }
    let mut ended: Vec<&str> = Vec::new();
    wait_until("the first host of a job has ended", || {
        let ends = LOOPBACK_HOSTS.into_iter().zip(&mut jobs.running);
        ended = ends.filter_map(|(host, up)| up.0.try_wait().unwrap().map(|_| host)).collect();
        ended.contains(&LOOPBACK_HOSTS[0]) || ended.contains(&LOOPBACK_HOSTS[2])
    });
    for host in ended {
        let said = jobs.said(host);
        assert!(
            said.contains("another job") || said.contains("uses the shared folder") || said.contains("in time"),
            "{said}"
        );
    }
}

/// The first host of one job removed a file that a host of another was writing.
#[test]
fn a_host_that_says_where_it_is_while_another_job_begins_waits_for_its_own() {
    let Some(mut jobs) = Jobs::begin("a host of another job") else { return };
    jobs.hosts = LOOPBACK_HOSTS[1..3].to_vec();
    let late = LOOPBACK_HOSTS[2];
    let log = File::create(jobs.path(&format!("{late}.log"))).unwrap();
    let mut up = jobs.up_command(late);
    // Its first file that is replaced is the one in the shared folder.
    up.args(["--patience", "30s"]).env("TERRACE_STOP_POINT", "replace:written");
    let mut waiting = Up(up.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
    let folder = jobs.path("pfs/job/hosts");
    let is_written = |name: &str| name.starts_with(&format!("{late}.json."));
    wait_until("the file is written under another name", || {
        let entries = fs::read_dir(&folder).into_iter().flatten();
        let is_there = entries.map(|entry| entry.unwrap().file_name()).any(|name| is_written(name.to_str().unwrap()));
        is_there && is_stopped(&waiting.0)
    });
    jobs.start(&LOOPBACK_HOSTS[..1], &[]);
    kill_process(Pid::from_child(&waiting.0), Signal::CONT).unwrap();
    wait_until("the file has its name", || folder.join(format!("{late}.json")).exists());
    assert_eq!(waiting.0.try_wait().unwrap(), None, "{}", jobs.said(late));
    told(&jobs.run(LOOPBACK_HOSTS[0], &["cluster", "down"]));
    assert_eq!(jobs.wait(), [Some(0)]);
    jobs.running.clear();
}

fn is_stopped(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    // The state follows the name, which is in parentheses.
    status.rsplit_once(") ").is_some_and(|(_, after)| after.starts_with('T'))
}
