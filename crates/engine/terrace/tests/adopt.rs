//! Adopted files: no call of the store's changes the file of another program.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use common::{replicated, run, store_of, tier};
use terrace::tier::Adoption;
use terrace::{Attributes, PutOptions, Store};
use terrace_testkit::disk::remove_dead_disks;
use terrace_testkit::{Missing, noise, skip};

const DISK_BYTES: u64 = 400 << 20;
const FILE_BYTES: usize = 3_000_001;

/// The owner's view of a file.
fn seen(path: &Path) -> (u64, u32, i64, i64, Vec<u8>) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.ino(), metadata.mode(), metadata.mtime(), metadata.mtime_nsec(), fs::read(path).unwrap())
}

/// Unmounts a file system when it is dropped.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = run("umount", &["-l"], &[self.0]);
    }
}

fn mount<'a>(format: &str, image: &Path, at: &'a Path) -> Option<Mounted<'a>> {
    let make = || {
        fs::create_dir(at)?;
        if format == "tmpfs" {
            return run("mount", &["-t", "tmpfs", "terrace-test"], &[at]);
        }
        File::create(image)?.set_len(DISK_BYTES)?;
        remove_dead_disks();
        run(&format!("mkfs.{format}"), &["-q", "-f"], &[image])?;
        run("mount", &["-o", "loop"], &[image, at])
    };
    make().map_err(|error| skip("adopt", &Missing::new("loop", error))).ok().map(|()| Mounted(at))
}

/// One change of an object, by its name.
type Call = (&'static str, fn(&Store, &[u8]));

const OBJECT_CALLS: [Call; 11] = [
    ("write_at", |store, key| drop(store.write_at(key, 100, &[7; 70_000], &PutOptions::default()).unwrap())),
    ("append", |store, key| drop(store.append(key, &[8; 5], &PutOptions::default()).unwrap())),
    ("write_at the end", |store, key| drop(store.write_at(key, FILE_BYTES as u64 + 9, &[9], &replicated()).unwrap())),
    ("cut", |store, key| store.set_length(key, 1 << 20).unwrap()),
    ("cut within a frame", |store, key| store.set_length(key, 1_500_000).unwrap()),
    ("empty", |store, key| store.set_length(key, 0).unwrap()),
    ("extend", |store, key| store.set_length(key, 5 << 20).unwrap()),
    ("attributes", |store, key| {
        store.set_attributes(key, Attributes { mode: 0o600, mtime: 1, ..Attributes::default() }).unwrap();
    }),
    ("replace", |store, key| drop(store.put_bytes(key, &noise(90_000, 5), &replicated()).unwrap())),
    ("rename", |store, key| store.rename(key, b"renamed").unwrap()),
    ("remove", |store, key| store.remove(key).unwrap()),
];

fn calls_leave_the_file_alone(format: &str, expected: Adoption) {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("disk");
    let Some(_mounted) = mount(format, &dir.path().join("image"), &at) else { return };
    let pfs = tier(&at, "pfs", &["pfs"], "layout = 'plain'");
    let ram = tier(dir.path(), "ram", &["ram"], "persistent = false");
    let store = store_of(dir.path(), &[ram, pfs]);
    let path = at.join("owned");
    fs::write(&path, noise(FILE_BYTES, 1)).unwrap();
    let before = seen(&path);
    for replicas in [1, 2] {
        for (what, call) in OBJECT_CALLS {
            let options = PutOptions { replicas: Some(replicas), ..replicated() };
            let (how, receipt) = store.adopt(b"key", &File::open(&path).unwrap(), &options).unwrap();
            assert_eq!((how, receipt.bytes, receipt.owed), (expected, FILE_BYTES as u64, 0));
            assert!(store.get(b"key").unwrap() == before.4);
            // The same change of an object that was copied has the same result.
            store.put_bytes(b"copied", &before.4, &options).unwrap();
            call(&store, b"key");
            store.sync().unwrap();
            let result = if what == "rename" { &b"renamed"[..] } else { b"key" };
            let changed = store.get(result).ok();
            assert!(seen(&path) == before, "{what} changed the file");
            if what != "rename" {
                call(&store, b"copied");
                assert!(changed == store.get(b"copied").ok(), "{what}");
            }
            let scrubbed = store.scrub(b"", true, None, |_| {}).unwrap();
            assert_eq!((scrubbed.bad, scrubbed.lost, scrubbed.changed), (0, 0, 0), "{what}");
            assert!(seen(&path) == before, "a scrub after {what} changed the file");
            for key in [&b"key"[..], b"copied", b"renamed"] {
                drop(store.remove(key));
            }
        }
    }
    drop(store);
    let store = Store::open(&dir.path().join("store")).unwrap();
    store.sync().unwrap();
    store.prune(true).unwrap();
    assert!(seen(&path) == before);
}

#[test]
fn calls_leave_a_linked_file_alone() {
    calls_leave_the_file_alone("tmpfs", Adoption::Linked);
}

#[test]
fn calls_leave_a_cloned_file_of_xfs_alone() {
    calls_leave_the_file_alone("xfs", Adoption::Cloned);
}

#[test]
fn calls_leave_a_cloned_file_of_btrfs_alone() {
    calls_leave_the_file_alone("btrfs", Adoption::Cloned);
}

#[test]
fn a_long_file_is_staged_and_keeps_its_holes() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("disk");
    let Some(_mounted) = mount("btrfs", &dir.path().join("image"), &at) else { return };
    let store = store_of(dir.path(), &[tier(&at, "pfs", &["pfs"], "layout = 'plain'")]);
    let path = at.join("owned");
    let file = File::create(&path).unwrap();
    file.set_len(1 << 30).unwrap();
    file.write_all_at(&noise(100_000_000, 2), 300_000_000).unwrap();
    drop(file);
    let before = fs::metadata(&path).unwrap();
    store.adopt(b"a/b", &File::open(&path).unwrap(), &replicated()).unwrap();
    let named = fs::metadata(at.join("pfs/files/a/b")).unwrap();
    assert_eq!((named.len(), named.ino() != before.ino()), (before.len(), true));
    let mut read = [1; 3];
    assert_eq!(store.read_at(b"a/b", 299_999_999, &mut read).unwrap(), 3);
    assert_eq!((read[0], &read[1..]), (0, &noise(100_000_000, 2)[..2]));
    assert_eq!(store.stat(b"a/b").unwrap().length, 1 << 30);
    assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().bad, 0);
}
