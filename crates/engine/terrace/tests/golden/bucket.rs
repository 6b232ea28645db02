//! Buckets.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use terrace::tier::TargetSettings;
use terrace::{Config, PutOptions, RebuildFrom, Store};
use terrace_testkit::golden::{archive, is_wanted, pack, unpack};

use crate::common::{self, replicated};
use crate::{Golden, golden, objects, repeated, unlike};

pub fn config(dir: &Path) -> String {
    let bucket = format!("kind = 'object'\nservice = 'fs'\ntargets = ['{}/bucket']", dir.display());
    let disk = common::tier(dir, "disk", &["a"], "");
    format!("[store]\nreplicas = {{ default = 2 }}\n{disk}[[tier]]\nname = 'bucket'\n{bucket}\n")
}

pub fn contents() -> BTreeMap<String, Vec<u8>> {
    let all = [("large", repeated(3_000_000, 1)), ("replaced", repeated(40_000, 3)), ("small", repeated(3_000, 4))];
    all.into_iter().map(|(key, bytes)| (key.to_owned(), bytes)).collect()
}

fn write(dir: &Path, config: Config, archive: &Path) {
    let store = Store::init(&dir.join("store"), &config).unwrap();
    store.put_bytes(b"replaced", &repeated(40_000, 2), &replicated()).unwrap();
    for (key, bytes) in contents() {
        store.put_bytes(key.as_bytes(), &bytes, &replicated()).unwrap();
    }
    store.put_bytes(b"gone", &repeated(9_000, 5), &replicated()).unwrap();
    store.remove(b"gone").unwrap();
    store.sync().unwrap();
    store.close().unwrap();
    pack(dir, archive);
}

#[test]
fn blobs_of_a_golden_bucket_are_read_without_the_disk() {
    let Golden { dir, store } = golden("bucket", config, write);
    assert!(objects(&store) == contents(), "{:?}", objects(&store).keys());
    unlike(&store);
    store.close().unwrap();
    fs::remove_dir_all(dir.path().join("a")).unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    assert!(objects(&store) == contents(), "from the bucket alone");
    // Room is given back in the bucket, so its ledger is understood.
    for key in contents().keys() {
        store.remove(key.as_bytes()).unwrap();
    }
    store.put_bytes(b"new", &repeated(8_000, 6), &PutOptions::default()).unwrap();
    assert!(store.get(b"new").unwrap() == repeated(8_000, 6));
}

/// Leaves of a store only its bucket, with a snapshot and a log.
fn write_outlived(dir: &Path, config: Config, archive: &Path) {
    assert!(std::env::var_os("TERRACE_LOG_FILE").is_some(), "run `make golden`, which asks for small files");
    let store = Store::init(&dir.join("store"), &config).unwrap();
    for (key, bytes) in contents() {
        store.put_bytes(key.as_bytes(), &bytes, &replicated()).unwrap();
    }
    let has_snapshot = || {
        let folders = fs::read_dir(dir.join("bucket/log")).unwrap();
        folders.flatten().any(|folder| folder.file_name().to_string_lossy().ends_with(".snapshot"))
    };
    store.sync().unwrap();
    while !has_snapshot() {
        store.set_attributes(b"small", store.stat(b"small").unwrap().attributes).unwrap();
        store.sync().unwrap();
    }
    store.put_bytes(b"on the disk only", b"lost", &PutOptions { replicas: Some(1), ..replicated() }).unwrap();
    store.close().unwrap();
    fs::remove_dir_all(dir.join("store")).unwrap();
    fs::remove_dir_all(dir.join("a")).unwrap();
    pack(dir, archive);
}

#[test]
fn a_store_is_made_again_from_a_golden_bucket() {
    let archive = archive(env!("CARGO_MANIFEST_DIR"), "outlived");
    let dir = tempfile::tempdir().unwrap();
    if is_wanted(&archive) {
        let config = Config::parse(&config(dir.path()), "outlived").unwrap();
        write_outlived(dir.path(), config, &archive);
    }
    let dir = tempfile::tempdir().unwrap();
    unpack(&archive, dir.path());
    let from = TargetSettings { service: Some("fs".into()), ..TargetSettings::at(dir.path().join("bucket")) };
    let asked = RebuildFrom { force: true, salvage: false };
    let (store, made) = Store::rebuild_from(&dir.path().join("store"), &from, asked).unwrap();
    assert_eq!((made.objects, made.lost, made.targets.len()), (4, vec!["on the disk only".to_owned()], 1));
    store.remove(b"on the disk only").unwrap();
    assert!(objects(&store) == contents(), "{:?}", objects(&store).keys());
    unlike(&store);
}

/// The other test lets the ledger be made again from a listing, as after a restart of the machine. This one reads it.
#[test]
fn the_ledger_of_a_golden_bucket_is_read() {
    let dir = tempfile::tempdir().unwrap();
    unpack(&archive(env!("CARGO_MANIFEST_DIR"), "bucket"), dir.path());
    let home = dir.path().join("store");
    fs::write(home.join("terrace.toml"), Config::parse(&config(dir.path()), "bucket").unwrap().to_toml()).unwrap();
    fs::copy("/proc/sys/kernel/random/boot_id", home.join("object-1/boot")).unwrap();
    let segment = dir.path().join("bucket/segments/0000000000000003");
    let blobs = || fs::read_dir(&segment).unwrap().map(|blob| blob.unwrap().metadata().unwrap().len());
    let used: u64 = blobs().sum();
    // Only a listing would find it.
    fs::write(segment.join("3ff"), [0; 1000]).unwrap();
    let store = Store::open(&home).unwrap();
    assert_eq!(store.status().unwrap().tiers[1].used, used);
    unlike(&store);
    store.remove(b"small").unwrap();
    store.sync().unwrap();
    store.reap_now().unwrap();
    let left = blobs().sum::<u64>() - 1000;
    assert!(left < used, "a blob is gone");
    assert_eq!(store.status().unwrap().tiers[1].used, left);
}
