//! The end of the log.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use terrace_catalog::log::Log;
use terrace_catalog::{Attributes, Catalog, Edit, Voids};

fn open(dir: &Path, name: &str) -> Catalog {
    let log = Log::open(&dir.join("log"), 7).unwrap();
    Catalog::open(&dir.join(name), log).unwrap()
}

fn put(catalog: &Catalog, key: &str) {
    let (key, attributes) = (key.as_bytes().to_vec(), Attributes::default());
    let object = catalog.next_id().unwrap();
    let edit = Edit::Put { key, object, length: 0, want: 1, attributes, staged: false, extents: Vec::new() };
    catalog.commit(edit.into()).unwrap();
}

/// A power cut left the next file of the log without its first record. The catalog that was made from the log ended in that file, where
/// nothing is, and the next opener took the log for damaged. Found by power cuts of XFS under load.
#[test]
fn a_log_ends_with_its_last_record_whatever_file_follows() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path(), "catalog");
    ["a", "b", "c"].iter().for_each(|key| put(&catalog, key));
    let next = dir.path().join(format!("log/{:016x}.log", catalog.tail().unwrap().sequence + 1));
    for left in [&b""[..], b"TRLG\x01 and no whole record"] {
        fs::write(&next, left).unwrap();
        let again = open(dir.path(), &format!("of {}", left.len()));
        again.replay(&Voids::new(), |_, _, _| {}).unwrap();
        assert_eq!(again.tail().unwrap(), catalog.tail().unwrap());
        assert!(again.log().holds_end(again.tail().unwrap()).unwrap());
    }
    let again = open(dir.path(), "of 0");
    put(&again, "d");
    let last = open(dir.path(), "last");
    last.replay(&Voids::new(), |_, _, _| {}).unwrap();
    assert_eq!(last.tail().unwrap(), again.tail().unwrap());
    assert!(last.dump().unwrap() == again.dump().unwrap());
}

/// Somebody cut the log under a process that had it open. Its next record went behind a hole, where no reader finds it, and was called durable.
#[test]
fn nothing_is_appended_to_a_log_that_was_cut() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path(), "catalog");
    ["a", "b"].iter().for_each(|key| put(&catalog, key));
    let tail = catalog.tail().unwrap();
    let path = dir.path().join(format!("log/{:016x}.log", tail.file));
    let whole = fs::read(&path).unwrap();
    fs::write(&path, b"").unwrap();
    let edit = Edit::Remove { key: b"a".to_vec() };
    let error = catalog.commit(edit.clone().into()).unwrap_err();
    assert!(matches!(error, terrace_catalog::Error::LogDamaged(_)), "{error}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    assert!(catalog.log().find_damaged(tail).unwrap().contains(&path));
    fs::write(&path, whole).unwrap();
    assert!(catalog.log().find_damaged(tail).unwrap().is_empty());
    catalog.commit(edit.into()).unwrap();
}
