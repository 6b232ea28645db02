//! Directories that are moved, or mounted over, while a stream reads or writes them: files arrive at the place that the path names, and none
//! is removed before.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use common::{settings, store, tree, until};
use rustix::process::{Pid, Signal, kill_process};
use terrace::{Ack, Store};
use terrace_stream::destinations::Files;
use terrace_stream::sources::Watch;
use terrace_stream::{Control, Error, Settings, Stream};
use terrace_testkit::SmallDisk;

fn run(dir: &Path, control: &Arc<Control>, watch: &Watch) -> Result<(), Error> {
    let store = Store::open(&dir.join("store")).unwrap();
    let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
    let to = Arc::new(Files::new(&dir.join("archive")).unwrap());
    let settings = Settings { patience: watch.patience, ..settings() };
    stream.run(to, control)?.with_directory(&dir.join("drop"), watch)?.go(&settings)
}

/// Does something while a stream runs from `drop` to `archive`, and then lets the stream end.
fn beside<T>(dir: &Path, watch: &Watch, act: impl FnOnce(&Control) -> T) -> T {
    let control = Arc::new(Control::default());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(dir, &control, watch));
        let result = act(&control);
        control.drain();
        running.join().unwrap().unwrap();
        result
    })
}

fn drained() -> Arc<Control> {
    let control = Arc::new(Control::default());
    control.drain();
    control
}

/// Makes a store, and the directory that is flushed.
fn begin(dir: &Path) -> Store {
    let store = store(dir);
    fs::create_dir_all(dir.join("drop")).unwrap();
    store
}

fn deliver(dir: &Path, name: &str) {
    let path = dir.join("drop").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, name).unwrap();
    // Hidden files included: its removal has ended.
    until("delivery", || tree(&dir.join("drop")).is_empty());
}

fn names(folder: &Path) -> Vec<String> {
    tree(folder).into_keys().collect()
}

fn parked_reasons(store: &Store) -> BTreeMap<String, String> {
    let all = Stream::open(store, "s", Ack::Placed).unwrap().ledger().all().unwrap();
    let parked = all.into_iter().filter_map(|(name, mark)| Some((String::from_utf8(name).unwrap(), mark.parked?)));
    parked.collect()
}

fn impatient() -> Watch {
    Watch { patience: Duration::from_millis(300), ..Watch::default() }
}

/// They went to the directory that the path had led to, and were removed: below a mount, in a folder that was renamed, or nowhere.
#[test]
fn files_arrive_where_the_path_of_the_destination_leads() {
    common::fail_as_a_whole();
    for change in ["moved", "deleted", "link", "mounted"] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let _store = begin(dir);
        let (archive, old) = (dir.join("archive"), dir.join("old"));
        let arrived = beside(dir, &Watch::default(), |_| {
            deliver(dir, "early");
            deliver(dir, "sub/early");
            let mut disk = None;
            match change {
                "moved" => fs::rename(&archive, &old).and_then(|()| fs::create_dir(&archive)).unwrap(),
                "deleted" => fs::remove_dir_all(&archive).and_then(|()| fs::create_dir(&archive)).unwrap(),
                "link" => {
                    fs::create_dir(dir.join("other")).unwrap();
                    fs::rename(&archive, &old).and_then(|()| symlink("other", &archive)).unwrap();
                }
                _ => disk = SmallDisk::mount("files for a path that is mounted over", &archive, "size=8m"),
            }
            if change == "mounted" && disk.is_none() {
                return vec!["late".into(), "sub/late".into()];
            }
            deliver(dir, "late");
            deliver(dir, "sub/late");
            let arrived = names(&archive);
            drop(disk);
            arrived
        });
        assert_eq!(arrived, ["late", "sub/late"], "{change}");
        if ["moved", "link"].contains(&change) {
            assert_eq!(names(&old), ["early", "sub/early"], "{change}");
        }
    }
}

