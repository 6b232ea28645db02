//! Copies of a store's directory, which name the same targets. Used at the same time they would write frames to the same places.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{store_of, tier};
use terrace::{Ack, PutOptions, Store};
use terrace_testkit::{Missing, noise, skip};

fn durable() -> PutOptions {
    PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() }
}

fn copy_of(home: &Path) -> PathBuf {
    let copy = home.with_extension("copy");
    assert!(Command::new("cp").arg("-a").args([home, &copy]).status().unwrap().success());
    copy
}

fn refusal(dir: &Path) -> String {
    Store::open(dir).map(drop).unwrap_err().to_string()
}

#[test]
fn two_copies_of_a_store_are_not_used_at_the_same_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "a", &["a"], ""), tier(dir.path(), "b", &["b"], "")]);
    let bytes = noise(500_000, 1);
    store.put_bytes(b"k", &bytes, &durable()).unwrap();
    let home = store.dir().to_owned();
    drop(store);
    let copy = copy_of(&home);
    // Without it, nothing says that this is a copy.
    let place = fs::read(copy.join("place")).unwrap();
    fs::remove_file(copy.join("place")).unwrap();

    let store = Store::open(&home).unwrap();
    let again = Store::open(&home).unwrap();
    let refused = refusal(&copy);
    assert!(refused.contains("another copy"), "{refused}");
    let log =
        || fs::read_dir(copy.join("log")).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum::<u64>();
    let before = (log(), fs::read(copy.join("boot")).unwrap());
    for rebuilt in [Store::rebuild(&copy).map(drop), Store::salvage(&copy).map(drop)] {
        let refused = rebuilt.unwrap_err().to_string();
        assert!(refused.contains("another copy"), "{refused}");
    }
    assert!(before == (log(), fs::read(copy.join("boot")).unwrap()), "nothing was changed");
    fs::write(copy.join("place"), place).unwrap();
    for force in [false, true] {
        // It is the targets of the one that is open that would be emptied.
        match Store::destroy(&copy, force) {
            Ok(remains) => {
                assert!(force && remains.targets.iter().all(|target| target.reason.contains("copy of the store")))
            }
            Err(refused) => assert!(!force && refused.to_string().contains("copy of the store"), "{refused}"),
        }
        assert_eq!(copy.exists(), !force);
    }
    store.put_bytes(b"more", &bytes, &durable()).unwrap();
    assert!(store.get(b"k").unwrap() == bytes);
    drop((store, again));

    let store = Store::open(&home).unwrap();
    assert!(store.get(b"more").unwrap() == bytes);
}

#[test]
fn a_copy_may_take_over_when_the_first_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "a", &["a"], "")]);
    let bytes = noise(100_000, 2);
    store.put_bytes(b"k", &bytes, &durable()).unwrap();
    let home = store.dir().to_owned();
    drop(store);
    let copy = copy_of(&home);
    fs::remove_file(copy.join("place")).unwrap();
    let moved = Store::open(&copy).unwrap();
    assert!(moved.get(b"k").unwrap() == bytes);
    assert!(refusal(&home).contains("another copy"));
    moved.put_bytes(b"more", &bytes, &durable()).unwrap();
    // A mark says how far the log must reach. The background thread may end before it has made one.
    moved.mark_placed().unwrap();
    drop(moved);
    assert!(refusal(&home).contains("commit"));
}

/// The copy was accepted. Once it had written, no command opened the original, except `rebuild --salvage`.
#[test]
fn a_copy_of_an_idle_store_is_refused_until_the_original_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "a", &["a"], "")]);
    let bytes = noise(100_000, 3);
    store.put_bytes(b"k", &bytes, &durable()).unwrap();
    let home = store.dir().to_owned();
    store.close().unwrap();
    let copy = copy_of(&home);
    let refusals = [
        refusal(&copy),
        Store::rebuild(&copy).map(drop).unwrap_err().to_string(),
        Store::salvage(&copy).map(drop).unwrap_err().to_string(),
        Store::renew_tier(&copy, "a", false).map(drop).unwrap_err().to_string(),
        Store::remove_tier(&copy, "a").map(drop).unwrap_err().to_string(),
    ];
    let advice = [home.join("store"), copy.join("place")].map(|file| file.display().to_string());
    for refused in &refusals {
        assert!(refused.contains("copy of the store") && refused.contains("destroy --force"), "{refused}");
        assert!(advice.iter().all(|file| refused.contains(file)), "{refused}");
    }
    let differing = Command::new("diff").arg("-r").args([&home, &copy]).output().unwrap();
    assert!(differing.stdout.is_empty(), "{}", String::from_utf8_lossy(&differing.stdout));
    let store = Store::open(&home).unwrap();
    store.put_bytes(b"more", &bytes, &durable()).unwrap();
    store.close().unwrap();

    // As the error says.
    let copy = {
        fs::remove_dir_all(&copy).unwrap();
        copy_of(&home)
    };
    fs::remove_file(home.join("store")).unwrap();
    let store = Store::open(&copy).unwrap();
    assert!(store.get(b"k").unwrap() == bytes && store.get(b"more").unwrap() == bytes);
    store.close().unwrap();
    assert!(refusal(&home).contains("`store` is lost"));
    assert_eq!(fs::read(copy.join("place")).unwrap(), copy.as_os_str().as_encoded_bytes());
}

fn is_opened(dir: &Path) {
    assert_eq!(Store::open(dir).unwrap().get(b"k").unwrap(), b"bytes", "{}", dir.display());
}

