//! A machine with a store on the recorded disk and a tier in memory: what runs `terrace`, and loses the power.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use terrace_testkit::Random;

use crate::model::{Objects, Task, apply, content};

/// A command that takes longer hangs.
const MAX_COMMAND_SECONDS: &str = "120";

/// The number of what is put after a cut.
const LATER_CONTENT: u64 = 1 << 60;

pub struct Machine {
    disk: PathBuf,
    /// Outside the disk: the first tier, and files that are put and got.
    memory: TempDir,
    layout: &'static str,
    pub targets: &'static [&'static str],
    /// Limits of the engine, small for some machines, so that short runs meet them.
    limits: &'static [(&'static str, &'static str)],
    boots: u64,
    /// Whether `terrace` may call a target an older copy of itself: it may if the power went while a command ran.
    pub may_seem_older: bool,
}

/// The results of a command.
pub struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    /// Its output, if it ended with a code up to this one.
    fn up_to(self, max_code: i32) -> Result<String, String> {
        let Ran { code, out, err } = self;
        if code.is_some_and(|code| code <= max_code) { Ok(out) } else { Err(format!("{code:?}: {out}{err}")) }
    }

    /// Whether it was refused because the store's directory is an older copy, with advice.
    pub fn is_refused_as_older(&self) -> bool {
        let says = |text: &str| self.err.contains(text);
        self.code == Some(1)
            && says("the store's directory")
            && says("an older copy of itself")
            && says("terrace rebuild")
    }
}

impl Machine {
    pub fn new(disk: &Path, random: &mut Random) -> Machine {
        let parent = Path::new("/dev/shm");
        let parent = if parent.is_dir() { parent.to_owned() } else { std::env::temp_dir() };
        Machine {
            disk: disk.to_owned(),
            memory: tempfile::tempdir_in(parent).unwrap(),
            layout: random.pick::<&str>(&["frames", "plain"]),
            targets: random.pick::<&[&str]>(&[&["disk"], &["one", "two"]]),
            limits: random.pick::<&[_]>(&[&[], &[("TERRACE_LOG_FILE", "4096"), ("TERRACE_STAGE_BYTES", "200000")]]),
            boots: 1,
            may_seem_older: false,
        }
    }

    pub fn in_memory(&self, name: &str) -> PathBuf {
        self.memory.path().join(name)
    }

    /// Another program's files, which the store adopts.
    fn owned(&self) -> PathBuf {
        self.disk.join("owned")
    }

    /// Checks that the owner's files with these numbers are there, with their bytes.
    pub fn check_owned(&self, synced: &[u64], at: &str) {
        if self.layout != "plain" {
            return;
        }
        for number in synced {
            let bytes = fs::read(self.owned().join(number.to_string()));
            let bytes = bytes.unwrap_or_else(|error| panic!("the owner's file {number}: {error}, {at}"));
            assert!(bytes == content(*number), "the owner's file {number} has {} wrong bytes, {at}", bytes.len());
        }
    }

