//! Plain files: what is under `files/` is what the store holds, whatever happens on either side.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use common::{replicated, store_of, tier};
use terrace::report::ReplicaState;
use terrace::{Attributes, Config, PutOptions, Store};
use terrace_testkit::noise;

fn new_store(dir: &Path) -> Store {
    let pfs = tier(dir, "pfs", &["a", "b"], "layout = 'plain'");
    store_of(dir, &[tier(dir, "ram", &["ram"], "persistent = false"), pfs])
}

fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            walk(root, &path, found);
        } else {
            found.insert(path.strip_prefix(root).unwrap().display().to_string(), fs::read(&path).unwrap());
        }
    }
}

/// All plain files of both targets, by key.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for target in ["a", "b"] {
        let root = dir.join(target).join("files");
        walk(&root, &root, &mut found);
    }
    found
}

fn objects(store: &Store) -> BTreeMap<String, Vec<u8>> {
    let all = store.list(b"", None, 100).unwrap().into_iter();
    all.map(|(key, _)| (String::from_utf8(key.clone()).unwrap(), store.get(&key).unwrap())).collect()
}

fn file_of(store: &Store, key: &[u8]) -> PathBuf {
    let extents = store.locate(key).unwrap().extents;
    let mut files = extents.iter().map(|e| {
        let plain = e.replicas.iter().find(|r| r.tier == "pfs" && r.state == ReplicaState::Present).unwrap();
        assert_eq!((plain.encoding.as_str(), plain.position), ("none", Some(e.offset)));
        plain.file.clone().unwrap()
    });
    let first = files.next().unwrap();
    assert!(files.all(|file| file == first), "an object is in one file");
    first
}

#[test]
fn objects_are_ordinary_files_and_stay_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let attributes = Some(Attributes { mode: 0o640, mtime: 1_000_000_007, ..Attributes::default() });
    for (key, length) in [("one", 1), ("runs/a.h5", 3_500_001), ("runs/deep/er/b", 70_000), ("runs/c", 1 << 20)] {
        let options = PutOptions { attributes: attributes.clone(), ..replicated() };
        store.put_bytes(key.as_bytes(), &noise(length, length as u64), &options).unwrap();
        let metadata = fs::metadata(file_of(&store, key.as_bytes())).unwrap();
        assert_eq!((metadata.mode() & 0o777, metadata.mtime(), metadata.mtime_nsec()), (0o640, 1, 7));
    }
    assert!(files(dir.path()) == objects(&store));
    // Deleted, renamed, replaced: what people see follows at once.
    store.remove(b"runs/deep/er/b").unwrap();
    store.rename(b"runs/a.h5", b"moved/to/d").unwrap();
    store.rename(b"runs/c", b"one").unwrap();
    assert!(files(dir.path()) == objects(&store), "{:?}", files(dir.path()).keys());
    assert!(["a", "b"].iter().all(|target| !dir.path().join(target).join("files/runs").exists()));
    store.put_bytes(b"one", &noise(2_000_000, 9), &replicated()).unwrap();
    store.set_attributes(b"one", Attributes { mode: 0o600, mtime: -1, ..Attributes::default() }).unwrap();
    assert!(files(dir.path()) == objects(&store));
    let metadata = fs::metadata(file_of(&store, b"one")).unwrap();
    assert_eq!((metadata.mode() & 0o777, metadata.mtime()), (0o600, -1));
    store.sync().unwrap();
    store.reap_now().unwrap();
    let before = store.catalog().dump().unwrap();
    let (home, all) = (store.dir().to_owned(), objects(&store));
    drop(store);
    let store = Store::rebuild(&home).unwrap();
    assert!(store.catalog().dump().unwrap() == before);
    let scrubbed = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((scrubbed.bad, scrubbed.lost, scrubbed.away), (0, 0, 0));
    // The files alone are enough.
    store.evict(b"", "ram").unwrap();
    assert!(objects(&store) == all && files(dir.path()) == all);
    for (key, _) in all {
        store.remove(key.as_bytes()).unwrap();
    }
    store.sync().unwrap();
    store.reap_now().unwrap();
    assert!(files(dir.path()).is_empty());
    let used = store.status().unwrap().tiers[1].used;
    assert!(used < 100_000, "{used} bytes are not given back");
}