/// They were delivered and removed, though no path led to the destination any more.
#[test]
fn files_stay_while_nothing_is_at_the_path_of_the_destination() {
    common::fail_as_a_whole();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let store = begin(dir);
    let (archive, old) = (dir.join("archive"), dir.join("old"));
    beside(dir, &impatient(), |control| {
        deliver(dir, "early");
        fs::rename(&archive, &old).unwrap();
        fs::write(dir.join("drop/late"), "late").unwrap();
        until("parking", || control.parked() == 1);
    });
    assert!(parked_reasons(&store)["late"].contains("put the directory back"), "{:?}", parked_reasons(&store));
    assert_eq!(
        (names(&dir.join("drop")), names(&old), archive.exists()),
        (vec!["late".into()], vec!["early".into()], false)
    );
    fs::rename(&old, &archive).unwrap();
    run(dir, &drained(), &impatient()).unwrap();
    assert_eq!((names(&dir.join("drop")).len(), names(&archive)), (0, vec!["early".into(), "late".into()]));
}

/// Below an unmounted disk is the folder that it was mounted on, where files would be hidden once the disk is back.
#[test]
fn files_stay_while_the_disk_of_the_destination_is_unmounted() {
    common::fail_as_a_whole();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let store = begin(dir);
    let archive = dir.join("archive");
    let Some(disk) = SmallDisk::mount("a destination that is unmounted", &archive, "size=8m") else { return };
    beside(dir, &impatient(), |control| {
        deliver(dir, "early");
        drop(disk);
        fs::write(dir.join("drop/late"), "late").unwrap();
        until("parking", || control.parked() == 1);
    });
    assert!(parked_reasons(&store)["late"].contains("mount it again"), "{:?}", parked_reasons(&store));
    assert_eq!((names(&dir.join("drop")), names(&archive).len()), (vec!["late".into()], 0));
}

/// The path of the destination may come to lead into the source.
#[test]
fn a_path_is_not_followed_to_a_place_that_would_be_refused() {
    common::fail_as_a_whole();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let store = begin(dir);
    fs::create_dir(dir.join("drop/sub")).unwrap();
    beside(dir, &impatient(), |control| {
        deliver(dir, "early");
        fs::rename(dir.join("archive"), dir.join("old")).unwrap();
        symlink("drop/sub", dir.join("archive")).unwrap();
        fs::write(dir.join("drop/late"), "late").unwrap();
        until("parking", || control.parked() == 1);
    });
    assert!(parked_reasons(&store)["late"].contains("cannot be flushed"), "{:?}", parked_reasons(&store));
    assert_eq!(names(&dir.join("drop")), ["late"]);
}

/// Not a test: delivers until nothing is left, and is stopped or killed.
#[test]
fn worker() {
    let Ok(dir) = std::env::var("TERRACE_MOVED_WORKER") else { return };
    common::fail_as_a_whole();
    run(Path::new(&dir), &drained(), &Watch::default()).unwrap();
}

fn start_worker(dir: &Path, stop_point: Option<&str>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "worker", "--nocapture"]).env("TERRACE_MOVED_WORKER", dir).stdout(Stdio::null());
    command.stderr(File::create(dir.join("stderr-w")).unwrap());
    command.envs(stop_point.map(|point| ("TERRACE_STOP_POINT", point))).spawn().unwrap()
}

/// The destination is moved between any two steps of a file's delivery and removal; the process then goes on, or is killed and run again.
#[test]
fn a_file_arrives_at_the_path_whenever_the_destination_is_moved() {
    common::fail_as_a_whole();
    let points =
        ["written@1", "written@2", "synced@2", "written@3", "synced@3", "committed@3", "recorded", "set-aside"];
    for (point, is_killed) in points.iter().flat_map(|point| [(point, false), (point, true)]) {
        let context = format!("{point}, {}", if is_killed { "killed" } else { "not killed" });
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let store = begin(dir);
        let bytes: Vec<u8> = (0..2_500_000u32).map(|at| (at / 1000) as u8).collect();
        fs::create_dir(dir.join("drop/d")).unwrap();
        fs::write(dir.join("drop/d/file"), &bytes).unwrap();
        let mut worker = start_worker(dir, Some(&format!("stream:{point}")));
        let state = format!("/proc/{}/stat", worker.id());
        until("the stop", || fs::read_to_string(&state).unwrap().contains(") T "));
        fs::rename(dir.join("archive"), dir.join("old")).unwrap();
        fs::create_dir(dir.join("archive")).unwrap();
        let id = Pid::from_child(&worker);
        kill_process(id, if is_killed { Signal::KILL } else { Signal::CONT }).unwrap();
        let status = worker.wait().unwrap();
        let says = || fs::read_to_string(dir.join("stderr-w")).unwrap();
        match is_killed {
            true => {
                assert_eq!(status.signal(), Some(libc::SIGKILL), "{context}: {}", says());
                assert!(start_worker(dir, None).wait().unwrap().success(), "{context}: {}", says());
            }
            false => assert!(status.success(), "{context}: {}", says()),
        }
        assert!(fs::read(dir.join("archive/d/file")).is_ok_and(|found| found == bytes), "{context}: {}", says());
        assert_eq!(
            (names(&dir.join("archive")), names(&dir.join("drop")).len()),
            (vec!["d/file".into()], 0),
            "{context}"
        );
        assert_eq!(Stream::open(&store, "s", Ack::Placed).unwrap().done().unwrap().files, 1, "{context}");
    }
}

