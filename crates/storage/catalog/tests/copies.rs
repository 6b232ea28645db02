//! Copies of a log with many files.

#![allow(clippy::unwrap_used, unsafe_code)]

use std::fs;
use std::path::Path;

use terrace_catalog::log::Log;
use terrace_catalog::{Attributes, Catalog, Edit};

fn put(catalog: &Catalog, key: &str) {
    let (key, attributes) = (key.as_bytes().to_vec(), Attributes::default());
    let object = catalog.next_id().unwrap();
    let edit = Edit::Put { key, object, length: 0, want: 1, attributes, staged: false, extents: Vec::new() };
    catalog.commit(edit.into()).unwrap();
}

fn bytes(log: &Log, folder: &Path, file: u64) -> Option<Vec<u8>> {
    fs::read(folder.join(log.path(file).file_name().unwrap())).ok()
}

/// Each sync opened, compared and synced all files of the log in each copy. Now those that are whole are only looked at, and those that
/// are not are still copied again.
#[test]
fn files_that_a_copy_has_lost_are_copied_again() {
    // SAFETY: this is the only test of the program.
    unsafe { std::env::set_var("TERRACE_LOG_FILE", "500") };
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(&dir.path().join("log"), 7).unwrap();
    let catalog = Catalog::open(&dir.path().join("catalog"), log).unwrap();
    let (log, copy) = (catalog.log(), dir.path().join("copy"));
    let all_are_copied =
        || log.files().unwrap().into_iter().all(|file| bytes(log, log.folder(), file) == bytes(log, &copy, file));
    (0..60).for_each(|number| put(&catalog, &format!("object {number}")));
    log.copy_to(&copy, catalog.tail().unwrap(), true).unwrap();
    let files = log.files().unwrap();
    assert!(files.len() > 5 && all_are_copied(), "{files:?}");
    let copied = |file: u64| copy.join(log.path(file).file_name().unwrap());
    fs::remove_file(copied(files[1])).unwrap();
    fs::File::options().write(true).open(copied(files[2])).unwrap().set_len(60).unwrap();
    put(&catalog, "another object");
    log.copy_to(&copy, catalog.tail().unwrap(), true).unwrap();
    assert!(all_are_copied());
}
