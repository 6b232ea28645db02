//! Stores as older versions wrote them: what they hold is read for ever. `TERRACE_WRITE_GOLDEN=1` writes the newest anew.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use terrace::{Ack, Attributes, Config, PutOptions, Store};

fn golden(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/v{version}"))
}

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

/// What the golden store of version 1 holds.
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

fn write_golden(dir: &Path) {
    let store = Store::init(&dir.join("store"), &config(dir)).unwrap();
    let options = || PutOptions { ack: Some(Ack::Replicated), ..PutOptions::default() };
    let attributes = || Attributes { mode: 0o640, mtime: 1_234_567_890_123_456_789, ..Attributes::default() };
    for (key, bytes) in contents() {
        let (key, bytes): (&[u8], _) = match key {
            b"moved/to" => (b"moved/from", bytes),
            b"ranges" => (key, bytes[..1].to_vec()),
            _ => (key, bytes),
        };
        store.put_bytes(key, &bytes, &PutOptions { attributes: Some(attributes()), ..options() }).unwrap();
    }
    store.put_bytes(b"deleted", &pattern(2000), &options()).unwrap();
    store.remove(b"deleted").unwrap();
    store.rename(b"moved/from", b"moved/to").unwrap();
    store.write_at(b"ranges", 0, &pattern(5000), &options()).unwrap();
    store.write_at(b"ranges", 100, &pattern(1000), &options()).unwrap();
    store.write_at(b"ranges", 299_000, &pattern(1000), &options()).unwrap();
    store.sync().unwrap();
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
    if std::env::var_os("TERRACE_WRITE_GOLDEN").is_some() {
        write_golden(dir.path());
        let _ = fs::remove_dir_all(golden(1));
        copy(dir.path(), &golden(1));
        for made_anew in ["catalog", "lock", "mover", "boot", "throttle-1", "terrace.toml"] {
            let path = golden(1).join("store").join(made_anew);
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
    }
    let dir = tempfile::tempdir().unwrap();
    copy(&golden(1), dir.path());
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
    // Both copies of the log lead to the same.
    drop(store);
    fs::remove_dir_all(home.join("log")).unwrap();
    assert_eq!(Store::rebuild(&home).unwrap().get(b"moved/to").unwrap(), pattern(3000));
}
