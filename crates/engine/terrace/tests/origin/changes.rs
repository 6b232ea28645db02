//! A store shows an origin that changes.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use terrace::files::Files;
use terrace::{Error, Kind};
use terrace_testkit::{Random, noise};

use super::{ASK_ONCE, AT_ONCE, Place};

#[test]
fn new_files_appear_and_removed_ones_go() {
    let place = Place::new(AT_ONCE);
    assert!(place.names().is_empty());
    place.write("a/1", b"1");
    place.write("b", b"2");
    assert_eq!(place.names(), ["a/1", "b"]);
    fs::remove_dir_all(place.origin().join("a")).unwrap();
    place.write("c", b"3");
    assert_eq!(place.names(), ["b", "c"]);
    assert!(matches!(place.get("a/1"), Err(Error::NotFound { .. })));
    assert!(matches!(place.store.stat(b"data/o/a"), Err(Error::NotFound { .. })));
    // A folder becomes a file, and a file a folder.
    fs::remove_file(place.origin().join("b")).unwrap();
    place.write("b/x/y", b"4");
    place.write("a", b"5");
    assert_eq!(place.get("b/x/y").unwrap(), b"4", "the name is found although no folder above it was listed");
    assert_eq!(place.names(), ["a", "b/x/y", "c"]);
    fs::remove_dir_all(place.origin().join("b")).unwrap();
    place.write("b", b"6");
    assert_eq!(place.get("b").unwrap(), b"6");
    assert_eq!(place.names(), ["a", "b", "c"]);
    assert_eq!(place.store.stat(b"data/o").unwrap().attributes.kind, Kind::Directory);
}

#[test]
fn names_are_asked_for_again_only_after_their_age() {
    let place = Place::new(ASK_ONCE);
    // The folder itself was listed when the origin was added.
    place.write("a", b"first");
    assert!(place.names().is_empty());
    assert!(matches!(place.get("a"), Err(Error::NotFound { .. })));
    place.store.remove_origin("data/o").unwrap();
    place.store.add_origin("data/o", place.origin().to_str().unwrap(), Default::default(), Some(ASK_ONCE)).unwrap();
    assert_eq!(place.get("a").unwrap(), b"first");
    place.write("a", b"second, and longer");
    assert_eq!(place.get("a").unwrap(), b"second, and longer", "what was written a moment ago is looked at each time");
    assert_eq!(place.names(), ["a"]);
}

#[test]
fn a_reader_keeps_its_version_or_gets_an_error() {
    let place = Place::new(AT_ONCE);
    let (old, new) = (noise(4 << 20, 1), noise(4 << 20, 2));
    place.write("f", &old);
    let handle = place.store.handle(b"data/o/f").unwrap();
    let files = Files::new(&place.store).unwrap();
    let file = files.open(b"data/o/f").unwrap();
    let mut part = vec![0; 1000];
    handle.read_at(0, &mut part).unwrap();
    assert!(part == old[..1000]);
    place.write("f", &new);
    // The bytes of the old version that are not here can be had no more.
    assert!(matches!(handle.read_at(2 << 20, &mut part), Err(Error::ChangedAtOrigin { .. })));
    handle.read_at(100, &mut part).unwrap();
    assert!(part == old[100..1100]);
    assert!(file.read_at(2 << 20, &mut part).is_err());
    assert!(place.get("f").unwrap() == new);
    handle.read_at(100, &mut part).unwrap();
    assert!(part == old[100..1100], "also once the key names the new version");
    // The times of modification and the length tell nothing here.
    let path = place.origin().join("f");
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let changed = OpenOptions::new().write(true).open(&path).unwrap();
    changed.write_all_at(b"changed in place", 1 << 20).unwrap();
    changed.set_modified(modified).unwrap();
    assert_eq!(&place.get("f").unwrap()[1 << 20..][..16], b"changed in place");
}

#[test]
fn an_unreachable_origin_leaves_what_is_cached() {
    let place = Place::new(AT_ONCE);
    place.write("cached", &noise(100_000, 1));
    place.write("unread", b"x");
    place.write("d/deep", b"y");
    assert_eq!(place.names(), ["cached", "d/deep", "unread"]);
    place.get("cached").unwrap();
    let away = place.dir().join("away");
    fs::rename(place.origin(), &away).unwrap();
    for is_empty_folder_there in [false, true] {
        if is_empty_folder_there {
            // As where a file system is not mounted.
            fs::create_dir(place.origin()).unwrap();
        }
        assert_eq!(place.names(), ["cached", "d/deep", "unread"]);
        assert!(place.get("cached").unwrap() == noise(100_000, 1));
        assert_eq!(place.store.stat(b"data/o/unread").unwrap().length, 1);
        for (name, doing) in [("unread", "reading"), ("unknown", "looking for")] {
            let error = place.get(name).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, Error::Origin { .. }), "{text}");
            assert!(text.contains(doing) && text.contains(place.origin().to_str().unwrap()), "{text}");
        }
    }
    fs::remove_dir(place.origin()).unwrap();
    fs::rename(away, place.origin()).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(place.get("unread").unwrap(), b"x");
    assert_eq!(place.get("d/deep").unwrap(), b"y");
}

