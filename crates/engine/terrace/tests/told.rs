//! The information that a store returns: receipts, errors, attributes, paths.

#![allow(clippy::unwrap_used)]

mod common;

use std::error::Error as _;
use std::fs;
use std::path::Path;

use common::{new_store, replicated, store_of, tier};
use terrace::{Ack, Attributes, Config, Error, OwedTo, PutOptions, Store};
use terrace_testkit::noise;

#[test]
fn a_receipt_tells_what_is_there_and_what_is_owed_where() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let mut receipt = store.put_bytes(b"k", &noise(2_500_000, 1), &PutOptions::default()).unwrap();
    assert_eq!((receipt.want, receipt.have, receipt.owed, receipt.durable), (2, 1, 3, false));
    let replicas: u64 = receipt.owed_to.iter().map(|to| to.replicas).sum();
    assert!(replicas == 3 && receipt.owed_to.iter().all(|to| to.tier == "disk"), "{:?}", receipt.owed_to);
    for OwedTo { target, .. } in &receipt.owed_to {
        assert!(["a", "b"].iter().any(|name| Path::new(target) == dir.path().join(name)), "{target}");
    }
    store.wait(&mut receipt, Ack::Replicated).unwrap();
    assert_eq!((receipt.have, receipt.owed, receipt.owed_to.len(), receipt.durable), (2, 0, 0, false));
    store.wait(&mut receipt, Ack::Durable).unwrap();
    assert!(receipt.durable);
    let durable = PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() };
    assert!(store.put_bytes(b"durable", b"bytes", &durable).unwrap().durable);
    let empty = store.put_bytes(b"empty", b"", &PutOptions::default()).unwrap();
    assert_eq!((empty.want, empty.have, empty.owed), (2, 2, 0));
}

#[test]
fn any_time_of_modification_is_kept_and_without_one_it_is_now() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    for mtime in [0, -1, 1, i64::MAX] {
        let attributes = Some(Attributes { mtime, mode: 0o600, ..Attributes::default() });
        store.put_bytes(b"k", b"x", &PutOptions { attributes, ..PutOptions::default() }).unwrap();
        assert_eq!(store.stat(b"k").unwrap().attributes.mtime, mtime);
    }
    store.put_bytes(b"k", b"x", &PutOptions::default()).unwrap();
    let found = store.stat(b"k").unwrap().attributes;
    assert!(found.mtime > 1_700_000_000_000_000_000 && found.mode == 0o644, "{found:?}");
}

#[test]
fn errors_say_once_what_happened_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    store.put_bytes(b"file", &noise(100_000, 2), &replicated()).unwrap();
    let says = |error: Error, parts: &[&str]| {
        let text = error.to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        assert!(!text.contains("; ;"), "{text}");
        assert!(error.source().is_none_or(|cause| !text.contains(&cause.to_string())), "{text}: its cause twice");
    };
    says(store.put_bytes(b"file/below", b"x", &replicated()).unwrap_err(), &["path prefix", "name another key"]);
    let new = PutOptions { create_new: true, ..replicated() };
    says(store.put_bytes(b"file", b"x", &new).unwrap_err(), &["it exists", "name another key"]);
    says(store.get(b"../x").unwrap_err(), &["'..'", "data/a.h5"]);
    for replica in &store.locate(b"file").unwrap().extents[0].replicas {
        fs::write(replica.file.as_ref().unwrap(), noise(200_000, 3)).unwrap();
    }
    says(store.get(b"file").unwrap_err(), &["no good replica", "ram", "disk", "terrace repair"]);
    let gone = Store::open(&dir.path().join("a")).map(|_| ()).unwrap_err();
    says(gone, &["terrace init"]);
    fs::write(dir.path().join("no-folder"), "").unwrap();
    let tiers = [tier(dir.path(), "t", &["no-folder/t"], "")].concat();
    let failed = Store::init(&dir.path().join("second"), &Config::parse(&tiers, "test").unwrap()).map(|_| ());
    let failed = failed.unwrap_err();
    assert!(failed.io_error().is_some());
    says(failed, &["no-folder/t"]);
}

#[test]
fn a_read_of_what_is_away_is_to_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["disk"], "")]);
    store.put_bytes(b"file", &noise(100_000, 2), &replicated()).unwrap();
    let home = store.dir().to_owned();
    store.close().unwrap();
    fs::rename(dir.path().join("disk"), dir.path().join("unplugged")).unwrap();
    let text = Store::open(&home).unwrap().get(b"file").unwrap_err().to_string();
    assert!(text.contains("once what is away is back") && !text.contains("repair"), "{text}");
}

#[test]
fn relative_paths_of_targets_are_kept_as_absolute_ones() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let relative = dir.path().strip_prefix(std::env::current_dir().unwrap()).unwrap_or(dir.path()).to_owned();
    let store = store_of(&relative, &[tier(&relative, "t", &["a"], "")]);
    let kept = store.config().tiers[0].targets[0].path.clone();
    assert!(kept.is_absolute() && kept.join("terrace-target").exists(), "{}", kept.display());
    let home = store.dir().to_owned();
    drop(store);
    let added = Config::parse_tiers(&tier(&relative, "u", &["b"], ""), "test").unwrap();
    Store::add_tiers(&home, added, None).unwrap();
    let store = Store::open(&home).unwrap();
    assert!(store.config().tiers[1].targets[0].path.is_absolute());
}

/// After waiting, a receipt said that each extent had all replicas that were wanted, whatever had become of those that were
/// owed: here a tier is drained meanwhile, and no other one takes what was owed to it.
#[test]
fn a_receipt_counts_replicas_instead_of_believing_that_they_were_made() {
    let dir = tempfile::tempdir().unwrap();
    let store =
        store_of(dir.path(), &[tier(dir.path(), "first", &["first"], ""), tier(dir.path(), "second", &["second"], "")]);
    let mut receipt = store.put_bytes(b"k", &noise(2_500_000, 1), &PutOptions::default()).unwrap();
    assert_eq!((receipt.want, receipt.have, receipt.range.clone()), (2, 1, 0..2_500_000));
    let tier = receipt.owed_to[0].tier.clone();
    store.drain(&tier).unwrap();
    store.wait(&mut receipt, Ack::Replicated).unwrap();
    let least = |store: &Store| {
        let extents = store.locate(b"k").unwrap().extents;
        extents.iter().map(|extent| extent.replicas.len()).min().unwrap() as u8
    };
    assert_eq!((receipt.have, receipt.owed), (least(&store), 0));
}