#[test]
fn a_moved_store_is_no_copy_of_what_has_its_place_now() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "a", &["a"], "")]);
    store.put_bytes(b"k", b"bytes", &durable()).unwrap();
    let home = store.dir().to_owned();
    drop(store);
    let moved = home.with_extension("moved");
    fs::rename(&home, &moved).unwrap();
    // Another store, a file, a link to the moved one.
    let other = tempfile::tempdir().unwrap();
    drop(store_of(other.path(), &[tier(other.path(), "a", &["a"], "")]));
    for make in [
        &(|| fs::rename(other.path().join("store"), &home).unwrap()) as &dyn Fn(),
        &|| fs::write(&home, "").unwrap(),
        &|| std::os::unix::fs::symlink(&moved, &home).unwrap(),
    ] {
        fs::write(moved.join("place"), home.as_os_str().as_encoded_bytes()).unwrap();
        make();
        is_opened(&moved);
        if home.is_dir() && !home.is_symlink() { fs::remove_dir_all(&home) } else { fs::remove_file(&home) }.unwrap();
    }
    assert_eq!(fs::read(moved.join("place")).unwrap(), home.as_os_str().as_encoded_bytes(), "the link was the store");
    is_opened(&moved);
    assert_eq!(fs::read(moved.join("place")).unwrap(), moved.as_os_str().as_encoded_bytes());
}

/// Unmounts when it is dropped.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // It may not have been mounted.
        let _ = Command::new("umount").arg("-l").arg(self.0).output();
    }
}

#[test]
fn a_store_may_be_used_by_all_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "a", &["a"], "")]);
    store.put_bytes(b"k", b"bytes", &durable()).unwrap();
    let home = store.dir().to_owned();
    drop(store);
    let link = home.with_extension("link");
    std::os::unix::fs::symlink(&home, &link).unwrap();
    is_opened(&link);
    let bound = home.with_extension("bound");
    fs::create_dir(&bound).unwrap();
    let made = Command::new("mount").arg("--bind").args([&home, &bound]).output().unwrap();
    if !made.status.success() {
        return skip("stores by another mount", &Missing::new("loop", String::from_utf8_lossy(&made.stderr)));
    }
    let _mounted = Mounted(&bound);
    is_opened(&bound);
    is_opened(&home);
    assert_eq!(fs::read(home.join("place")).unwrap(), home.as_os_str().as_encoded_bytes());
}

/// Whether the kernel tells the mounts of the store's file system apart, so that the boot mark names one.
fn is_incarnation_known(home: &Path) -> bool {
    fs::read_to_string(home.join("boot")).unwrap().contains('/')
}

/// As an image of a disk in use has it: files of several moments. A catalog that is older than the log was trusted, and
/// objects that had been durable when the copy was made were missing.
#[test]
fn a_copy_that_is_made_of_a_store_in_use_holds_what_its_log_does() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "a", &["a"], "")]);
    let home = store.dir().to_owned();
    if !is_incarnation_known(&home) {
        let missing = Missing::new("sysfs", "the kernel does not tell the mounts of this file system apart");
        return skip("copies of a store in use", &missing);
    }
    let put = |numbers: std::ops::Range<u64>| {
        numbers.for_each(|n| drop(store.put_bytes(n.to_string().as_bytes(), &noise(5_000, n), &durable()).unwrap()))
    };
    put(0..20);
    let earlier = tempfile::tempdir().unwrap();
    let copy_folder = |from: &Path, to: &Path| {
        assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    };
    copy_folder(&home.join("catalog"), &earlier.path().join("catalog"));
    put(20..40);
    store.put_bytes(b"3", &noise(6_000, 3), &durable()).unwrap();
    let copy = copy_of(&home);
    fs::remove_dir_all(copy.join("catalog")).unwrap();
    copy_folder(&earlier.path().join("catalog"), &copy.join("catalog"));
    drop(store);
    fs::remove_dir_all(&home).unwrap();

    let store = Store::open(&copy).unwrap();
    assert!(store.get(b"3").unwrap() == noise(6_000, 3));
    for n in (0..40).filter(|n| *n != 3) {
        assert!(store.get(n.to_string().as_bytes()).unwrap() == noise(5_000, n), "object {n}");
    }
}

/// A backup of the directory was destroyed, and with it all that the idle original had on its targets.
#[test]
fn to_destroy_a_copy_leaves_the_data_of_the_original() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "a", &["a"], "")]);
    let home = store.dir().to_owned();
    drop(store);
    let copy = copy_of(&home);
    let store = Store::open(&home).unwrap();
    let bytes = noise(100_000, 5);
    store.put_bytes(b"k", &bytes, &PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() }).unwrap();
    drop(store);

    let refused = Store::destroy(&copy, false).map(drop).unwrap_err().to_string();
    assert!(refused.contains("copy of the store"), "{refused}");
    let remains = Store::destroy(&copy, true).unwrap();
    assert!(remains.targets.iter().all(|target| target.reason.contains("copy of the store")));
    assert!(!copy.exists());
    assert!(Store::open(&home).unwrap().get(b"k").unwrap() == bytes);

    // One that was moved is the store itself.
    let moved = home.with_extension("moved");
    fs::rename(&home, &moved).unwrap();
    Store::destroy(&moved, true).unwrap();
    assert!(!moved.exists() && !dir.path().join("a/segments").exists());
}
