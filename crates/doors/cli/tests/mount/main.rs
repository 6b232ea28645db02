//! `terrace mount` as its users start and end it.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use terrace_testkit::{Missing, Random, skip};

struct Place {
    dir: TempDir,
    mount: PathBuf,
}

impl Place {
    /// A store of one tier, and a directory to mount it on. Skips the test where nothing can be mounted.
    fn new() -> Option<Place> {
        Place::with(|dir| format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{dir}/disk']\n"))
    }

    /// The same with memory above the disk, and a replica on each.
    fn of_two_tiers() -> Option<Place> {
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

    fn terrace(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        command.env("TERRACE_STORE", self.dir.path().join("store"));
        command
    }

    /// Mounts in the foreground.
    fn mount(&self) -> Mounted<'_> {
        self.mount_on(&self.mount)
    }

    fn mount_on(&self, directory: &Path) -> Mounted<'_> {
        let mut child = self.terrace().arg("mount").arg(directory).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("is mounted on"), "{line:?}");
        Mounted { place: self, child }
    }

    fn mounted(&self) -> bool {
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

struct Mounted<'a> {
    place: &'a Place,
    child: Child,
}

impl Mounted<'_> {
    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until it has ended by itself.
    fn ends(&mut self) -> i32 {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it has not ended");
    }

    fn most_memory(&self) -> u64 {
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

/// `O_SYNC` and `O_DSYNC` were ignored: what a write had answered was in the memory of the server only.
#[test]
fn a_file_that_is_opened_to_sync_has_each_write() {
    use std::os::unix::fs::OpenOptionsExt;
    let Some(place) = Place::new() else { return };
    for (name, flag) in [("sync", rustix::fs::OFlags::SYNC), ("dsync", rustix::fs::OFlags::DSYNC)] {
        let mounted = place.mount();
        let mut options = fs::File::options();
        options.create(true).append(true).custom_flags(flag.bits() as i32);
        let mut file = options.open(place.mount.join(name)).unwrap();
        for line in ["one\n", "two\n"] {
            file.write_all(line.as_bytes()).unwrap();
        }
        mounted.send(Signal::KILL);
        drop((file, mounted));
        assert!(Command::new("umount").arg("-l").arg(&place.mount).status().unwrap().success());
        let kept = place.terrace().args(["cat", name]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&kept.stdout), "one\ntwo\n", "{name}");
    }
}

#[test]
fn signals_and_umount_end_it_and_nothing_is_lost() {
    let Some(place) = Place::new() else { return };
    for (round, signal) in [(0, Some(Signal::TERM)), (1, Some(Signal::INT)), (2, None)] {
        let mut mounted = place.mount();
        let name = format!("file {round}");
        // It stays open, so that nothing but the end can have written it.
        let mut file = fs::File::create(place.mount.join(&name)).unwrap();
        file.write_all(b"kept back").unwrap();
        match signal {
            Some(signal) => mounted.send(signal),
            None => {
                drop(file);
                assert!(Command::new("umount").arg(&mounted.place.mount).status().unwrap().success());
                file = fs::File::open("/dev/null").unwrap();
            }
        }
        let begun = Instant::now();
        while place.mounted() && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!place.mounted());
        // Processes with open files go on until these are closed.
        drop(file);
        assert_eq!(mounted.ends(), 0);
        let output = place.terrace().arg("cat").arg(&name).output().unwrap();
        assert_eq!(output.stdout, b"kept back");
    }
}