#[test]
fn what_is_written_in_ranges_is_folded_in() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    store.put_bytes(b"k", &noise(3_000_000, 1), &replicated()).unwrap();
    let old = files(dir.path());
    let handle = store.handle(b"k").unwrap();
    for at in [0, 700_000, 1_048_570, 2_999_999, 3_100_000] {
        store.write_at(b"k", at, &noise(50_000, at), &PutOptions::default()).unwrap();
    }
    assert!(files(dir.path()) == old, "a file changes as a whole");
    store.sync().unwrap();
    assert!(files(dir.path()) == objects(&store));
    for length in [2_000_000, 5_000_000, 10] {
        store.set_length(b"k", length).unwrap();
        store.sync().unwrap();
        assert_eq!(store.get(b"k").unwrap().len() as u64, length);
        assert!(files(dir.path()) == objects(&store), "{length}");
    }
    store.write_at(b"sparse", 2_500_000, b"end", &replicated()).unwrap();
    assert!(files(dir.path()) == objects(&store));
    store.reap_now().unwrap();
    let mut bytes = vec![0; 3_000_000];
    handle.read_at(0, &mut bytes).unwrap();
    assert!(bytes == old["k"], "a handle outlives its file's name");
    store.set_length(b"k", 0).unwrap();
    assert!(!files(dir.path()).contains_key("k"));
}

#[test]
fn holes_are_holes_in_the_files_too() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let block = 1 << 20;
    for (key, at, length) in [("part", 70_000, 9_000), ("end", 2 * block, 900_000), ("middle", block, block)] {
        store.put_bytes(key.as_bytes(), &noise(2_900_000, 3), &replicated()).unwrap();
        common::clear(&store, key.as_bytes(), at, length).unwrap();
    }
    for key in ["cut", "short"] {
        store.put_bytes(key.as_bytes(), &noise(2_900_000, 4), &replicated()).unwrap();
        store.set_length(key.as_bytes(), 2 * block).unwrap();
    }
    store.set_length(b"cut", 2_900_000).unwrap();
    store.put_bytes(b"all", &noise(100_000, 5), &replicated()).unwrap();
    common::clear(&store, b"all", 0, 100_000).unwrap();
    store.sync().unwrap();
    let mut expected = objects(&store);
    assert!(expected.remove("all") == Some(vec![0; 100_000]), "of a hole alone there is no file");
    assert!(files(dir.path()) == expected);
}

#[test]
fn a_file_that_was_altered_is_found_and_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let bytes = noise(2_500_000, 2);
    store.put_bytes(b"d/k", &bytes, &replicated()).unwrap();
    let file = file_of(&store, b"d/k");
    let alterations: [fn(&Path, &[u8]); 5] = [
        |file, bytes| {
            let mut altered = bytes.to_vec();
            altered[1_500_000] ^= 1;
            fs::write(file, altered).unwrap();
        },
        |file, _| fs::OpenOptions::new().write(true).open(file).unwrap().set_len(1000).unwrap(),
        |file, _| fs::remove_file(file).unwrap(),
        |file, bytes| fs::write(file, [bytes, b"more"].concat()).unwrap(),
        |file, _| {
            fs::write(file.with_extension("new"), "another's").unwrap();
            fs::rename(file.with_extension("new"), file).unwrap();
        },
    ];
    for (n, alter) in alterations.into_iter().enumerate() {
        alter(&file, &bytes);
        assert!(store.get(b"d/k").unwrap() == bytes, "{n}");
        assert!(store.scrub(b"", false, None, |_| {}).unwrap().bad > 0, "{n}: not found");
        let repaired = store.scrub(b"", true, None, |_| {}).unwrap();
        assert_eq!((repaired.repaired, repaired.lost), (repaired.bad, 0), "{n}: {repaired:?}");
        store.sync().unwrap();
        assert!(fs::read(&file).unwrap() == bytes, "{n}");
        assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().bad, 0, "{n}");
    }
    // A file of somebody else's is not deleted with the object.
    alterations_by_others(&file);
    store.remove(b"d/k").unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"another's");
}

fn alterations_by_others(file: &Path) {
    fs::remove_file(file).unwrap();
    fs::write(file, "another's").unwrap();
}

