//! One store over the hosts of a job: each host is an address of this machine with a folder of its own, and runs `terrace cluster up`.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use terrace_testkit::{Missing, Random, skip, wait_until};

const HOSTS: [&str; 5] = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"];

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
    jobs.hosts = vec![HOSTS[0], HOSTS[1]];
    let ask = |host: &str| jobs.up_command(host);
    let is_said = |output: Output, words: &str| {
        let said = refused(&output);
        assert!(said.contains(words), "{said}");
    };
    is_said(ask(HOSTS[2]).output().unwrap(), "the host 127.0.0.3 is none of 127.0.0.1, 127.0.0.2");
    is_said(ask(HOSTS[0]).args(["--patience", "1s"]).output().unwrap(), "these hosts have not come in time: 127.0.0.2");
    is_said(ask(HOSTS[1]).args(["--patience", "1s"]).output().unwrap(), "the first host, 127.0.0.1, has not met");
    let mut without = jobs.command(HOSTS[0], &["cluster", "up", "--hosts", HOSTS[0], "--host", HOSTS[0]]);
    without.arg("--shared").arg(jobs.path("pfs/job")).arg("--local").arg(jobs.path("l")).env("PATH", "/nowhere");
    is_said(without.output().unwrap(), "there is no etcd in PATH");
    let at = |shared: &Path| {
        let mut up = jobs.command(HOSTS[0], &["cluster", "up", "--hosts", HOSTS[0], "--host", HOSTS[0], "--etcd"]);
        up.arg(etcd()).arg("--local").arg(jobs.path("l")).arg("--shared").arg(shared).output().unwrap()
    };
    is_said(at(&jobs.path("not-mounted/job")), "not-mounted/job");
    is_said(at(Path::new("/proc/job")), "/proc/job");
    is_said(at(&jobs.path("pfs")), "can be read by others");
    fs::write(jobs.path("tiers.toml"), "[[tier]]\nname = 'more'\nkind = 'memory'\n").unwrap();
    let mut with_tiers = jobs.command(HOSTS[0], &["cluster", "up", "--hosts", HOSTS[0], "--host", HOSTS[0], "--etcd"]);
    with_tiers.arg(etcd()).arg("--shared").arg(jobs.path("pfs/job")).arg("--local").arg(jobs.path("l"));
    is_said(with_tiers.arg("--config").arg(jobs.path("tiers.toml")).output().unwrap(), "leave [[tier]] out");
}

#[test]
fn a_job_has_one_store_over_its_hosts() {
    let Some(mut jobs) = Jobs::begin("a job's store") else { return };
    jobs.start(&HOSTS[..3], &["--capacity", "1GiB"]);
    let bytes = Random::new(1).bytes(3_000_000);
    jobs.put(HOSTS[0], "runs/a", &bytes);
    assert!(jobs.get(HOSTS[1], "runs/a") == bytes && jobs.get(HOSTS[2], "runs/a") == bytes);
    let status: serde_json::Value =
        serde_json::from_str(&told(&jobs.run(HOSTS[2], &["cluster", "status", "--json"]))).unwrap();
    assert!(status["nodes"].as_array().unwrap().iter().all(|node| node["there"] == true), "{status}");
    // No second job uses the folder of a host.
    assert!(refused(&jobs.up_command(HOSTS[1]).output().unwrap()).contains("another `terrace cluster up` uses"));
    let report = jobs.path("report.json");
    told(&jobs.command(HOSTS[2], &["cluster", "down", "--report"]).arg(&report).output().unwrap());
    assert_eq!(jobs.wait(), [Some(0); 3]);
    let report: serde_json::Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    assert_eq!(report["unsafe"].as_array().unwrap().len(), 0, "{report}");
}

#[test]
fn an_end_without_time_names_what_is_lost() {
    let Some(mut jobs) = Jobs::begin("a job that ends without time") else { return };
    jobs.start(&HOSTS[..2], &["--deadline", "0s"]);
    let bytes = Random::new(2).bytes(300_000);
    jobs.put(HOSTS[1], "kept", &bytes);
    told(&jobs.run(HOSTS[0], &["stage", "kept", "--tier", "shared"]));
    jobs.put(HOSTS[1], "late", &bytes);
    // A scheduler sends it to all, and more than once.
    jobs.signal_all(Signal::TERM);
    jobs.signal_all(Signal::TERM);
    assert_eq!(jobs.wait(), [Some(1), Some(1)]);
    for host in &HOSTS[..2] {
        let said = jobs.said(host);
        assert!(said.contains("1 object lost if the hosts' disks are:\n  late  300000 bytes"), "{said}");
    }
}
