//! LMDB's files are damaged. A cut `data.mdb` ended the process with SIGBUS when LMDB touched a page that its map had and the
//! file lacked; an empty one was taken for a new catalog, under processes that still had the old one mapped.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{replicated, store_of, tier};
use terrace::{Error, Store};
use terrace_testkit::noise;

const OBJECT_COUNT: u64 = 300;
const PAGE_BYTES: u64 = 4096;

/// A closed store whose catalog has a tree of several levels.
fn closed_store(dir: &Path) -> PathBuf {
    let store = store_of(dir, &[tier(dir, "disk", &["a", "b"], "")]);
    for n in 0..OBJECT_COUNT {
        store.put_bytes(&key(n), &noise(100, n), &replicated()).unwrap();
    }
    store.close().unwrap();
    dir.join("store")
}

fn key(n: u64) -> Vec<u8> {
    format!("object/{n}/{}", "long".repeat(50)).into_bytes()
}

fn assert_whole(store: &Store) {
    for n in 0..OBJECT_COUNT {
        assert!(store.get(&key(n)).unwrap() == noise(100, n), "object {n}");
    }
}

/// Opens a store that was damaged: with all that it holds, or not at all and with advice.
fn open_damaged(home: &Path, how: &str) -> bool {
    match Store::open(home) {
        Ok(store) => {
            assert_whole(&store);
            true
        }
        Err(error @ Error::Damaged { .. }) => {
            assert!(error.to_string().contains("`terrace rebuild`"), "{how}: {error}");
            false
        }
        Err(error) => panic!("{how}: {error:?}"),
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-aT").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

/// Lengths around everything that LMDB reads at once: the meta pages' headers, the pages, the end.
fn interesting_lengths(whole: u64) -> Vec<u64> {
    let edges = [0, 16, 152, PAGE_BYTES + 16, PAGE_BYTES + 152, whole].into_iter();
    let pages = (1..whole / PAGE_BYTES).map(|page| page * PAGE_BYTES);
    let mut lengths: Vec<u64> = edges.chain(pages).flat_map(|at| [at.saturating_sub(1), at, at + 1]).collect();
    lengths.retain(|length| *length < whole);
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

#[test]
fn a_cut_data_file_is_an_error_that_names_rebuild_and_rebuild_works() {
    let dir = tempfile::tempdir().unwrap();
    let home = closed_store(dir.path());
    let data = home.join("catalog/data.mdb");
    let good = dir.path().join("good");
    copy(&home.join("catalog"), &good);
    let whole = fs::metadata(&data).unwrap().len();
    let lengths = interesting_lengths(whole);
    assert!(lengths.len() > 30, "{lengths:?}");
    let mut refused = 0;
    for length in lengths {
        File::options().write(true).open(&data).unwrap().set_len(length).unwrap();
        let opened = open_damaged(&home, &format!("{length} of {whole} bytes"));
        assert!(!opened || length > 2 * PAGE_BYTES, "{length} bytes are no catalog");
        refused += usize::from(!opened);
        fs::remove_dir_all(home.join("catalog")).unwrap();
        copy(&good, &home.join("catalog"));
    }
    assert!(refused > 20, "{refused} refused");
    for length in [0, 3 * PAGE_BYTES] {
        File::options().write(true).open(&data).unwrap().set_len(length).unwrap();
        assert!(!open_damaged(&home, &format!("{length} of {whole} bytes")));
        let store = Store::rebuild(&home).unwrap();
        assert_whole(&store);
        store.close().unwrap();
        assert_whole(&Store::open(&home).unwrap());
    }
}

#[test]
fn garbage_in_place_of_a_catalog_is_an_error_that_names_rebuild() {
    let dir = tempfile::tempdir().unwrap();
    let home = closed_store(dir.path());
    let data = home.join("catalog/data.mdb");
    let good = fs::read(&data).unwrap();
    let with = |at: usize, bytes: &[u8]| {
        let mut damaged = good.clone();
        for page in [0, PAGE_BYTES as usize] {
            damaged[page + at..][..bytes.len()].copy_from_slice(bytes);
        }
        damaged
    };
    let kinds = [
        ("noise", noise(good.len(), 1)),
        ("text", b"this is no catalog\n".repeat(2000)),
        ("zeros", vec![0; good.len()]),
        ("pages of no bytes", with(40, &[0; 4])),
        ("pages of 4 GiB", with(40, &[0xFF; 4])),
        ("a last page beyond all maps", with(136, &[0xFF; 8])),
        ("a root behind the end", with(128, &(1_u64 << 20).to_ne_bytes())),
    ];
    for (kind, bytes) in kinds {
        fs::write(&data, bytes).unwrap();
        assert!(!open_damaged(&home, kind), "{kind}");
    }
    let store = Store::rebuild(&home).unwrap();
    assert_whole(&store);
}

#[test]
fn a_damaged_lock_file_does_no_harm_while_nobody_uses_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let home = closed_store(dir.path());
    let lock = home.join("catalog/lock.mdb");
    let good = fs::read(&lock).unwrap();
    for length in [0, 1, 63, 64, 128, 4096, good.len() - 1] {
        File::options().write(true).open(&lock).unwrap().set_len(length as u64).unwrap();
        assert!(open_damaged(&home, &format!("a lock file of {length} bytes")));
    }
    for length in [1, 4096, good.len(), 3 * good.len()] {
        fs::write(&lock, noise(length, 9)).unwrap();
        assert!(open_damaged(&home, &format!("a lock file of {length} random bytes")));
    }
    fs::remove_file(&lock).unwrap();
    assert!(open_damaged(&home, "no lock file"));
}

/// Without its lock file LMDB took itself for the first, and wrote beside those who had the catalog open.
#[test]
fn lmdbs_files_are_not_made_again_while_another_process_uses_them() {
    let dir = tempfile::tempdir().unwrap();
    let home = closed_store(dir.path());
    let catalog = home.join("catalog");
    let good = dir.path().join("good");
    copy(&catalog, &good);
    for (name, cuts) in [("lock.mdb", [None, Some(0), Some(128)]), ("data.mdb", [Some(0), Some(1), Some(128)])] {
        for cut in cuts {
            // What another process holds while it has the store open.
            let other = [&home.join("lock"), &catalog].map(|path| File::open(path).unwrap());
            other.iter().for_each(|file| file.lock_shared().unwrap());
            match cut {
                None => fs::remove_file(catalog.join(name)).unwrap(),
                Some(length) => File::options().write(true).open(catalog.join(name)).unwrap().set_len(length).unwrap(),
            }
            let error = Store::open(&home).map(drop).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("`terrace rebuild`"), "{name} {cut:?}: {error}");
            drop(other);
            fs::remove_dir_all(&catalog).unwrap();
            copy(&good, &catalog);
        }
    }
    let other = File::open(&catalog).unwrap();
    other.lock_shared().unwrap();
    assert_whole(&Store::open(&home).unwrap());
}

/// A process that is killed while it makes a catalog leaves no data file that is too short.
#[test]
fn what_a_killed_process_left_of_a_new_catalog_is_thrown_away() {
    let dir = tempfile::tempdir().unwrap();
    let home = closed_store(dir.path());
    let catalog = home.join("catalog");
    fs::remove_dir_all(&catalog).unwrap();
    fs::create_dir_all(catalog.join("unfinished")).unwrap();
    fs::write(catalog.join("unfinished/data.mdb"), [0; 4096]).unwrap();
    assert_whole(&Store::open(&home).unwrap());
    assert!(!catalog.join("unfinished").exists());
}
