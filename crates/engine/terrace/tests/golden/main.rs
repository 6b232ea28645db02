//! Stores as older versions wrote them: what they hold is read for ever.
//!
//! `tests/golden/v1` is from the first days of format 1. Each archive beside it holds a store with some features, as its `write_`
//! function below made it. `make golden` writes archives that are not there; one that is there is never written again: a
//! store that shows something new is a new archive.

#![allow(clippy::unwrap_used)]

mod adopted;
#[cfg(feature = "services-fs")]
mod bucket;
#[path = "../common/mod.rs"]
mod common;
mod encodings;
mod keys;
mod notes;
mod origin;
mod plain;
mod shared;
mod state;
mod uploads;
mod void;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use terrace::{Config, Store};
use terrace_testkit::golden::{archive, is_wanted, unpack};
use terrace_testkit::noise;

fn config(dir: &Path) -> Config {
    let d = dir.display();
    let text = format!(
        "[store]\nreplicas = {{ default = 2 }}\n\
         [[tier]]\nname = 'fast'\nkind = 'directory'\ntargets = ['{d}/a']\n\
         [[tier]]\nname = 'slow'\nkind = 'directory'\ntargets = ['{d}/b']\n\
         throttle = {{ read = '2MB/s', write = '2MB/s' }}\n"
    );
    Config::parse(&text, "golden").unwrap()
}

fn pattern(length: u32) -> Vec<u8> {
    (0..length).map(|i| (i / 100) as u8 ^ (i.wrapping_mul(2_654_435_761) >> 30) as u8).collect()
}

/// The content of the golden store of version 1.
fn contents() -> Vec<(&'static [u8], Vec<u8>)> {
    let mut ranges = pattern(5000);
    ranges.resize(300_000, 0);
    ranges[100..1100].copy_from_slice(&pattern(1000));
    ranges[299_000..].copy_from_slice(&pattern(1000));
    vec![
        (b"coded.f32", (0..20_000u32).flat_map(|i| (i as f32 / 7.0).to_le_bytes()).collect()),
        (b"empty", Vec::new()),
        (b"moved/to", pattern(3000)),
        (b"not\xffUTF-8", pattern(10)),
        (b"ranges", ranges),
    ]
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn a_store_of_version_1_is_read() {
    let dir = tempfile::tempdir().unwrap();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1"), dir.path());
    let home = dir.path().join("store");
    // Only the configuration says where a store's parts are.
    fs::write(home.join("terrace.toml"), config(dir.path()).to_toml()).unwrap();
    let store = Store::open(&home).unwrap();
    let listed = store.list(b"", None, 100).unwrap();
    let found: Vec<(Vec<u8>, Vec<u8>)> = listed.iter().map(|(key, _)| (key.clone(), store.get(key).unwrap())).collect();
    let wanted: Vec<(Vec<u8>, Vec<u8>)> = contents().into_iter().map(|(key, bytes)| (key.to_vec(), bytes)).collect();
    assert!(
        found == wanted,
        "{:?}",
        found.iter().map(|(key, bytes)| (terrace::key::show(key), bytes.len())).collect::<Vec<_>>()
    );
    let attributes = &store.stat(b"moved/to").unwrap().attributes;
    assert_eq!((attributes.mode, attributes.mtime), (0o640, 1_234_567_890_123_456_789));
    let scrubbed = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((scrubbed.checked > 10, scrubbed.bad, scrubbed.lost), (true, 0, 0));
    let coded = &store.locate(b"coded.f32").unwrap().extents[0];
    assert!(coded.replicas.iter().any(|replica| replica.encoding.contains("shuffle4")), "{coded:?}");
    // The copy of the log leads to the same.
    drop(store);
    fs::remove_dir_all(home.join("log")).unwrap();
    assert_eq!(Store::rebuild(&home).unwrap().get(b"moved/to").unwrap(), pattern(3000));
}

/// A golden store, in a folder of its own. `write` makes it first where `make golden` wants it.
struct Golden {
    dir: tempfile::TempDir,
    store: Store,
}

fn golden(name: &str, config: fn(&Path) -> String, write: fn(&Path, Config, &Path)) -> Golden {
    let archive = archive(env!("CARGO_MANIFEST_DIR"), name);
    let config = |dir: &Path| Config::parse(&config(dir), name).unwrap();
    if is_wanted(&archive) {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), config(dir.path()), &archive);
    }
    let dir = tempfile::tempdir().unwrap();
    unpack(&archive, dir.path());
    // Only the configuration says where a store's parts are.
    let home = dir.path().join("store");
    fs::write(home.join("terrace.toml"), config(dir.path()).to_toml()).unwrap();
    let store = Store::open(&home).unwrap();
    Golden { dir, store }
}

/// All objects, by key.
fn objects(store: &Store) -> BTreeMap<String, Vec<u8>> {
    let all = store.list(b"", None, 1000).unwrap().into_iter();
    all.map(|(key, _)| (terrace::key::show(&key), store.get(&key).unwrap())).collect()
}

fn unlike(store: &Store) {
    let scrubbed = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((scrubbed.checked > 0, scrubbed.bad, scrubbed.lost), (true, 0, 0));
}

fn tiers_config(dir: &Path) -> String {
    let tiers = [common::tier(dir, "ram", &["ram"], "persistent = false"), common::tier(dir, "disk", &["a", "b"], "")];
    format!("[store]\nreplicas = {{ default = 2 }}\n{}", tiers.concat())
}

/// Bytes that repeat, so that the archive stays small.
fn repeated(length: usize, seed: u64) -> Vec<u8> {
    noise(97, seed).into_iter().cycle().take(length).collect()
}
