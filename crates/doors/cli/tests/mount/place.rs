//! A store, and processes that mount it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use terrace_testkit::{Missing, skip};

pub struct Place {
    pub dir: TempDir,
    pub mount: PathBuf,
}

impl Place {
    /// A store of one tier, and a directory to mount it on. Skips the test where nothing can be mounted.
    pub fn new() -> Option<Place> {
        Place::with(|dir| format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{dir}/disk']\n"))
    }

    /// The same with memory above the disk, and a replica on each.
    pub fn of_two_tiers() -> Option<Place> {
        Place::with(|dir| {
            format!(
                "[store]\nreplicas = {{ min = 1, max = 2, default = 2 }}\n\
                 [[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{dir}/ram']\npersistent = false\n\
                 [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{dir}/disk']\n"
            )
        })
    }

    fn with(tiers: impl FnOnce(std::path::Display<'_>) -> String) -> Option<Place> {
        if let Err(error) = fs::File::options().read(true).write(true).open("/dev/fuse") {
            skip("a mounted store", &Missing::new("fuse", error));
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let mount = dir.path().join("mnt");
        fs::create_dir(&mount).unwrap();
        let config = dir.path().join("terrace.toml");
        fs::write(&config, tiers(dir.path().display())).unwrap();
        let place = Place { dir, mount };
        assert!(place.terrace().arg("init").arg("--config").arg(config).output().unwrap().status.success());
        Some(place)
    }

    pub fn terrace(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        command.env("TERRACE_STORE", self.dir.path().join("store"));
        command
    }

    /// Mounts in the foreground.
    pub fn mount(&self) -> Mounted<'_> {
        self.mount_on(&self.mount)
    }

    pub fn mount_on(&self, directory: &Path) -> Mounted<'_> {
        let mut child = self.terrace().arg("mount").arg(directory).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("is mounted on"), "{line:?}");
        Mounted { place: self, child }
    }

    pub fn mounted(&self) -> bool {
        let path = self.mount.display().to_string();
        fs::read_to_string("/proc/mounts").unwrap().lines().any(|line| line.split(' ').nth(1) == Some(&path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        for at in mounts.lines().filter_map(|line| line.split(' ').nth(1)) {
            if Path::new(at).starts_with(self.dir.path()) {
                let _ = Command::new("umount").args(["-l", at]).status();
            }
        }
    }
}

pub struct Mounted<'a> {
    pub place: &'a Place,
    child: Child,
}

impl Mounted<'_> {
    pub fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until it has ended by itself.
    pub fn ends(&mut self) -> i32 {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it has not ended");
    }

    pub fn most_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
