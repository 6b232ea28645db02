//! Files of equal names from several places that go to one destination: their bytes are neither mixed nor lost.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{settings, store, tree};
use terrace::{Ack, PutOptions, Store};
use terrace_stream::destinations::{Destination, Files, Keys};
use terrace_stream::sources::Watch;
use terrace_stream::{Control, Failure, Left, Request, Stream};

/// Pulls all directories to a destination, until no file is left that a stream would take.
fn run(store: &Store, name: &str, sources: &[&Path], to: Arc<dyn Destination>) -> (Stream, Left) {
    let stream = Stream::open(store, name, Ack::Placed).unwrap();
    let control = Arc::new(Control::default());
    control.drain();
    let watch = Watch { settle: Some(Duration::from_millis(50)), ..Watch::default() };
    let mut running = stream.run(to, &control).unwrap().with_log();
    for source in sources {
        running = running.with_directory(source, &watch).unwrap();
    }
    running.go(&settings()).unwrap();
    (stream, control.left())
}

/// The bytes of `a/x` and `b/x` were written to one file at once, and both were removed.
#[test]
fn of_two_files_of_one_name_one_arrives_and_the_other_stays() {
    common::fail_as_a_whole();
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let at = |name: &str| dir.path().join(name);
    let (first, second) = (vec![b'a'; 3_300_000], vec![b'b'; 4_100_000]);
    for to_keys in [false, true] {
        let name = if to_keys { "keys" } else { "files" };
        let to = || -> Arc<dyn Destination> {
            match to_keys {
                true => Arc::new(Keys::new(&store, b"archive")),
                false => Arc::new(Files::new(&at("archive")).unwrap()),
            }
        };
        let arrived = |name: &str| match to_keys {
            true => store.get(format!("archive/{name}").as_bytes()).unwrap(),
            false => fs::read(at("archive").join(name)).unwrap(),
        };
        for (source, bytes) in [("a", &first), ("b", &second)] {
            fs::create_dir_all(at(source).join("deep")).unwrap();
            fs::write(at(source).join("deep/x"), bytes).unwrap();
            fs::write(at(source).join(source), bytes).unwrap();
        }
        let sources = [&*at("a"), &*at("b")];
        let (stream, left) = run(&store, name, &sources, to());
        // Either file may go first.
        let (arrived_first, other, other_bytes) = match arrived("deep/x") == first {
            true => ("a", "b", &second),
            false => ("b", "a", &first),
        };
        assert_eq!(left.stays.len(), 1, "{left:?}");
        let (path, reason) = &left.stays[0];
        assert_eq!(*path, at(other).join("deep/x").display().to_string());
        assert!(reason.contains(&format!("{}/deep/x goes to the same name", at(arrived_first).display())), "{reason}");
        let expected = if arrived_first == "a" { &first } else { &second };
        let check = || {
            assert!(arrived("deep/x") == *expected && arrived("a") == first && arrived("b") == second);
            assert!(fs::read(at(other).join("deep/x")).unwrap() == *other_bytes);
            assert_eq!(tree(&at(arrived_first)).len() + tree(&at(other)).len(), 1);
        };
        check();
        // Repeat the command, with the directories in another order, and with the other directory alone.
        run(&store, name, &[sources[1], sources[0]], to());
        check();
        run(&store, name, &[&at(other)], to());
        check();
        // A newer file of the directory that owns the name replaces it, as with one directory alone.
        fs::write(at(arrived_first).join("deep/x"), "newer").unwrap();
        run(&store, name, &sources, to());
        assert_eq!(arrived("deep/x"), b"newer");
        // This holds until the name is forgotten.
        stream.forget(&[b"deep/x".as_slice().into()]).unwrap();
        run(&store, name, &sources, to());
        assert!(arrived("deep/x") == *other_bytes);
        assert_eq!(tree(&at("a")).len() + tree(&at("b")).len(), 0);
    }
}

/// A file of a directory overwrote the bytes that requests had appended, and the next append went into its middle.
#[test]
fn a_file_does_not_replace_a_destination_of_appends() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let (drop, archive) = (dir.path().join("drop"), dir.path().join("archive"));
    fs::create_dir_all(&drop).unwrap();
    let to = || Arc::new(Files::new(&archive).unwrap());
    let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
    stream.append(vec![Request::append("x", b"one ".as_slice())]).unwrap();
    run(&store, "s", &[&drop], to());
    fs::write(drop.join("x"), "the bytes of a file").unwrap();
    stream.append(vec![Request::append("x", b"two ".as_slice())]).unwrap();
    let (stream, left) = run(&store, "s", &[&drop], to());
    assert_eq!(fs::read_to_string(archive.join("x")).unwrap(), "one two ");
    assert_eq!(fs::read_to_string(drop.join("x")).unwrap(), "the bytes of a file");
    assert!(left.stays[0].1.contains("requests"), "{left:?}");
    assert_eq!(stream.ledger().all().unwrap()[0].1.parked, None);
}

