//! The example's kind passes the conformance suite and serves a store.

#![allow(clippy::unwrap_used)]

use std::fs;

use sqlite_target::SqliteKind;
use terrace::tier::TargetSettings;
use terrace::tier::conformance::{self, Outage, Site};
use terrace::{Config, PutOptions, Store};

/// A site on a folder `disk`, which may vanish.
fn site() -> Site {
    let folder = tempfile::tempdir().unwrap();
    let (disk, stores) = (folder.path().join("disk"), folder.path().join("stores"));
    fs::create_dir(&disk).unwrap();
    fs::create_dir(&stores).unwrap();
    Site { settings: TargetSettings::at(disk.join("frames.sqlite")), stores, guard: Box::new(folder) }
}

#[test]
fn it_passes_the_conformance_suite() {
    conformance::check(&SqliteKind, site);
}

#[test]
fn it_survives_that_its_disk_vanishes_for_a_while() {
    let site = site();
    let disk = site.settings.path.parent().unwrap().to_owned();
    let elsewhere = disk.with_extension("elsewhere");
    conformance::check_outage(&SqliteKind, site, |outage| match outage {
        Outage::Begins => fs::rename(&disk, &elsewhere).unwrap(),
        Outage::Ends => fs::rename(&elsewhere, &disk).unwrap(),
    });
}

#[test]
fn a_store_keeps_objects_in_it() {
    sqlite_target::register().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let tier = |options: &str| {
        let path = dir.path().join("tier/frames.sqlite");
        let tier = "[[tier]]\nname = 'database'\nkind = 'sqlite'\ncapacity = '64MiB'\n";
        let text = format!("{tier}targets = ['{}']\noptions = {{ {options} }}\n", path.display());
        Config::parse(&text, "example")
    };
    for (options, reason) in [("page_size = 1000", "no power of two"), ("pages = 3", "unknown option \"pages\"")] {
        let error = tier(options).unwrap_err().to_string();
        assert!(error.contains("tier \"database\"") && error.contains(reason), "{error}");
    }
    let home = dir.path().join("store");
    let store = Store::init(&home, &tier("page_size = 16384").unwrap()).unwrap();
    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i / 7) as u8).collect();
    store.put_bytes(b"runs/a", &bytes, &PutOptions::default()).unwrap();
    store.sync().unwrap();
    store.close().unwrap();

    let store = Store::open(&home).unwrap();
    assert!(store.get(b"runs/a").unwrap() == bytes);
    let extents = store.locate(b"runs/a").unwrap().extents;
    assert!(extents.iter().flat_map(|extent| &extent.replicas).all(|replica| replica.tier == "database"));
    store.remove(b"runs/a").unwrap();
    store.close().unwrap();

    let store = Store::rebuild(&home).unwrap();
    assert!(store.list(b"", None, 1).unwrap().is_empty());
    drop(store);
    Store::destroy(&home, false).unwrap();
    assert!(!dir.path().join("tier/frames.sqlite").exists());
}