/// The kernel may end the connection while a thread is just fetching a request: 30 of 150 unmounts of a busy mount ended with exit
/// code 1 ("Software caused connection abort"), without a flush and with replicas owed. The tests unmounted three times, and idle.
/// TERRACE_UNMOUNTS says how often.
#[test]
fn unmounting_while_requests_come_is_no_error_and_owes_nothing() {
    let Some(place) = Place::of_two_tiers() else { return };
    // More than one replica of what is longer than 64 KiB is made later, and owed until then.
    let long = vec![b'x'; 100_000];
    let unmounts: u32 = std::env::var("TERRACE_UNMOUNTS").map_or(20, |text| text.parse().unwrap());
    for round in 0..unmounts {
        let mut mounted = place.mount();
        let ended = AtomicBool::new(false);
        let path = |who: u32| place.mount.join(format!("f{who}"));
        (0..6).for_each(|who| fs::write(path(who), format!("{round}")).unwrap());
        fs::write(place.mount.join(format!("long{}", round % 3)), &long).unwrap();
        std::thread::scope(|scope| {
            for who in 0..6 {
                let (path, ended) = (path(who), &ended);
                scope.spawn(move || {
                    while !ended.load(Ordering::Relaxed) {
                        // It may be unmounted by now, or just being so.
                        let _ = fs::read(&path);
                    }
                });
            }
            match round % 2 {
                0 => mounted.send(Signal::TERM),
                _ => assert!(Command::new("umount").arg("-l").arg(&place.mount).status().unwrap().success()),
            }
            let code = mounted.ends();
            ended.store(true, Ordering::Relaxed);
            assert_eq!(code, 0, "unmount {round}");
        });
        if round % 5 > 0 && round + 1 < unmounts {
            continue;
        }
        let status = place.terrace().args(["status", "--json"]).output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        assert_eq!(status["owed"], 0, "unmount {round}");
        assert_eq!(place.terrace().args(["cat", "f5"]).output().unwrap().stdout, round.to_string().as_bytes());
    }
}

/// A mount whose server was killed made the next one fail with "Not a directory".
#[test]
fn what_is_left_of_a_killed_mount_is_taken_off_by_the_next() {
    let Some(place) = Place::new() else { return };
    for round in 0..3 {
        let mounted = place.mount();
        fs::write(place.mount.join("a"), format!("{round}")).unwrap();
        assert_eq!(fs::read_to_string(place.mount.join("a")).unwrap(), round.to_string());
        mounted.send(Signal::KILL);
        drop(mounted);
        assert_eq!(fs::read_dir(&place.mount).map(drop).unwrap_err().raw_os_error(), Some(107), "nobody answers");
    }
    let mut mounted = place.mount();
    assert_eq!(fs::read(place.mount.join("a")).unwrap(), b"2");
    mounted.send(Signal::TERM);
    assert_eq!(mounted.ends(), 0);
    assert!(!place.mounted(), "no dead mount is left below");
}

fn append(path: &Path, line: &str) {
    fs::File::options().create(true).append(true).open(path).unwrap().write_all(line.as_bytes()).unwrap();
}

/// The kernel trusted the length that it knew for a second, and the server obeyed its offset: of lines that two mounts appended half
/// were lost, though each file was closed. All tests had one mount.
#[test]
fn lines_that_two_mounts_append_are_all_there() {
    let Some(place) = Place::new() else { return };
    let second = place.dir.path().join("mnt2");
    fs::create_dir(&second).unwrap();
    let mut mounts = [place.mount(), place.mount_on(&second)];
    let at = [place.mount.clone(), second];
    let words = ["one\n", "two\n", "three\n", "four\n"];
    for (number, word) in words.iter().enumerate() {
        append(&at[number % 2].join("turns"), word);
        for at in &at {
            // Both see at once what was closed.
            let length = words[..=number].concat().len() as u64;
            assert_eq!(fs::metadata(at.join("turns")).unwrap().len(), length);
            assert_eq!(fs::read_to_string(at.join("turns")).unwrap(), words[..=number].concat());
        }
    }
    std::thread::scope(|scope| {
        for (who, at) in at.iter().enumerate() {
            // Two through each mount: one that opens the file for each line, one that keeps it open.
            let path = at.join("race");
            scope.spawn({
                let path = path.clone();
                move || (0..200).for_each(|number| append(&path, &format!("{who} a {number}\n")))
            });
            scope.spawn(move || {
                let mut file = fs::File::options().create(true).append(true).open(path).unwrap();
                (0..200).for_each(|number| file.write_all(format!("{who} b {number}\n").as_bytes()).unwrap());
            });
        }
    });
    let found = fs::read_to_string(at[0].join("race")).unwrap();
    for (who, how) in [(0, 'a'), (0, 'b'), (1, 'a'), (1, 'b')] {
        let start = format!("{who} {how} ");
        let lines: Vec<&str> = found.lines().filter_map(|line| line.strip_prefix(&start)).collect();
        assert_eq!(lines, (0..200).map(|number| number.to_string()).collect::<Vec<_>>(), "{start}");
    }
    assert_eq!(found.lines().count(), 800);
    for mounted in &mut mounts {
        mounted.send(Signal::TERM);
        assert_eq!(mounted.ends(), 0);
    }
}