/// A file at a destination from elsewhere is replaced as by `mv`, completely, and by the last one if two streams
/// write at once. Both wrote at the same time, and the bytes of both were in the file.
#[test]
fn two_streams_that_deliver_one_name_at_once_leave_the_bytes_of_one() {
    common::fail_as_a_whole();
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("archive")).unwrap();
    fs::write(at("archive/x"), vec![b'-'; 9_000_000]).unwrap();
    store.put_bytes(b"archive/x", &[b'-'; 9_000_000], &PutOptions::default()).unwrap();
    for round in 0..6 {
        let to_keys = round % 2 == 1;
        let to = || -> Arc<dyn Destination> {
            match to_keys {
                true => Arc::new(Keys::new(&store, b"archive")),
                false => Arc::new(Files::new(&at("archive")).unwrap()),
            }
        };
        let all = [("a", vec![b'a'; 5_300_000]), ("b", vec![b'b'; 4_100_000 + round])];
        for (source, bytes) in &all {
            fs::create_dir_all(at(source)).unwrap();
            fs::write(at(source).join("x"), bytes).unwrap();
        }
        std::thread::scope(|scope| {
            for (source, _) in &all {
                let (store, at, to) = (&store, &at, to());
                scope.spawn(move || run(store, source, &[&at(source)], to));
            }
        });
        let found = match to_keys {
            true => store.get(b"archive/x").unwrap(),
            false => fs::read(at("archive/x")).unwrap(),
        };
        assert!(all.iter().any(|(_, bytes)| *bytes == found), "{} bytes, of both files", found.len());
        assert_eq!(tree(&at("a")).len() + tree(&at("b")).len(), 0);
    }
}

/// A file gets a hidden name before its removal. If that name was taken, the message was "File exists" and named no
/// file.
#[test]
fn a_file_with_a_hidden_leftover_arrives_and_the_leftover_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let (drop, archive) = (dir.path().join("drop"), dir.path().join("archive"));
    fs::create_dir_all(&drop).unwrap();
    fs::write(drop.join("x"), "new").unwrap();
    let inode = fs::metadata(drop.join("x")).unwrap().ino();
    let leftover = drop.join(format!(".x.{inode:x}.terrace-flush"));
    fs::write(&leftover, "what another stream was removing").unwrap();
    let (_, left) = run(&store, "s", &[&drop], Arc::new(Files::new(&archive).unwrap()));
    assert_eq!(fs::read_to_string(archive.join("x")).unwrap(), "new");
    let reason = left.stays.iter().find(|(path, _)| *path == drop.join("x").display().to_string()).map(|(_, r)| r);
    let reason = reason.unwrap_or_else(|| panic!("{left:?}"));
    assert!(reason.contains(&leftover.display().to_string()) && reason.contains("move that file away"), "{reason}");
    // Follow the advice of the message.
    fs::rename(&leftover, dir.path().join("aside")).unwrap();
    run(&store, "s", &[&drop], Arc::new(Files::new(&archive).unwrap()));
    assert_eq!(tree(&drop).len(), 0);
}

/// It was taken for a file that an earlier run had been removing, and arrived as `q`.
#[test]
fn a_users_file_with_a_name_like_a_leftover_is_left_alone_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let (drop, archive) = (dir.path().join("drop"), dir.path().join("archive"));
    fs::create_dir_all(drop.join("d")).unwrap();
    let names = [".q.terrace-flush", "d/.q.2a.terrace-flush", ".2a.terrace-flush"];
    for name in names {
        fs::write(drop.join(name), name).unwrap();
    }
    fs::write(drop.join("x"), "new").unwrap();
    for _ in 0..2 {
        let (_, left) = run(&store, "s", &[&drop], Arc::new(Files::new(&archive).unwrap()));
        for name in names {
            let path = drop.join(name).display().to_string();
            assert!(
                left.stays.iter().any(|(found, reason)| *found == path && reason.contains("left alone")),
                "{left:?}"
            );
            assert_eq!(fs::read_to_string(&path).unwrap(), name);
        }
        assert_eq!(tree(&archive).into_keys().collect::<Vec<_>>(), ["x"]);
    }
    // Those of streams get their names back.
    fs::write(drop.join("y"), "new").unwrap();
    let inode = fs::metadata(drop.join("y")).unwrap().ino();
    fs::rename(drop.join("y"), drop.join(format!(".y.{inode:x}.terrace-flush"))).unwrap();
    run(&store, "s", &[&drop], Arc::new(Files::new(&archive).unwrap()));
    assert_eq!(fs::read_to_string(archive.join("y")).unwrap(), "new");
}

/// A path behind a symbolic link that leads out of the destination was refused with "Invalid cross-device link".
#[test]
fn a_link_that_leads_out_of_the_destination_is_named_in_plain_words() {
    let dir = tempfile::tempdir().unwrap();
    let (inside, outside) = (dir.path().join("inside"), dir.path().join("outside"));
    fs::create_dir_all(&inside).unwrap();
    fs::create_dir_all(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
    let refused = Files::new(&inside).unwrap().set_length(b"link/file", 1).unwrap_err();
    let Failure::Never(reason) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("a symbolic link on the way leads out of") && !reason.contains("device"), "{reason}");
    assert!(!outside.join("file").exists());
}
