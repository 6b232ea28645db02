//! `rebuild --from` a bucket whose marker or configuration is damaged: it says so, and changes nothing.

#![cfg(feature = "services-fs")]
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::{replicated, store_of, tier};
use terrace::tier::TargetSettings;
use terrace::{RebuildFrom, Store};
use terrace_testkit::noise;

const BY_FORCE: RebuildFrom = RebuildFrom { force: true, salvage: false };
const WITH_SALVAGE: RebuildFrom = RebuildFrom { force: true, salvage: true };

fn bytes(n: u64) -> Vec<u8> {
    noise(20_000 + n as usize * 3001, n)
}

fn check(store: &Store) {
    for n in 0..4 {
        assert!(store.get(format!("o/{n}").as_bytes()).unwrap() == bytes(n), "object {n}");
    }
}

/// Makes a store whose machine is lost then. Returns the lines of the bucket's marker.
fn lost_store(dir: &Path) -> Vec<String> {
    let bucket = format!(
        "[[tier]]\nname = 'bucket'\nkind = 'object'\nservice = 'fs'\ntargets = ['{}']\n",
        dir.join("bucket").display()
    );
    let store = store_of(dir, &[tier(dir, "disk", &["disk"], ""), bucket]);
    for n in 0..4 {
        store.put_bytes(format!("o/{n}").as_bytes(), &bytes(n), &replicated()).unwrap();
        store.sync().unwrap();
    }
    store.close().unwrap();
    fs::remove_dir_all(dir.join("store")).unwrap();
    fs::rename(dir.join("disk"), dir.join("lost")).unwrap();
    fs::read_to_string(marker(dir)).unwrap().lines().map(str::to_owned).collect()
}

fn marker(dir: &Path) -> PathBuf {
    dir.join("bucket/terrace-target")
}

fn rebuild(dir: &Path, asked: RebuildFrom) -> terrace::Result<Store> {
    let from = TargetSettings { service: Some("fs".into()), ..TargetSettings::at(dir.join("bucket")) };
    Store::rebuild_from(&dir.join("new"), &from, asked).map(|(store, _)| store)
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

/// Returns the error, which is the same with and without a salvage. The bucket stays as it is.
fn refused(dir: &Path) -> String {
    let before = files(&dir.join("bucket"));
    let errors = [BY_FORCE, WITH_SALVAGE].map(|asked| rebuild(dir, asked).map(drop).unwrap_err().to_string());
    assert!(files(&dir.join("bucket")) == before && !dir.join("new/store").exists(), "nothing is changed");
    assert_eq!(errors[0], errors[1]);
    errors[0].clone()
}

/// Changes the digit at `at` of a line `store ID`.
fn damaged(line: &str, at: usize) -> String {
    let mut digits: Vec<u8> = line.bytes().collect();
    let place = "store ".len() + at;
    digits[place] = if digits[place] == b'7' { b'6' } else { b'7' };
    String::from_utf8(digits).unwrap()
}

/// The error advised a salvage, which found no objects, and the next sync replaced the intact log in the bucket.
#[test]
fn a_damaged_digit_of_the_markers_id_is_named_and_salvages_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let lines = lost_store(dir);
    for wrong in [damaged(&lines[0], 0), damaged(&damaged(&lines[0], 3), 15)] {
        fs::write(marker(dir), format!("{wrong}\n{}\n", lines[1])).unwrap();
        let error = refused(dir);
        let written = format!("`{}` and `{}`", lines[0], lines[1]);
        assert!(error.contains(&wrong["store ".len()..]) && error.contains(&written), "{wrong}: {error}");
    }
    // Without the log, the frames tell.
    let log = dir.join("log");
    fs::rename(dir.join("bucket/log"), &log).unwrap();
    let error = refused(dir);
    assert!(error.contains(&format!("`{}`", lines[0])), "{error}");
    fs::rename(log, dir.join("bucket/log")).unwrap();
    // Three digits are not guessed, but another target may name them.
    let wrong = [1, 4, 9].into_iter().fold(lines[0].clone(), |line, at| damaged(&line, at));
    fs::write(marker(dir), format!("{wrong}\n{}\n", lines[1])).unwrap();
    let error = refused(dir);
    assert!(error.contains("the blob is damaged, or all of them are"), "{error}");
    fs::rename(dir.join("lost"), dir.join("disk")).unwrap();
    let error = refused(dir);
    assert!(error.contains(&format!("`{}`", lines[0])), "{error}");
    fs::write(marker(dir), format!("{}\n{}\n", lines[0], lines[1])).unwrap();
    check(&rebuild(dir, BY_FORCE).unwrap());
}

#[test]
fn a_marker_with_another_targets_number_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let lines = lost_store(dir);
    assert_eq!(lines[1], "target 1");
    for wrong in ["target 0", "target 9"] {
        fs::write(marker(dir), format!("{}\n{wrong}\n", lines[0])).unwrap();
        let error = refused(dir);
        assert!(error.contains(wrong.trim_start_matches("target ")) && error.contains("`target 1`"), "{error}");
    }
    fs::write(marker(dir), format!("{}\ntarget ?\n", lines[0])).unwrap();
    assert!(refused(dir).contains("is damaged or missing. Write it again"));
    fs::remove_file(marker(dir)).unwrap();
    assert!(refused(dir).contains("is damaged or missing. Write it again"));
}

/// The right id with a log that is damaged as a whole is none that is wrong.
#[test]
fn a_bucket_with_a_damaged_log_is_salvaged_if_its_frames_are_the_stores() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    lost_store(dir);
    for (path, mut bytes) in files(&dir.join("bucket/log")) {
        bytes.iter_mut().skip(40).for_each(|byte| *byte ^= 1);
        fs::write(path, bytes).unwrap();
    }
    let store = rebuild(dir, WITH_SALVAGE).unwrap();
    assert_eq!(store.list(b"salvaged", None, 100).unwrap().len(), 4);
}

/// The error said that there is no copy of the log.
#[test]
fn a_bucket_without_the_configuration_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    lost_store(dir);
    let config = fs::read(dir.join("bucket/terrace.toml")).unwrap();
    fs::remove_file(dir.join("bucket/terrace.toml")).unwrap();
    let error = refused(dir);
    assert!(error.contains("the copy of the store's log is there") && error.contains("`number = 1`"), "{error}");
    fs::write(dir.join("bucket/terrace.toml"), config).unwrap();
    check(&rebuild(dir, BY_FORCE).unwrap());
}