/// The kernel trusts a mount's answers for a moment if nobody else uses the store; a command that changes something waits for its end.
#[test]
fn what_a_command_changes_beside_a_mount_is_seen_at_once() {
    let Some(place) = Place::new() else { return };
    let _mounted = place.mount();
    for length in 1..20 {
        let file = place.dir.path().join("new");
        fs::write(&file, vec![b'x'; length]).unwrap();
        // The kernel is told, and would keep it.
        let _ = fs::metadata(place.mount.join("a"));
        assert!(place.terrace().arg("put").arg(&file).arg("a").output().unwrap().status.success());
        assert_eq!(fs::metadata(place.mount.join("a")).unwrap().len(), length as u64);
    }
}

#[test]
fn a_daemon_is_mounted_when_the_command_returns() {
    let Some(place) = Place::new() else { return };
    let output = place.terrace().args(["mount", "--daemon"]).arg(&place.mount).output().unwrap();
    assert!(output.status.success());
    fs::write(place.mount.join("a"), b"1").unwrap();
    assert!(Command::new("umount").arg(&place.mount).status().unwrap().success());
    assert_eq!(place.terrace().args(["cat", "a"]).output().unwrap().stdout, b"1");
    // What cannot be mounted is said, and the command fails.
    let nowhere = place.dir.path().join("nowhere");
    let output = place.terrace().args(["mount", "--daemon"]).arg(&nowhere).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains(nowhere.to_str().unwrap()));
}

#[test]
fn a_program_is_run_in_a_namespace_of_its_own() {
    let Some(place) = Place::new() else { return };
    let script = "echo hello > \"$1/greeting\"; mount | grep -c \" $1 \"; exit 7";
    let mut command = place.terrace();
    command.arg("mount").arg(&place.mount).args(["--run", "sh", "-c", script, "sh"]).arg(&place.mount);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("making a namespace") {
        return skip("a_program_is_run_in_a_namespace_of_its_own", &Missing::new("namespaces", errors));
    }
    assert_eq!(output.status.code(), Some(7), "{errors}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "1");
    assert!(!place.mounted());
    assert!(!place.mount.join("greeting").exists());
    assert_eq!(place.terrace().args(["cat", "greeting"]).output().unwrap().stdout, b"hello\n");
}

/// Bytes that tell where they belong.
fn fill(block: &mut [u8], at: u64) {
    let mut random = Random::new(at);
    for word in block.chunks_exact_mut(8) {
        word.copy_from_slice(&random.bits().to_le_bytes());
    }
}

/// TERRACE_MOUNT_MIB says how long the file is.
#[test]
fn what_was_synced_survives_a_kill_in_little_memory() {
    let Some(place) = Place::new() else { return };
    let blocks: u64 = std::env::var("TERRACE_MOUNT_MIB").map_or(256, |text| text.parse().unwrap());
    let path = place.mount.join("big");
    let mounted = place.mount();
    let mut file = fs::File::create(&path).unwrap();
    let mut block = vec![0; 1 << 20];
    for at in 0..blocks {
        fill(&mut block, at);
        // Now and then in short pieces, as programs write.
        let piece = if at % 4 == 0 { 100_000 } else { block.len() };
        block.chunks(piece).for_each(|piece| file.write_all(piece).unwrap());
    }
    file.sync_all().unwrap();
    let memory = mounted.most_memory();
    mounted.send(Signal::KILL);
    drop((mounted, file));
    assert!(Command::new("umount").arg("-l").arg(&place.mount).status().unwrap().success());
    let mounted = place.mount();
    let mut file = fs::File::open(&path).unwrap();
    assert_eq!(file.metadata().unwrap().len(), blocks << 20);
    let mut read = vec![0; 1 << 20];
    for at in 0..blocks {
        fill(&mut block, at);
        file.read_exact(&mut read).unwrap();
        assert!(read == block, "MiB {at} differs");
    }
    let memory = memory.max(mounted.most_memory());
    println!("{blocks} MiB through the mount, killed after fsync: all there; {} MiB of memory at most", memory >> 20);
    assert!(memory <= 200 << 20, "{} MiB of memory", memory >> 20);
}

#[test]
fn where_it_cannot_be_mounted_it_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    let mount = |at: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        command.env("XDG_DATA_HOME", dir.path()).arg("mount").arg(at).output().unwrap()
    };
    let output = mount(&file);
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("directory") || errors.contains("/dev/fuse"), "{errors}");
}

