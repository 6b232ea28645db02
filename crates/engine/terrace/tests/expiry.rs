//! Objects that expire, and digests of their bytes.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use common::{new_store, store_of, tier};
use terrace::{Attributes, ETAG_DIGEST, PutOptions};

/// Options that let an object expire at `time`, in nanoseconds since 1970.
fn expiring(time: u64) -> PutOptions {
    let mut attributes = Attributes::now();
    attributes.set_expiry(Some(time));
    PutOptions { attributes: Some(attributes), ..PutOptions::default() }
}

#[test]
fn expired_objects_are_removed_soon() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "pfs", &["t1", "t2"], "layout = 'plain'")]);
    for name in [&b"a"[..], b"b"] {
        store.put_bytes(name, b"x", &expiring(1)).unwrap();
    }
    store.put_bytes(b"later", b"x", &expiring(u64::MAX)).unwrap();
    store.put_bytes(b"never", b"x", &PutOptions::default()).unwrap();
    // The background thread removes them, and so may a call.
    let until = Instant::now() + Duration::from_secs(60);
    let keys = || store.list(b"", None, 10).unwrap().into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    while keys() != [&b"later"[..], b"never"] {
        assert!(Instant::now() < until, "expired objects stay: {:?}", keys());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(store.remove_expired(10).unwrap(), 0);
    for file in ["t1/files/a", "t1/files/b", "t2/files/a", "t2/files/b"] {
        assert!(!dir.path().join(file).exists(), "{file}");
    }

    // An object may get more time.
    let mut attributes = store.stat(b"later").unwrap().attributes;
    assert_eq!(attributes.expiry(), Some(u64::MAX));
    attributes.set_expiry(None);
    store.set_attributes(b"later", attributes).unwrap();
    assert_eq!(store.catalog().expired(u64::MAX, 10).unwrap().len(), 0);
    store.close().unwrap();
}

#[test]
fn an_etag_belongs_to_the_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let source = std::io::Read::chain(&b"some "[..], &b"bytes"[..]);
    let md5 = "0123456789abcdef0123456789abcdef";
    let describe = |attributes: &mut Attributes| attributes.set_digest(ETAG_DIGEST, md5);
    store.put_described(b"a", source, &PutOptions::default(), describe).unwrap();
    assert_eq!((store.get(b"a").unwrap(), store.stat(b"a").unwrap().etag()), (b"some bytes".to_vec(), md5.to_owned()));
    store.set_attributes(b"a", Attributes::now()).unwrap();
    assert_eq!(store.stat(b"a").unwrap().etag(), md5);
    let before = store.stat(b"a").unwrap();
    store.write_at(b"a", 0, b"S", &PutOptions::default()).unwrap();
    assert_eq!(store.stat(b"a").unwrap().attributes.digest(ETAG_DIGEST), None);
    // Attributes that were read before the write do not bring it back.
    store.set_attributes(b"a", before.attributes).unwrap();
    let etag = store.stat(b"a").unwrap().etag();
    assert!(etag.contains('-') && etag.len() < 32, "{etag}");
    store.close().unwrap();
}