#[test]
fn what_cannot_be_an_ordinary_file_stays_frames() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let bytes = noise(1_200_000, 3);
    let long = [b"d/".as_slice(), &[b'x'; 300]].concat();
    store.put_bytes(&long, &bytes, &replicated()).unwrap();
    let link = Some(Attributes { kind: terrace::Kind::Symlink, ..Attributes::default() });
    store.put_bytes(b"link", b"/somewhere", &PutOptions { attributes: link, ..replicated() }).unwrap();
    assert!(files(dir.path()).is_empty());
    assert_eq!(store.status().unwrap().owed, 0);
    // No link leads out of the target.
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    for target in ["a", "b"] {
        fs::create_dir_all(dir.path().join(target).join("files")).unwrap();
        symlink(&outside, dir.path().join(target).join("files/escape")).unwrap();
    }
    store.put_bytes(b"escape/k", &bytes, &replicated()).unwrap();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    store.evict(b"", "ram").unwrap();
    assert!(store.get(b"escape/k").unwrap() == bytes && store.get(&long).unwrap() == bytes);
    assert_eq!(store.get(b"link").unwrap(), b"/somewhere");
    // Longer than any file, and no reason to think ill of the target.
    store.put_bytes(b"longest", b"x", &replicated()).unwrap();
    store.set_length(b"longest", 1 << 60).unwrap();
    store.write_at(b"longest", 1 << 59, b"y", &replicated()).unwrap();
    store.put_bytes(b"next", &bytes, &replicated()).unwrap();
    store.sync().unwrap();
    assert_eq!((file_of(&store, b"next").exists(), store.status().unwrap().owed), (true, 0));
}

/// A sync follows the names of files, which may owe a file again; it then goes on. It ends, whatever the object has become.
#[test]
fn a_sync_ends_with_nothing_pending_though_an_object_outgrows_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    store.put_bytes(b"grows", &noise(300_000, 1), &replicated()).unwrap();
    let ways: [fn(&Store); 4] = [
        |store| drop(store.write_at(b"grows", 1 << 44, b"far", &PutOptions::default()).unwrap()),
        |store| store.set_length(b"grows", 100_000).unwrap(),
        |store| store.set_length(b"grows", 1 << 20).unwrap(),
        |store| drop(store.append(b"grows", b"more", &PutOptions::default()).unwrap()),
    ];
    for change in ways {
        change(&store);
        store.sync().unwrap();
        assert_eq!(store.status().unwrap().owed, 0);
    }
    assert_eq!(store.get(b"grows").unwrap(), fs::read(file_of(&store, b"grows")).unwrap());
}

#[test]
fn a_store_of_plain_files_alone_needs_no_other_tier() {
    let dir = tempfile::tempdir().unwrap();
    let rule = "[[rule]]\nprefix = 'packed'\nlayout = 'frames'\n";
    let text = format!("{rule}{}", tier(dir.path(), "pfs", &["a"], "layout = 'plain'"));
    let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    let bytes = noise(3_000_000, 4);
    store.put_bytes(b"k", &bytes, &replicated()).unwrap();
    store.put_bytes(b"packed/k", &bytes, &replicated()).unwrap();
    assert_eq!(files(dir.path()), BTreeMap::from([("k".to_owned(), bytes.clone())]));
    store.sync().unwrap();
    store.reap_now().unwrap();
    let used = store.status().unwrap().tiers[0].used;
    assert!((6_000_000..6_200_000).contains(&used), "{used}: once as frames, once as a file");
    assert!(store.get(b"k").unwrap() == bytes);
}

#[test]
fn a_rule_makes_files_on_a_tier_of_frames() {
    let dir = tempfile::tempdir().unwrap();
    let rule = "[[rule]]\nprefix = 'shared'\nlayout = 'plain'\n";
    let text = format!("{rule}{}", tier(dir.path(), "disk", &["a"], ""));
    let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    store.put_bytes(b"shared/k", b"for all", &replicated()).unwrap();
    store.put_bytes(b"k", b"ours", &replicated()).unwrap();
    assert_eq!(files(dir.path()), BTreeMap::from([("shared/k".to_owned(), b"for all".to_vec())]));
}
