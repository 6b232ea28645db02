//! `terrace mount` as its users start and end it.

#![allow(clippy::unwrap_used, clippy::panic)]

mod cache;
mod place;
mod sharing;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use terrace_testkit::{Missing, Random, skip};

use place::Place;

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
