//! Flat names, long keys, and attributes with a meaning of objects that no upload made.

use std::path::Path;

use terrace::catalog::NameListing;
use terrace::key::{KeyRule, MAX_FLAT_KEY};
use terrace::{Attributes, Config, ETAG_DIGEST, PutOptions, Store};
use terrace_testkit::golden::pack;

use crate::common::replicated;
use crate::{Golden, golden, tiers_config, unlike};

/// When an object expires, in nanoseconds since 1970: in the year 2200.
const EXPIRY_NANOS: u64 = 7_258_118_400_000_000_000;

/// In the order of their bytes. The last one, escaped, has more than the 1,024 bytes that keys of 0.1.0 had at most.
fn flat_names() -> Vec<Vec<u8>> {
    let short = [&b""[..], b"\0", b"..", b"../x", b"/", b"a", b"a/", b"a//b", b"a/b", b"b%2F"];
    short.into_iter().map(Vec::from).chain([b"\xff/.".repeat(MAX_FLAT_KEY / 3)]).collect()
}

fn attributes() -> Attributes {
    let mut attributes = Attributes { mtime: 1_234_567_890_123_456_789, ..Attributes::now() };
    attributes.set_digest(ETAG_DIGEST, "of the bytes");
    attributes.set_expiry(Some(EXPIRY_NANOS));
    attributes.user.insert("terrace.flags".to_owned(), "4294967295".to_owned());
    attributes
}

fn write_keys(dir: &Path, config: Config, archive: &Path) {
    let store = Store::init(&dir.join("store"), &config).unwrap();
    let space = store.make_key_space(b"bucket", KeyRule::Flat).unwrap();
    for name in flat_names() {
        store.put_bytes(&space.key(&name).unwrap(), &name, &replicated()).unwrap();
    }
    store
        .put_bytes(b"described", b"some bytes", &PutOptions { attributes: Some(attributes()), ..replicated() })
        .unwrap();
    store.sync().unwrap();
    store.close().unwrap();
    pack(dir, archive);
}

#[test]
fn flat_names_and_described_objects_of_a_golden_store_are_found() {
    let Golden { dir, store } = golden("keys", tiers_config, write_keys);
    let check = |store: &Store| {
        let space = store.key_space(b"bucket").unwrap();
        assert_eq!(space.rule(), KeyRule::Flat);
        let all = NameListing { limit: 100, ..NameListing::default() };
        let page = store.list_names(&space, &all).unwrap();
        assert_eq!(page.names.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), flat_names());
        for name in flat_names() {
            assert!(store.get(&space.key(&name).unwrap()).unwrap() == name);
        }
        assert!(space.key(flat_names().last().unwrap()).unwrap().len() > 1024);
        let described = store.stat(b"described").unwrap().attributes;
        assert_eq!(described, attributes());
        assert_eq!((described.digest(ETAG_DIGEST), described.expiry()), (Some("of the bytes"), Some(EXPIRY_NANOS)));
        unlike(store);
    };
    check(&store);
    store.close().unwrap();
    let store = Store::rebuild(&dir.path().join("store")).unwrap();
    check(&store);
    // The digest goes with the bytes.
    store.write_at(b"described", 0, b"other", &replicated()).unwrap();
    assert_eq!(store.stat(b"described").unwrap().attributes.digest(ETAG_DIGEST), None);
}