/// Bytes added to a log went on into the directory that had been moved. It must neither go behind a hole of the new one, nor into the
/// bytes of another log there.
#[test]
fn followed_logs_are_parked_when_the_destination_is_another_directory() {
    common::fail_as_a_whole();
    for (there, expected) in [
        (None, "it holds 0 bytes, though 4 were delivered"),
        (
            Some("another log"),
            "it holds 11 bytes, though 4 were delivered, because the destination's path leads to another",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let store = begin(dir);
        let (archive, old) = (dir.join("archive"), dir.join("old"));
        let append = |text: &str| {
            let mut file = File::options().create(true).append(true).open(dir.join("drop/log")).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        let tail = Watch { tail: true, ..Watch::default() };
        append("one ");
        beside(dir, &tail, |control| {
            until("delivery", || control.requests_done() == 1);
            fs::create_dir(dir.join("new")).unwrap();
            there.inspect(|bytes| fs::write(dir.join("new/log"), bytes).unwrap());
            fs::rename(&archive, &old).and_then(|()| fs::rename(dir.join("new"), &archive)).unwrap();
            append("two ");
            until("parking", || control.parked() == 1);
        });
        let reasons = parked_reasons(&store);
        assert!(reasons["log"].contains(expected), "{reasons:?}");
        assert_eq!(fs::read_to_string(archive.join("log")).ok().as_deref(), there);
        assert_eq!(fs::read_to_string(old.join("log")).unwrap(), "one ");
        // Follow the advice of the message.
        fs::remove_dir_all(&archive).and_then(|()| fs::rename(&old, &archive)).unwrap();
        run(dir, &drained(), &tail).unwrap();
        assert_eq!(fs::read_to_string(archive.join("log")).unwrap(), "one two ");
    }
}

/// Its files were listed by their path and opened in the directory that had been there before, so none was ever taken.
#[test]
fn a_source_is_followed_where_its_path_leads() {
    common::fail_as_a_whole();
    for change in ["moved", "deleted", "link", "mounted"] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let _store = begin(dir);
        let (source, old) = (dir.join("drop"), dir.join("old"));
        beside(dir, &Watch::default(), |_| {
            deliver(dir, "early");
            let mut disk = None;
            match change {
                "moved" => {
                    // It is hidden, so that nothing takes it before its directory is moved.
                    fs::write(source.join(".left"), "left").unwrap();
                    fs::rename(&source, &old).and_then(|()| fs::create_dir(&source)).unwrap();
                }
                "deleted" => fs::remove_dir(&source).and_then(|()| fs::create_dir(&source)).unwrap(),
                "link" => {
                    fs::create_dir(dir.join("other")).unwrap();
                    fs::rename(&source, &old).and_then(|()| symlink("other", &source)).unwrap();
                }
                _ => disk = SmallDisk::mount("files of a source that is mounted over", &source, "size=8m"),
            }
            deliver(dir, "late");
            deliver(dir, "sub/late");
            drop(disk);
        });
        assert_eq!(names(&dir.join("archive")), ["early", "late", "sub/late"], "{change}");
        if change == "moved" {
            assert_eq!(names(&old), [".left"]);
        }
    }
}
