//! Key spaces in a store: any byte string names an object, which files see.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::{new_store, store_of, tier};
use terrace::catalog::{Expect, NameListing};
use terrace::key::{KeyRule, KeySpace, MAX_FLAT_KEY};
use terrace::{Attributes, Error, Files, PutOptions, Store};

const ALL_NAMES: NameListing<'_> = NameListing { prefix: b"", delimiter: b"", after: None, limit: 1000 };

fn names(store: &Store, space: &KeySpace) -> Vec<Vec<u8>> {
    store.list_names(space, &ALL_NAMES).unwrap().names.into_iter().map(|(name, _)| name).collect()
}

fn plain_store(dir: &Path) -> Store {
    store_of(dir, &[tier(dir, "pfs", &["a", "b"], "layout = 'plain'")])
}

#[test]
fn any_bytes_name_an_object() {
    for make in [new_store, plain_store] {
        let dir = tempfile::tempdir().unwrap();
        let store = make(dir.path());
        let bucket = store.make_key_space(b"bucket", KeyRule::Flat).unwrap();
        let longest: Vec<u8> = b"/.\0/".iter().copied().cycle().take(MAX_FLAT_KEY).collect();
        let mut all: Vec<Vec<u8>> =
            [&b""[..], b"a", b"a/", b"a/b", b"a//b", b"/", b"..", b"../x", b"\0", b"\xff", b".terrace/x"]
                .map(Vec::from)
                .into_iter()
                .chain([longest, vec![b'n'; MAX_FLAT_KEY]])
                .collect();
        for name in &all {
            store.put_bytes(&bucket.key(name).unwrap(), name, &PutOptions::default()).unwrap();
        }
        all.sort();
        assert_eq!(names(&store, &bucket), all);
        store.close().unwrap();
        let store = Store::open(&dir.path().join("store")).unwrap();
        let bucket = store.key_space(b"bucket").unwrap();
        assert_eq!((bucket.rule(), names(&store, &bucket)), (KeyRule::Flat, all.clone()));
        for name in &all {
            assert_eq!(&store.get(&bucket.key(name).unwrap()).unwrap(), name);
            assert_eq!(store.stat_name(&bucket, name).unwrap().length, name.len() as u64);
        }
        assert_eq!(Files::new(&store).unwrap().stat(b"bucket/a\x01").unwrap().length, 1);
        assert_eq!(Files::new(&store).unwrap().stat(b"bucket/a/b\x01").unwrap().length, 3);
        let error = bucket.key(&[b'n'; MAX_FLAT_KEY + 1]).unwrap_err().to_string();
        assert!(error.ends_with("has 1025 bytes, but a flat key has at most 1024 bytes; use a shorter key"), "{error}");
        store.close().unwrap();
    }
}

#[test]
fn a_key_space_is_made_once_and_removed_when_it_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    assert!(matches!(store.key_space(b"b"), Err(Error::NotFound { .. })));
    let flat = store.make_key_space(b"b", KeyRule::Flat).unwrap();
    assert!(matches!(store.make_key_space(b"b", KeyRule::Flat), Err(Error::Conflict { .. })));
    // Files see the keys of a flat space as they are stored, and what they put there under other names is in the way of some names.
    store.put_bytes(b"b/file", b"x", &PutOptions::default()).unwrap();
    assert_eq!(names(&store, &flat), [b""; 0]);
    let below_file = store.put_bytes(&flat.key(b"file/x").unwrap(), b"x", &PutOptions::default());
    assert!(matches!(below_file, Err(Error::Conflict { .. })));
    store.put_bytes(&flat.key(b"file").unwrap(), b"x", &PutOptions::default()).unwrap();
    assert_eq!(names(&store, &flat), [b"file"]);
    assert!(matches!(store.remove_key_space(&flat), Err(Error::Conflict { .. })));
    store.remove(b"b/file").unwrap();
    store.remove(&flat.key(b"file").unwrap()).unwrap();
    store.remove_key_space(&flat).unwrap();
    assert!(matches!(store.remove_key_space(&flat), Err(Error::NotFound { .. })));

    // Each folder of files is a key space of paths.
    store.put_bytes(b"runs/x/a", b"x", &PutOptions::default()).unwrap();
    let paths = store.key_space(b"runs").unwrap();
    assert_eq!((paths.rule(), names(&store, &paths)), (KeyRule::Paths, vec![b"x/a".to_vec()]));
    assert!(matches!(store.key_space(b"runs/x/a"), Err(Error::Conflict { .. })));
    assert!(store.make_key_space(b"runs", KeyRule::Flat).is_err());
    store.close().unwrap();
}

