//! Digests and expiry times of objects, against a model.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use terrace_catalog::log::Log;
use terrace_catalog::{Attributes, Catalog, Edit, Voids};
use terrace_format::ETAG_DIGEST;

fn open(dir: &Path, name: &str) -> Catalog {
    let log = Log::open(&dir.join("log"), 7).unwrap();
    Catalog::open(&dir.join(name), log).unwrap()
}

fn put(catalog: &Catalog, key: &[u8], attributes: Attributes) -> Edit {
    let object = catalog.next_id().unwrap();
    Edit::Put { key: key.to_vec(), object, length: 0, want: 1, attributes, staged: false, extents: Vec::new() }
}

/// One step: the edit's kind, two keys, an ETag and an expiry time.
type Step = (u8, u8, u8, Option<u8>, Option<u64>);

fn attributes(etag: Option<u8>, expiry: Option<u64>) -> Attributes {
    let mut attributes = Attributes::default();
    attributes.set_expiry(expiry);
    if let Some(etag) = etag {
        attributes.set_digest(ETAG_DIGEST, &etag.to_string());
    }
    attributes
}

/// Carries a step out on the model, and returns its edit.
fn step(catalog: &Catalog, model: &mut BTreeMap<Vec<u8>, (Option<u8>, Option<u64>)>, step: &Step) -> Option<Edit> {
    let (kind, key, to, etag, expiry) = *step;
    let (key, to) = (vec![b'a' + key], vec![b'a' + to]);
    let object = catalog.object(&key).unwrap();
    let edit = match kind {
        0 | 1 => {
            model.insert(key.clone(), (etag, expiry));
            put(catalog, &key, attributes(etag, expiry))
        }
        2 => {
            let id = object.map_or_else(|| catalog.next_id().unwrap(), |object| object.id);
            model.entry(key.clone()).or_default().0 = None;
            Edit::Write { key, object: id, want: 1, mtime: 5, extents: Vec::new() }
        }
        3 | 4 => {
            model.get_mut(&key)?.0 = None;
            match kind {
                3 => Edit::SetLength { key, length: 10, mtime: 5 },
                _ => Edit::Clear { key, start: 0, end: 5, mtime: 5 },
            }
        }
        5 => {
            model.get_mut(&key)?.1 = expiry;
            Edit::SetAttributes { key, attributes: attributes(etag, expiry) }
        }
        6 => {
            model.remove(&key)?;
            Edit::Remove { key }
        }
        7 => {
            let moved = model.remove(&key)?;
            model.insert(to.clone(), moved);
            Edit::Rename { from: key, to }
        }
        8 => Edit::Want { object: object?.id, key, want: 3 },
        _ => Edit::Merge { object: object?.id, key, extents: Vec::new() },
    };
    Some(edit)
}

#[test]
fn etags_end_with_their_bytes_and_the_index_has_each_expiry() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path(), "catalog");
    let mut model = BTreeMap::new();
    let strategy = (0u8..10, 0u8..4, 0u8..4, prop::option::of(0u8..4), prop::option::of(0u64..6));
    let mut runner = TestRunner::default();
    for _ in 0..600 {
        let one = strategy.new_tree(&mut runner).unwrap().current();
        let Some(edit) = step(&catalog, &mut model, &one) else { continue };
        catalog.commit(edit.into()).unwrap();
        let known = |key: &Vec<u8>| {
            let object = catalog.object(key).unwrap().unwrap();
            (object.attributes.digest(ETAG_DIGEST).map(|etag| etag.parse().unwrap()), object.attributes.expiry())
        };
        let all: Vec<Vec<u8>> = catalog.list(b"", None, 100).unwrap().into_iter().map(|(key, _)| key).collect();
        assert_eq!(all, model.keys().cloned().collect::<Vec<_>>(), "after {one:?}");
        model.iter().for_each(|(key, expected)| assert_eq!(known(key), *expected, "{key:?} after {one:?}"));
        for now in [0, 3, u64::MAX] {
            let mut expired: Vec<(u64, Vec<u8>)> = model
                .iter()
                .filter_map(|(key, (_, expiry))| expiry.filter(|time| *time <= now).map(|time| (time, key.clone())))
                .collect();
            expired.sort();
            expired.truncate(2);
            let found: Vec<Vec<u8>> = catalog.expired(now, 2).unwrap().into_iter().map(|(key, _)| key).collect();
            assert_eq!(found, expired.into_iter().map(|(_, key)| key).collect::<Vec<_>>(), "after {one:?}");
        }
    }
    let again = open(dir.path(), "again");
    again.replay(&Voids::new(), |_, _, _| {}).unwrap();
    assert!(again.dump().unwrap() == catalog.dump().unwrap());
}

/// A write was void after a power cut, and a later merge held its bytes: the object had them together with the ETag of the bytes
/// before.
#[test]
fn a_void_write_takes_the_etag_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path(), "catalog");
    let edit = put(&catalog, b"a", attributes(Some(1), Some(9)));
    catalog.commit(edit.into()).unwrap();
    let object = catalog.object(b"a").unwrap().unwrap();
    let write = Edit::Write { key: b"a".to_vec(), object: object.id, want: 1, mtime: 5, extents: Vec::new() };
    let written = catalog.commit(write.into()).unwrap();
    for name in ["recovered", "recovered again"] {
        let after = open(dir.path(), name);
        let void = Voids::from([(written.sequence, vec![0])]);
        after.replay(&void, |_, _, _| {}).unwrap();
        let found = after.object(b"a").unwrap().unwrap();
        assert_eq!(
            (found.attributes.mtime, found.attributes.digest(ETAG_DIGEST), found.attributes.expiry()),
            (0, None, Some(9))
        );
    }
}
