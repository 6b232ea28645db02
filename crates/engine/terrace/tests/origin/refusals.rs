//! Refused changes and refused origins.

use std::collections::BTreeMap;
use std::fs;

use terrace::files::{FileError, Files, Owner};
use terrace::{Error, PutOptions};

use super::{AT_ONCE, Place};

#[test]
fn nothing_is_written_at_an_origin() {
    let place = Place::new(AT_ONCE);
    place.write("f", b"bytes");
    place.write("d/g", b"bytes");
    let (store, key) = (&place.store, b"data/o/f".as_slice());
    let options = PutOptions::default();
    store.put_bytes(b"own", b"x", &options).unwrap();
    let results = [
        store.put_bytes(key, b"x", &options).map(drop),
        store.put_bytes(b"data/o/new", b"x", &options).map(drop),
        store.put_bytes(b"data/o", b"x", &options).map(drop),
        store.write_at(key, 0, b"x", &options).map(drop),
        store.set_length(key, 0),
        store.remove(key),
        store.rename(key, b"elsewhere"),
        store.rename(b"own", b"data/o/own"),
        store.copy(b"own", key),
        store.set_attributes(key, Default::default()),
        store.batch().put(key, b"x", &options).map(drop),
    ];
    for (number, result) in results.into_iter().enumerate() {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::ReadOnlyOrigin { .. }), "{number}: {error}");
    }
    let files = Files::new(store).unwrap();
    let owner = Owner { uid: 0, gid: 0 };
    let file = files.open(key).unwrap();
    let mut accepted = Ok(());
    file.write_behind(0, b"x", |result| accepted = result);
    let results = [
        file.write_at(0, b"x"),
        accepted,
        file.append(b"x").map(drop),
        file.set_len(1),
        file.clear(0, 1),
        files.create(b"data/o/new", 0o644, owner, false).map(drop),
        files.create(b"data/o/d/new", 0o644, owner, true).map(drop),
        files.make_directory(b"data/o/new", 0o755, owner),
        files.make_link(b"data/o/new", b"x", owner),
        files.remove(key),
        files.rename(key, b"own", true),
        files.rename(b"own", key, true),
        files.rename(b"data", b"moved", true),
        files.rename(b"data/o/d", b"moved", true),
        files.set(key, &Default::default()).map(drop),
        files.set_pair(key, "note", Some("x"), terrace::files::Presence::Any),
    ];
    for (number, result) in results.into_iter().enumerate() {
        let error = result.unwrap_err();
        assert!(matches!(&error, FileError::Engine(Error::ReadOnlyOrigin { .. })), "{number}: {error}");
        assert_eq!(error.errno(), libc::EROFS);
    }
    drop(file);
    assert!(files.remove_directory(b"data/o/d").is_err());
    assert_eq!(fs::read(place.origin().join("f")).unwrap(), b"bytes");
    assert_eq!(place.names(), ["d/g", "f"]);
}

#[test]
fn prefixes_that_overlap_or_hold_objects_are_refused() {
    let place = Place::new(AT_ONCE);
    let store = &place.store;
    store.put_bytes(b"taken/x", b"x", &PutOptions::default()).unwrap();
    store.put_bytes(b"file", b"x", &PutOptions::default()).unwrap();
    let other = place.dir().join("other");
    fs::create_dir(&other).unwrap();
    let add = |prefix: &str, url: &str| store.add_origin(prefix, url, BTreeMap::new(), None).unwrap_err().to_string();
    let url = other.to_str().unwrap();
    for (prefix, says) in [
        ("data/o", "another origin"),
        ("data/o/inside", "another origin"),
        ("data", "another origin"),
        ("taken", "objects there already"),
        ("taken/x", "objects there already"),
        ("file", "objects there already"),
        ("file/below", "is a file"),
        (".terrace/x", "store's own"),
        ("a//b", "empty component"),
        ("", "empty"),
    ] {
        let error = add(prefix, url);
        assert!(error.contains(says), "{prefix:?}: {error}");
    }
    assert!(add("new", "/does/not/exist").contains("/does/not/exist"));
    assert!(add("new", &format!("{}/store", place.dir().display())).contains("own files"));
    assert!(add("new", &format!("{}/disk", place.dir().display())).contains("own files"));
    assert!(add("new", &place.dir().display().to_string()).contains("own files"), "it contains them");
    assert!(add("new", "http://user:password@localhost/").contains("options"));
    let error = add("new", "http://127.0.0.1:9/x?token=secret");
    assert!(error.contains("query"), "{error}");
    assert_eq!(store.origins().unwrap().len(), 1);
    assert!(!store.catalog().holds_any(b"new").unwrap() && store.stat(b"new").is_err());
    store.add_origin("new/", url, BTreeMap::new(), None).unwrap();
    assert_eq!(store.origins().unwrap()[1].prefix, "new");
}

#[test]
fn a_removed_origin_leaves_nothing_here_and_all_there() {
    let place = Place::new(AT_ONCE);
    for n in 0..1500 {
        place.write(&format!("{}/{n}", n % 7), n.to_string().as_bytes());
    }
    assert_eq!(place.names().len(), 1500);
    place.get("3/3").unwrap();
    let removed = place.store.remove_origin("data/o/").unwrap();
    assert_eq!((removed.files, removed.cached), (1500, 1));
    assert!(place.names().is_empty());
    assert!(place.store.stat(b"data/o").is_err());
    assert_eq!(fs::read_dir(place.origin()).unwrap().count(), 7);
    let error = place.store.remove_origin("data/o").unwrap_err().to_string();
    assert!(error.contains("there is none"), "{error}");
    place.store.put_bytes(b"data/o/mine", b"x", &PutOptions::default()).unwrap();
}