#[test]
fn expired_names_are_hidden_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let space = store.make_key_space(b"cache", KeyRule::Flat).unwrap();
    for (name, time) in [(&b"past"[..], 1), (b"to come", u64::MAX)] {
        let mut attributes = Attributes::now();
        attributes.set_expiry(Some(time));
        let options = PutOptions { attributes: Some(attributes), ..PutOptions::default() };
        store.put_bytes(&space.key(name).unwrap(), b"x", &options).unwrap();
    }
    assert_eq!(names(&store, &space), [b"to come"]);
    assert!(matches!(store.stat_name(&space, b"past"), Err(Error::NotFound { .. })));
    assert_eq!(store.stat_name(&space, b"to come").unwrap().length, 1);
    store.close().unwrap();
}

#[test]
fn folders_at_the_top_are_listed_as_key_spaces() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    store.make_key_space(b"bucket", KeyRule::Flat).unwrap();
    store.make_key_space(b"empty", KeyRule::Paths).unwrap();
    for key in [&b"alone"[..], b"runs/a", b"runs/b/c", &[&[b'f'; 121][..], b"/a"].concat()] {
        store.put_bytes(key, b"1", &PutOptions::default()).unwrap();
    }
    store.begin_upload(b"runs/x", &PutOptions::default(), None).unwrap();
    let found = store.top_key_spaces().unwrap();
    let found: Vec<_> = found.iter().map(|child| (child.name.as_slice(), child.object.is_some())).collect();
    assert_eq!(found, [(&b"bucket"[..], true), (b"empty", true), (b"runs", false)]);
}

/// Two clients that replaced the same version both succeeded, and a name came into a folder that was removed meanwhile.
#[test]
fn a_write_keeps_its_conditions() {
    for make in [new_store, plain_store] {
        let dir = tempfile::tempdir().unwrap();
        let store = make(dir.path());
        let bucket = store.make_key_space(b"bucket", KeyRule::Flat).unwrap();
        let folder = store.stat(b"bucket").unwrap();
        let key = bucket.key(b"a").unwrap();
        let put = |bytes: &[u8], expect: Vec<Expect>| {
            let options = PutOptions { expect, ..PutOptions::default() };
            store.put_described(&key, bytes, &options, |_| ()).map(drop)
        };
        put(b"first", vec![Expect::Names(b"bucket".to_vec(), folder.id)]).unwrap();
        let first = store.stat(&key).unwrap();
        let same = || vec![Expect::Names(key.clone(), first.id), Expect::Generation(key.clone(), first.generation)];
        put(b"second", same()).unwrap();
        assert!(matches!(put(b"third", same()), Err(Error::Conflict { .. })));
        assert_eq!(store.get(&key).unwrap(), b"second");

        let other = bucket.key(b"b").unwrap();
        let copy = |expect: Vec<Expect>| {
            let options = PutOptions { expect, ..PutOptions::default() };
            let mark = |attributes: &mut Attributes| drop(attributes.user.insert("copied".into(), "yes".into()));
            store.copy_described(&key, &other, &options, mark)
        };
        assert!(matches!(copy(vec![Expect::Names(b"bucket".to_vec(), folder.id + 1)]), Err(Error::Conflict { .. })));
        assert!(store.stat(&other).is_err());
        let copied = copy(vec![Expect::Names(b"bucket".to_vec(), folder.id)]).unwrap();
        assert_eq!(copied.attributes.user.get("copied").map(String::as_str), Some("yes"));
        let found = store.stat(&other).unwrap();
        assert_eq!((found.id, found.generation, found.attributes), (copied.id, copied.generation, copied.attributes));
        assert_eq!((store.get(&other).unwrap(), found.length), (b"second".to_vec(), 6));
        assert!(!store.stat(&key).unwrap().attributes.user.contains_key("copied"));

        let upload = store.begin_upload(&key, &PutOptions::default(), None).unwrap();
        let part = store.put_part(upload, 1, &b"part"[..], &PutOptions::default(), |_| ()).unwrap();
        let complete = |expect: Vec<Expect>| {
            let options = PutOptions { expect, ..PutOptions::default() };
            store.complete_upload(upload, &[(1, part.object.etag())], &options, |_| ()).map(drop)
        };
        assert!(matches!(complete(same()), Err(Error::Conflict { .. })));
        assert_eq!(store.get(&key).unwrap(), b"second");
        complete(vec![Expect::Names(b"bucket".to_vec(), folder.id)]).unwrap();
        assert_eq!(store.get(&key).unwrap(), b"part");
        store.close().unwrap();
    }
}
