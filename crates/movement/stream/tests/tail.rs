//! Growing files are followed: added bytes arrive once and in order, and nothing is removed.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use common::{settings, store, tree, until};
use terrace::{Ack, Store};
use terrace_stream::destinations::{Destination, Files, Keys};
use terrace_stream::sources::Watch;
use terrace_stream::{Control, Stream};

fn follow(store: &Store, from: &Path, to: Arc<dyn Destination>, control: &Arc<Control>) {
    let stream = Stream::open(store, "t", Ack::Placed).unwrap();
    let watch = Watch { tail: true, ..Watch::default() };
    stream.run(to, control).unwrap().with_directory(from, &watch).unwrap().go(&settings()).unwrap();
}

fn drained() -> Arc<Control> {
    let control = Arc::new(Control::default());
    control.drain();
    control
}

fn append(path: &Path, bytes: &str) {
    File::options().create(true).append(true).open(path).unwrap().write_all(bytes.as_bytes()).unwrap();
}

#[test]
fn added_bytes_arrive_once_however_files_are_rotated_between_runs() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let (logs, archive) = (dir.path().join("logs"), dir.path().join("archive"));
    fs::create_dir_all(logs.join("deep")).unwrap();
    let run = || follow(&store, &logs, Arc::new(Files::new(&archive).unwrap()), &drained());
    let found = |name: &str| fs::read_to_string(archive.join(name)).unwrap_or_default();
    append(&logs.join("a"), "one ");
    append(&logs.join("deep/b"), "other ");
    run();
    run();
    append(&logs.join("a"), "two ");
    run();
    assert_eq!((found("a").as_str(), found("deep/b").as_str()), ("one two ", "other "));
    // The file is renamed, appended to, and replaced by a new one.
    append(&logs.join("a"), "three ");
    fs::rename(logs.join("a"), logs.join("a.1")).unwrap();
    append(&logs.join("a.1"), "four ");
    append(&logs.join("a"), "five ");
    run();
    assert_eq!(found("a"), "one two three four five ");
    // The file is truncated and filled again, with more bytes than before.
    fs::write(logs.join("a"), "six seven eight nine ").unwrap();
    run();
    fs::write(logs.join("a"), "x").unwrap();
    run();
    run();
    assert_eq!(found("a"), "one two three four five six seven eight nine x");
    assert_eq!(tree(&archive).into_keys().collect::<Vec<_>>(), ["a", "deep/b"]);
    assert_eq!(tree(&logs).len(), 3);
}

#[test]
fn bytes_added_during_a_run_arrive_in_order() {
    common::fail_as_a_whole();
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let logs = dir.path().join("logs");
    fs::create_dir_all(&logs).unwrap();
    let control = Arc::new(Control::default());
    let to = Arc::new(Keys::new(&store, b"logs"));
    let mut expected = String::new();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| follow(&store, &logs, to, &control));
        let mut file = File::options().create(true).append(true).open(logs.join("a")).unwrap();
        for line in 0..400 {
            let text = format!("line {line}\n");
            file.write_all(text.as_bytes()).unwrap();
            expected += &text;
            if line % 100 == 99 {
                until("delivery", || store.get(b"logs/a").is_ok_and(|found| found.len() == expected.len()));
                // For a while, the process continues to write to the renamed file.
                fs::rename(logs.join("a"), logs.join(format!("a.{line}"))).unwrap();
                file.write_all(b"last\n").unwrap();
                expected += "last\n";
                until("delivery", || store.get(b"logs/a").is_ok_and(|found| found.len() == expected.len()));
                file = File::options().create(true).append(true).open(logs.join("a")).unwrap();
            }
        }
        control.drain();
        running.join().unwrap();
    });
    assert_eq!(String::from_utf8(store.get(b"logs/a").unwrap()).unwrap(), expected);
    assert_eq!(store.list(b"logs", None, 10).unwrap().len(), 1);
}

/// Two followed directories with logs of one name were delivered to one file, in alternating parts of up to a megabyte.
#[test]
fn logs_of_equal_names_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let at = |name: &str| dir.path().join(name);
    let append_to_both = |bytes: &str| {
        for source in ["a", "b"] {
            fs::create_dir_all(at(source)).unwrap();
            append(&at(source).join("log"), &format!("{source}: {bytes}\n"));
        }
    };
    // The order on the command line does not matter.
    for sources in [["a", "b"], ["b", "a"]] {
        append_to_both("a line");
        let stream = Stream::open(&store, "t", Ack::Placed).unwrap();
        let watch = Watch { tail: true, ..Watch::default() };
        let control = drained();
        let mut running = stream.run(Arc::new(Files::new(&at("archive")).unwrap()), &control).unwrap();
        for source in sources {
            running = running.with_directory(&at(source), &watch).unwrap();
        }
        running.go(&settings()).unwrap();
        let stays = control.left().stays;
        assert_eq!(stays.len(), 1, "{stays:?}");
        assert!(stays[0].0.ends_with("b/log") && stays[0].1.contains("a/log goes to the same name"), "{stays:?}");
    }
    assert_eq!(fs::read_to_string(at("archive/log")).unwrap(), "a: a line\n".repeat(2));
    assert_eq!(tree(&at("b")).len(), 1);
}
