//! Files of other programs that the store has adopted as hard links.

use std::fs::{self, File};
use std::path::Path;

use terrace::tier::Adoption;
use terrace::{Config, Store};
use terrace_testkit::golden::pack;
use terrace_testkit::noise;

use crate::common::{self, replicated};
use crate::{Golden, golden, unlike};

fn adopted_config(dir: &Path) -> String {
    let pfs = common::tier(dir, "pfs", &["a"], "layout = 'plain'");
    format!("[store]\nreplicas = {{ default = 1 }}\n{pfs}")
}

fn write_adopted(dir: &Path, config: Config, archive: &Path) {
    let store = Store::init(&dir.join("store"), &config).unwrap();
    for (name, seed) in [("kept", 1), ("renamed", 2), ("gone", 3)] {
        fs::write(dir.join(name), noise(20_000, seed)).unwrap();
        let (how, _) = store.adopt(name.as_bytes(), &File::open(dir.join(name)).unwrap(), &replicated()).unwrap();
        assert_eq!(how, Adoption::Linked, "make it on a file system that cannot clone files, such as tmpfs or ext4");
    }
    store.rename(b"renamed", b"runs/renamed").unwrap();
    // Its link stays until its places are freed.
    store.remove(b"gone").unwrap();
    store.sync().unwrap();
    store.close().unwrap();
    pack(dir, archive);
}

#[test]
fn adopted_files_of_a_golden_store_are_read_and_left_alone() {
    let Golden { dir, store } = golden("adopted", adopted_config, write_adopted);
    assert!(store.get(b"kept").unwrap() == noise(20_000, 1) && store.get(b"runs/renamed").unwrap() == noise(20_000, 2));
    assert!(store.get(b"gone").is_err());
    unlike(&store);
    // The store takes links away. The files of the other program stay.
    store.write_at(b"kept", 100, b"other bytes", &replicated()).unwrap();
    store.remove(b"runs/renamed").unwrap();
    store.sync().unwrap();
    store.reap_now().unwrap();
    unlike(&store);
    for (name, seed) in [("kept", 1), ("renamed", 2), ("gone", 3)] {
        assert!(fs::read(dir.path().join(name)).unwrap() == noise(20_000, seed), "{name}");
    }
    let links = fs::read_dir(dir.path().join("a/plain")).unwrap().flatten();
    let links = links.filter(|entry| entry.file_name().to_string_lossy().ends_with(".link"));
    assert!(links.count() <= 1, "links of removed objects are gone");
}
