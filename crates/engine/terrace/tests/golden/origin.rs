//! Files of an origin: read, dropped and unread ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use terrace::{Config, Store};
use terrace_testkit::golden::pack;

use crate::{Golden, common, golden, repeated};

fn origin_config(dir: &Path) -> String {
    let disk = common::tier(dir, "disk", &["a"], "");
    let url = dir.join("origin").display().to_string();
    format!("{disk}[[origin]]\nprefix = 'o'\nnumber = 1\nurl = '{url}'\nmax_age = '12h'\n")
}

fn write_origin(dir: &Path, mut config: Config, archive: &Path) {
    let origin = dir.join("origin");
    fs::create_dir_all(origin.join("folder")).unwrap();
    for (name, seed) in [("stored", 1), ("dropped", 2), ("folder/unread", 3)] {
        fs::write(origin.join(name), repeated(400_000, seed)).unwrap();
    }
    config.origins.clear();
    let store = Store::init(&dir.join("store"), &config).unwrap();
    store.add_origin("o", origin.to_str().unwrap(), BTreeMap::new(), None).unwrap();
    assert_eq!(store.list(b"o", None, 100).unwrap().len(), 5);
    store.get(b"o/stored").unwrap();
    store.get(b"o/dropped").unwrap();
    store.evict(b"o/dropped", "disk").unwrap();
    store.close().unwrap();
    fs::remove_dir_all(origin).unwrap();
    pack(dir, archive);
}

/// The origin is not there any more. Its names are, and the bytes that were read and not dropped.
#[test]
fn files_of_an_origin_of_a_golden_store_are_shown_and_read() {
    let Golden { dir, store } = golden("origin", origin_config, write_origin);
    let check = |store: &Store| {
        let keys: Vec<Vec<u8>> = store.list(b"o", None, 100).unwrap().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [&b"o"[..], b"o/dropped", b"o/folder", b"o/folder/unread", b"o/stored"]);
        assert!(store.get(b"o/stored").unwrap() == repeated(400_000, 1));
        for key in [&b"o/dropped"[..], b"o/folder/unread"] {
            assert_eq!(store.stat(key).unwrap().length, 400_000);
            assert!(matches!(store.get(key), Err(terrace::Error::Origin { .. })));
        }
    };
    check(&store);
    store.close().unwrap();
    check(&Store::rebuild(&dir.path().join("store")).unwrap());
}