/// Each version of a file has one byte, repeated. Readers never see two of them in one read or in one open file.
#[test]
fn no_reader_gets_a_mixture_of_versions() {
    const FILE_COUNT: u64 = 3;
    const FILE_LENGTH: usize = 700_000;
    let place = Place::new(AT_ONCE);
    let write = |file: u64, version: u8, in_place: bool| {
        let path = place.origin().join(file.to_string());
        let bytes = vec![version; FILE_LENGTH];
        match in_place {
            true => {
                let file = OpenOptions::new().write(true).open(path).unwrap();
                // In pieces, so that a read may come in between.
                for at in (0..FILE_LENGTH).step_by(100_000) {
                    file.write_all_at(&bytes[at..at + 100_000], at as u64).unwrap();
                }
            }
            false => {
                let new = place.dir().join("new");
                fs::write(&new, bytes).unwrap();
                fs::rename(new, path).unwrap();
            }
        }
    };
    (0..FILE_COUNT).for_each(|file| write(file, 1, false));
    let (is_over, whole, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..3u64 {
            let (place, is_over, whole, refused) = (&place, &is_over, &whole, &refused);
            scope.spawn(move || {
                let mut random = Random::new(reader);
                while !is_over.load(Ordering::Relaxed) {
                    let key = format!("data/o/{}", random.below(FILE_COUNT));
                    let Ok(handle) = place.store.handle(key.as_bytes()) else { continue };
                    let mut version = None;
                    for _ in 0..random.below(8) {
                        let mut part = vec![0; 1 + random.below(300_000) as usize];
                        let at = random.below(FILE_LENGTH as u64);
                        match handle.read_at(at, &mut part) {
                            Ok(length) => {
                                let first = *version.get_or_insert(part[0]);
                                assert!(part[..length].iter().all(|byte| *byte == first), "a mixture");
                                whole.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(Error::ChangedAtOrigin { .. } | Error::Replaced { .. }) => {
                                refused.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
        let mut random = Random::new(99);
        for version in 2..60 {
            write(random.below(FILE_COUNT), version, false);
            std::thread::sleep(Duration::from_millis(random.below(40)));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(whole.load(Ordering::Relaxed) > 50, "{whole:?} reads, {refused:?} refused");
    // A writer that is in the middle of a file has mixed it itself: the store shows what is there then, and the end once it is written.
    write(0, 200, true);
    let bytes = place.get("0").unwrap();
    assert!(bytes.iter().all(|byte| *byte == 200));
}

/// Each new process failed until the age of the names was over.
#[test]
fn a_change_that_one_reader_has_found_is_known_to_the_next_ones() {
    let place = Place::with_files(&[("f", &noise(500_000, 1))]);
    assert_eq!(place.names(), ["f"]);
    let handle = place.store.handle(b"data/o/f").unwrap();
    place.write("new", &noise(600_000, 2));
    fs::rename(place.origin().join("new"), place.origin().join("f")).unwrap();
    assert!(matches!(handle.read_at(0, &mut [0; 10]), Err(Error::ChangedAtOrigin { .. })));
    drop(handle);
    let Place { folder, store } = place;
    store.close().unwrap();
    let store = terrace::Store::open(&folder.path().join("store")).unwrap();
    assert!(store.get(b"data/o/f").unwrap() == noise(600_000, 2));
}

/// A copy was an object with one replica, as a file of an origin is.
#[test]
fn a_copy_of_a_file_of_an_origin_has_the_replicas_of_its_own_key() {
    let place = Place::with_files(&[("f", &noise(200_000, 1))]);
    place.store.put_bytes(b"put", b"x", &Default::default()).unwrap();
    place.store.copy(b"data/o/f", b"copy").unwrap();
    place.store.sync().unwrap();
    let want = |key: &[u8]| place.store.stat(key).unwrap().want;
    assert!(want(b"put") > 1 && want(b"copy") == want(b"put"), "{} {}", want(b"copy"), want(b"put"));
    assert_eq!(want(b"data/o/f"), 1);
}