    /// Runs `terrace`.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new("timeout");
        command.arg(MAX_COMMAND_SECONDS).arg(env!("CARGO_BIN_EXE_terrace")).args(arguments);
        command.env("TERRACE_STORE", self.store()).env("TERRACE_BOOT_ID", format!("boot {}", self.boots));
        let output = command.envs(self.limits.iter().copied()).output().unwrap();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran { code: output.status.code(), out: said(&output.stdout), err: said(&output.stderr) }
    }

    /// Runs `terrace`, which must end with a code up to this one; its output.
    pub fn terrace_up_to(&self, max_code: i32, arguments: &[&str], at: &str) -> String {
        let ran = self.run(arguments);
        let seems_older = ran.err.contains("this target is an older copy of itself");
        assert!(self.may_seem_older || !seems_older, "{arguments:?}: {}, {at}", ran.err);
        ran.up_to(max_code).unwrap_or_else(|error| panic!("{arguments:?}: {error}, {at}"))
    }

    pub fn terrace(&self, arguments: &[&str], at: &str) -> String {
        self.terrace_up_to(0, arguments, at)
    }

    fn store(&self) -> PathBuf {
        self.disk.join("store")
    }

    /// Makes the store; it is durable before anything is recorded that a cut may take.
    pub fn init(&self) {
        let targets: Vec<String> =
            self.targets.iter().map(|name| format!("'{}'", self.disk.join(name).display())).collect();
        let config = format!(
            "[store]\nreplicas = {{ default = 2 }}\n\
             [[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{}']\npersistent = false\n\
             [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = [{}]\nlayout = '{}'\n",
            self.in_memory("ram").display(),
            targets.join(", "),
            self.layout
        );
        fs::write(self.in_memory("config"), config).unwrap();
        fs::create_dir(self.owned()).unwrap();
        self.terrace(&["init", "--config", &self.in_memory("config").display().to_string()], "at the beginning");
        self.write_back();
    }

    /// As the kernel does every few seconds.
    fn write_back(&self) {
        rustix::fs::syncfs(fs::File::open(&self.disk).unwrap()).unwrap();
    }

    pub fn carry_out(&self, task: &Task) {
        let at = "before any cut";
        match task {
            Task::Put { key, content: number, ack, is_adopted } => {
                let adopts = *is_adopted && self.layout == "plain";
                let (command, file) = match adopts {
                    true => ("adopt", self.owned().join(number.to_string())),
                    false => ("put", self.in_memory("put")),
                };
                fs::write(&file, content(*number)).unwrap();
                if adopts {
                    // So that it is there after a cut, whatever the store does with it.
                    fs::File::open(&file).unwrap().sync_all().unwrap();
                    fs::File::open(self.owned()).unwrap().sync_all().unwrap();
                }
                self.terrace(&[command, "--ack", ack, &file.display().to_string(), key], at);
            }
            Task::Move { from, to } => drop(self.terrace(&["mv", from, to], at)),
            Task::Remove { key } => drop(self.terrace(&["rm", key], at)),
            Task::Sync => drop(self.terrace(&["sync"], at)),
            // It may find nothing to do, or not all of it possible.
            Task::Care(arguments) => drop(self.terrace_up_to(1, arguments, at)),
            Task::WriteBack => self.write_back(),
        }
    }

    /// The machine is started again with empty memory; or it runs on, and only the disk loses its power.
    pub fn lose_power(&mut self, random: &mut Random) {
        if random.below(3) > 0 {
            let _ = fs::remove_dir_all(self.in_memory("ram"));
            self.boots += 1;
        }
    }

    /// All objects, read. Each must be whole.
    pub fn objects(&self, at: &str) -> Objects {
        let folder = self.in_memory("got");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let listed = self.terrace(&["ls"], at);
        if !listed.is_empty() {
            self.terrace(&["get", "/", &folder.display().to_string()], at);
        }
        let read = |key: &str| {
            let bytes = fs::read(folder.join(key)).unwrap_or_else(|error| panic!("{key}: {error}, {at}"));
            let number = bytes.first_chunk().map_or(0, |number| u64::from_le_bytes(*number));
            assert!(content(number) == bytes, "{key} has {} wrong bytes, {at}", bytes.len());
            (key.to_owned(), number)
        };
        listed.lines().map(read).collect()
    }

    /// The store goes on: what was found stays there, with what comes, and after a rebuild.
    pub fn work_on(&self, found: &Objects, at: &str) {
        // Replicas in memory are gone: they are bad until they are repaired.
        let scrubbed = self.terrace_up_to(1, &["scrub", "--json"], at);
        assert!(scrubbed.contains("\"lost\":0"), "{scrubbed}, {at}");
        let task = Task::Put { key: "after".into(), content: LATER_CONTENT, ack: "durable", is_adopted: true };
        self.carry_out(&task);
        self.terrace(&["sync"], at);
        self.terrace(&["repair"], at);
        self.terrace(&["rebuild"], at);
        let mut expected = found.clone();
        apply(&mut expected, &task);
        assert_eq!(self.objects(at), expected, "after a rebuild, {at}");
        let scrubbed = self.terrace(&["scrub", "--json"], at);
        assert!(scrubbed.contains("\"bad\":0") && scrubbed.contains("\"lost\":0"), "{scrubbed}, {at}");
    }

    /// Flips bytes of an object's replicas on these tiers, durably, as a disk does that rots.
    pub fn damage(&self, key: &str, tiers: &[&str]) {
        let located: Value = serde_json::from_str(&self.terrace(&["locate", key, "--json"], "before damage")).unwrap();
        let extents = located["extents"].as_array().unwrap();
        let replicas = extents.iter().flat_map(|extent| extent["replicas"].as_array().unwrap());
        for replica in replicas.filter(|replica| tiers.iter().any(|tier| replica["tier"] == *tier)) {
            let file = fs::File::options().read(true).write(true).open(replica["file"].as_str().unwrap()).unwrap();
            let (at, stored) = (replica["position"].as_u64().unwrap(), replica["stored"].as_u64().unwrap());
            let mut bytes = vec![0; stored.div_ceil(2).min(64) as usize];
            file.read_exact_at(&mut bytes, at + stored / 2).unwrap();
            bytes.iter_mut().for_each(|byte| *byte = !*byte);
            file.write_all_at(&bytes, at + stored / 2).unwrap();
            file.sync_all().unwrap();
        }
    }

    /// Empties a target, durably: another disk has taken the place of its own.
    pub fn replace(&self, target: &str) {
        let path = self.disk.join(target);
        fs::remove_dir_all(&path).unwrap();
        fs::create_dir(&path).unwrap();
        self.write_back();
    }

    /// The codes of the findings of `terrace health`.
    pub fn findings(&self, at: &str) -> Vec<String> {
        let health: Value = serde_json::from_str(&self.terrace_up_to(3, &["health", "--json"], at)).unwrap();
        let codes = health["findings"].as_array().unwrap().iter().map(|finding| finding["code"].as_str().unwrap());
        codes.map(str::to_owned).collect()
    }

    /// Copies the store's directory aside, off the disk.
    pub fn back_up(&self) {
        copy_folder(&self.store(), &self.in_memory("backup"));
    }

    /// Puts the copy in the place of the store's directory.
    pub fn restore(&self) {
        fs::remove_dir_all(self.store()).unwrap();
        copy_folder(&self.in_memory("backup"), &self.store());
    }
}

fn copy_folder(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}