/// LMDB's locks do not reach other machines. A store whose directory was on a network file system, as home directories of
/// clusters are, lost commits when two machines used it. A mount of another store stands for such a file system here: the kernel
/// says `fuse.terrace` (or, to root, `fuse` of `terrace`), as it says `fuse.sshfs`.
#[test]
fn a_store_on_a_network_file_system_is_refused_with_directories_that_would_do() {
    let Some(place) = Place::new() else { return };
    let mounted = place.mount();
    let refused = |command: &mut Command| {
        let output = command.env_remove("XDG_DATA_HOME").output().unwrap();
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{words}");
        assert!(words.contains("network file system (fuse") && words.contains("TERRACE_STORE"), "{words}");
        assert!(words.contains("Directories that would do: /"), "{words}");
        words
    };
    let far = place.mount.join("far");
    refused(place.terrace().arg("init").arg("--store").arg(&far));
    refused(place.terrace().env_remove("TERRACE_STORE").env("HOME", &place.mount).arg("ls"));
    refused(place.terrace().env_remove("TERRACE_STORE").env("HOME", &far).args(["put", "-", "key"]));
    assert_eq!(fs::read_dir(&place.mount).unwrap().count(), 0, "nothing was made there");
    // A store that is there already: a copy of it on a local disk works.
    let home = place.dir.path().join("second");
    let config = place.dir.path().join("second.toml");
    let tier = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}/t']\n", place.dir.path().display());
    fs::write(&config, tier).unwrap();
    let run = |command: &mut Command| assert!(command.status().unwrap().success(), "{command:?}");
    run(place.terrace().arg("init").arg("--config").arg(&config).arg("--store").arg(&home));
    run(place.terrace().arg("put").arg(&config).arg("key").arg("--store").arg(&home));
    // It is moved there: of two that are there, the copy would be refused.
    run(Command::new("cp").arg("-aT").arg(&home).arg(&far));
    fs::remove_dir_all(&home).unwrap();
    for command in ["ls", "rebuild", "sync"] {
        let words = refused(place.terrace().arg(command).arg("--store").arg(&far));
        assert!(words.contains("cp -a"), "{words}");
    }
    let back = place.dir.path().join("back");
    run(Command::new("cp").arg("-aT").arg(&far).arg(&back));
    let read = place.terrace().arg("cat").arg("key").arg("--store").arg(&back).output().unwrap();
    assert_eq!(read.stdout, fs::read(&config).unwrap());
    drop(mounted);
}

/// The kernel calls a mount of root's `fuse`, not `fuse.terrace`: such a store was taken for a directory like others, and its files were
/// flushed, from the very store that the stream itself writes to.
#[test]
fn a_mounted_store_is_not_flushed() {
    let Some(place) = Place::new() else { return };
    let mounted = place.mount();
    fs::create_dir(place.mount.join("d")).unwrap();
    fs::write(place.mount.join("d/file"), "bytes").unwrap();
    for source in [place.mount.clone(), place.mount.join("d")] {
        let archive = place.dir.path().join("archive");
        let output =
            place.terrace().arg("flush").arg(&source).arg("--to").arg(&archive).arg("--once").output().unwrap();
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words}");
        assert!(words.contains("it is in a store that is mounted"), "{words}");
        assert!(!archive.exists() && place.mount.join("d/file").exists());
    }
    drop(mounted);
}
