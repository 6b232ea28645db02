//! Requirements for single files and directories, by user attributes.

#![allow(clippy::unwrap_used)]

mod common;

use terrace::files::{FileError, Owner, Presence};
use terrace::{Ack, Files, PutOptions, Store};

const ROOT_OWNER: Owner = Owner { uid: 0, gid: 0 };

fn place() -> (tempfile::TempDir, Store, Files) {
    let dir = tempfile::tempdir().unwrap();
    let store = common::new_store(dir.path());
    let files = Files::new(&store).unwrap();
    (dir, store, files)
}

fn ask(files: &Files, path: &[u8], name: &str, value: &str) {
    files.set_pair(path, name, Some(value), Presence::Any).unwrap();
}

/// Writes a file, and returns how many replicas its first extent has, made and pending.
fn replicas_of_new(files: &Files, path: &[u8]) -> usize {
    let file = files.create(path, 0o644, ROOT_OWNER, false).unwrap();
    file.write_at(0, &[7; 100_000]).unwrap();
    file.sync().unwrap();
    files.store().locate(path).unwrap().extents[0].replicas.len()
}

#[test]
fn a_files_next_writes_follow_what_is_asked_for_it() {
    let (_dir, store, files) = place();
    let usual = replicas_of_new(&files, b"f");
    assert_eq!(usual, 2);
    ask(&files, b"f", "terrace.replicas", "1");
    assert_eq!(store.locate(b"f").unwrap().extents[0].replicas.len(), usual, "what is written stays");
    let file = files.open(b"f").unwrap();
    file.write_at(0, &[8; 100_000]).unwrap();
    file.sync().unwrap();
    assert_eq!(store.locate(b"f").unwrap().extents[0].replicas.len(), 1);
    ask(&files, b"f", "terrace.ack", "durable");
    ask(&files, b"f", "terrace.budget", "2.5x");
    ask(&files, b"f", "terrace.require", "min_read_latency, max_durability=2");
    let kept = PutOptions::kept_with(b"f", &store.stat(b"f").unwrap()).unwrap();
    assert_eq!((kept.replicas, kept.ack, kept.requirements.len()), (Some(1), Some(Ack::Durable), 2));
    let pairs = files.pairs(b"f").unwrap();
    let shown: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        shown,
        [
            ("terrace.ack", "durable"),
            ("terrace.budget", "2.5x"),
            ("terrace.replicas", "1"),
            ("terrace.require", "min_read_latency,max_durability=2"),
        ]
    );
    // A write that waits for it is durable when it returns.
    file.write_at(0, &vec![9; 2 << 20]).unwrap();
    let replicas = &store.locate(b"f").unwrap().extents[0].replicas;
    assert!(replicas.iter().all(|replica| replica.tier == "disk"), "{replicas:?}");
    files.set_pair(b"f", "terrace.ack", None, Presence::There).unwrap();
    assert!(matches!(files.set_pair(b"f", "terrace.ack", None, Presence::There), Err(FileError::NoAttribute { .. })));
    // A copy within the store asks for the same.
    store.copy(b"f", b"copy").unwrap();
    assert_eq!(files.pair(b"copy", "terrace.budget").unwrap(), "2.5x");
}

#[test]
fn what_a_directory_asks_for_holds_for_new_entries_in_it() {
    let (_dir, _store, files) = place();
    files.make_directory(b"d", 0o755, ROOT_OWNER).unwrap();
    assert_eq!(replicas_of_new(&files, b"d/before"), 2);
    ask(&files, b"d", "terrace.replicas", "1");
    assert_eq!(replicas_of_new(&files, b"d/after"), 1);
    assert_eq!(replicas_of_new(&files, b"d/before"), 2);
    files.make_directory(b"d/e", 0o755, ROOT_OWNER).unwrap();
    assert_eq!(replicas_of_new(&files, b"d/e/f"), 1);
    assert_eq!(files.pair(b"d/e/f", "terrace.replicas").unwrap(), "1");
    // It is the file's own from then on.
    files.rename(b"d/e/f", b"f", true).unwrap();
    assert_eq!(replicas_of_new(&files, b"f"), 1);
}

#[test]
fn wrong_values_are_refused_with_the_right_form() {
    let (_dir, _store, files) = place();
    assert_eq!(replicas_of_new(&files, b"f"), 2);
    let refused = |name: &str, value: &str| files.set_pair(b"f", name, Some(value), Presence::Any).unwrap_err();
    for (name, value, says) in [
        ("terrace.replicas", "9", "number from 1 to 5"),
        ("terrace.ack", "soon", "placed, replicated or durable"),
        ("terrace.budget", "3", "3x"),
        ("terrace.require", "fast", "min_read_latency"),
    ] {
        let error = refused(name, value);
        assert!(error.errno() == libc::EINVAL && error.to_string().contains(says), "{error}");
    }
    assert_eq!(refused("terrace.location", "here").errno(), libc::ENOTSUP);
    assert_eq!(refused("terrace.other", "here").errno(), libc::ENOTSUP);
    assert!(files.pairs(b"f").unwrap().is_empty());
}

#[test]
fn a_file_says_where_its_bytes_are() {
    let (_dir, _store, files) = place();
    assert_eq!(replicas_of_new(&files, b"f"), 2);
    let location = files.pair(b"f", "terrace.location").unwrap();
    assert!(
        location.starts_with("0-100000 ") && location.contains("disk") && location.lines().count() == 1,
        "{location}"
    );
    assert!(!files.pairs(b"f").unwrap().contains_key("terrace.location"), "copies of all attributes leave it out");
    files.make_directory(b"d", 0o755, ROOT_OWNER).unwrap();
    assert!(matches!(files.pair(b"d", "terrace.location"), Err(FileError::NoAttribute { .. })));
}
