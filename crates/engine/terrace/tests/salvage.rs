//! The log is lost with all its copies: what the targets hold is offered, marked as what it is.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{copy_folder, new_store, replicated, store_of, tier};
use terrace::report::Salvaged;
use terrace::{Config, PutOptions, Store};
use terrace_testkit::noise;

fn lose_logs(dir: &Path) {
    for folder in ["store/log", "store/catalog", "a/log", "b/log"] {
        let _ = fs::remove_dir_all(dir.join(folder));
    }
}

fn contents(store: &Store) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let all = store.list(b"", None, 100).unwrap();
    all.into_iter().map(|(key, _)| (key.clone(), store.get(&key).unwrap())).collect()
}

fn salvaged_key(store: &Store, key: &[u8]) -> Vec<u8> {
    format!("salvaged/{:016x}", store.stat(key).unwrap().id).into_bytes()
}

#[test]
fn whole_objects_are_found_without_a_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let long = noise(3_000_000, 1);
    store.put_bytes(b"long", &long, &replicated()).unwrap();
    store.put_bytes(b"small", b"few bytes", &replicated()).unwrap();
    store.put_bytes(b"ranges", &[1; 500_000], &replicated()).unwrap();
    store.write_at(b"ranges", 100_000, &[2; 100_000], &replicated()).unwrap();
    store.write_at(b"ranges", 499_000, &[3; 10_000], &replicated()).unwrap();
    store.write_at(b"sparse", 1_000_000, b"far", &replicated()).unwrap();
    store.put_bytes(b"gone", b"deleted", &replicated()).unwrap();
    store.remove(b"gone").unwrap();
    store.sync().unwrap();
    store.reap_now().unwrap();
    let wanted: BTreeMap<Vec<u8>, Vec<u8>> = [&b"long"[..], b"small", b"ranges"]
        .into_iter()
        .map(|key| (salvaged_key(&store, key), store.get(key).unwrap()))
        .collect();
    let damaged = store.locate(b"long").unwrap().extents[1].replicas[0].clone();
    let home = store.dir().to_owned();
    drop(store);
    lose_logs(dir.path());
    let mut segment = fs::read(damaged.file.as_ref().unwrap()).unwrap();
    segment[damaged.position.unwrap() as usize + 5000] ^= 1;
    fs::write(damaged.file.unwrap(), segment).unwrap();

    let (store, salvaged) = Store::salvage(&home).unwrap();
    let bytes = wanted.values().map(|bytes| bytes.len() as u64).sum();
    assert_eq!((salvaged.objects, salvaged.bytes, salvaged.incomplete), (3, bytes, 1));
    assert!(salvaged.log_was_damaged && salvaged.missing_commits > 0, "{salvaged:?}");
    assert!(contents(&store) == wanted, "{:?}", contents(&store).keys());
    for key in wanted.keys() {
        assert!(store.stat(key).unwrap().attributes.user.contains_key("salvaged"));
    }
    // What is written from now on never meets what was there, and the damaged replica is missing only.
    store.put_bytes(b"new", &noise(2_000_000, 2), &replicated()).unwrap();
    assert!(store.scrub(b"", true, None, |_| {}).unwrap().bad == 0);
    store.sync().unwrap();
    let long = store.locate(wanted.keys().find(|key| wanted[*key] == long).unwrap()).unwrap();
    assert!(long.extents.iter().all(|extent| extent.replicas.len() == 2));
    let (all, before) = (contents(&store), store.catalog().dump().unwrap());
    drop(store);
    let (store, again) = Store::salvage(&home).unwrap();
    assert_eq!((again.objects, contents(&store) == all), (0, true));
    assert!(store.catalog().dump().unwrap() == before);
}

#[test]
fn where_the_log_is_there_nothing_is_salvaged() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    store.put_bytes(b"kept", &noise(300_000, 3), &replicated()).unwrap();
    // Dead, but not given back yet.
    store.put_bytes(b"deleted", &noise(300_000, 4), &replicated()).unwrap();
    store.remove(b"deleted").unwrap();
    store.put_bytes(b"kept", &noise(300_000, 5), &PutOptions::default()).unwrap();
    store.sync().unwrap();
    let home = store.dir().to_owned();
    let before = store.catalog().dump().unwrap();
    drop(store);
    let (store, salvaged) = Store::salvage(&home).unwrap();
    assert_eq!(salvaged, Salvaged::default());
    assert!(store.catalog().dump().unwrap() == before);
}

#[test]
fn what_moved_since_the_log_ends_is_found_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let tiers = [tier(dir.path(), "disk", &["a", "b"], ""), tier(dir.path(), "archive", &["c"], "")].concat();
    let text = format!("[store]\nreplicas = {{ default = 2 }}\n[[rule]]\nprefix = 'plain/'\nlayout = 'plain'\n{tiers}");
    let home = dir.path().join("store");
    let store = Store::init(&home, &Config::parse(&text, "test").unwrap()).unwrap();
    store.put_bytes(b"frames", &noise(3_000_000, 6), &replicated()).unwrap();
    store.put_bytes(b"plain/file", &noise(3_000_000, 7), &replicated()).unwrap();
    store.copy(b"frames", b"copy").unwrap();
    store.sync().unwrap();
    let wanted = contents(&store);
    store.close().unwrap();
    for folder in
        ["store", "a", "b", "c"].map(|folder| dir.path().join(folder)).iter().filter(|f| f.join("log").exists())
    {
        copy_folder(&folder.join("log"), &folder.join("earlier"));
    }
    let store = Store::open(&home).unwrap();
    store.drain("disk").unwrap();
    store.sync().unwrap();
    store.reap_now().unwrap();
    store.close().unwrap();
    for folder in ["store", "a", "b", "c"].map(|folder| dir.path().join(folder)) {
        let _ = fs::remove_dir_all(folder.join("log"));
        let _ = fs::rename(folder.join("earlier"), folder.join("log"));
    }
    fs::remove_dir_all(home.join("catalog")).unwrap();

    let (store, salvaged) = Store::salvage(&home).unwrap();
    assert!(salvaged.log_was_damaged && salvaged.objects == 0 && salvaged.found_again > 0, "{salvaged:?}");
    assert!(contents(&store) == wanted, "{:?}", contents(&store).keys());
    store.sync().unwrap();
    let scrubbed = store.scrub(b"", true, None, |_| {}).unwrap();
    assert_eq!((scrubbed.bad, scrubbed.lost), (0, 0), "{scrubbed:?}");
    store.close().unwrap();
    // The next opening sweeps nothing that is needed.
    assert!(contents(&Store::open(&home).unwrap()) == wanted);
}

/// Loses the log and the catalog after the objects `known/N`; `new/N` came later.
fn lose_new_commits(dir: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let store = new_store(dir);
    let put = |folder: &str, seed: u64| {
        for n in 0..3 {
            store.put_bytes(format!("{folder}/{n}").as_bytes(), &noise(200_000, seed + n), &replicated()).unwrap();
        }
        store.sync().unwrap();
    };
    put("known", 10);
    let log = dir.join("store/log/0000000000000001.log");
    let end = fs::metadata(&log).unwrap().len();
    put("new", 20);
    let contents = contents(&store);
    let keys = contents.keys().map(|key| match key.starts_with(b"new/") {
        true => salvaged_key(&store, key),
        false => key.clone(),
    });
    let wanted = keys.zip(contents.values().cloned()).collect();
    store.close().unwrap();
    for folder in ["store", "a", "b"] {
        let log = dir.join(folder).join("log/0000000000000001.log");
        fs::File::options().write(true).open(log).unwrap().set_len(end).unwrap();
    }
    fs::remove_dir_all(dir.join("store/catalog")).unwrap();
    wanted
}

/// Salvages a store in a process of its own, which a test kills.
#[test]
fn salvager() {
    let Ok(home) = std::env::var("TERRACE_SALVAGER") else { return };
    Store::salvage(Path::new(&home)).map(drop).unwrap();
}

fn salvage_until(home: &Path, point: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "salvager", "--nocapture"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("TERRACE_SALVAGER", home).env("TERRACE_FAIL_POINT", point);
    assert!(command.status().unwrap().code().is_none(), "{point} was not reached");
}

/// The first half of a salvage left a store that opened, and swept what the second half was to offer.
#[test]
fn a_salvage_that_is_killed_is_repeated_and_nothing_else_opens_the_store() {
    for point in ["salvage:opened", "salvage:left-log", "salvage:offered", "salvage:restarted"] {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("store");
        let wanted = lose_new_commits(dir.path());
        for _ in 0..2 {
            salvage_until(&home, point);
            let refused = Store::open(&home).map(drop).unwrap_err().to_string();
            assert!(refused.contains("repeat `terrace rebuild --salvage`"), "{point}: {refused}");
            if point == "salvage:restarted" {
                // Its log is whole.
                break;
            }
            let refused = Store::rebuild(&home).map(drop).unwrap_err().to_string();
            assert!(refused.contains("commits are missing"), "{point}: {refused}");
        }
        if point == "salvage:restarted" {
            let refused = Store::rebuild(&home).map(drop).unwrap_err().to_string();
            assert!(refused.contains("before it said what is missing"), "{refused}");
        }
        let (store, salvaged) = Store::salvage(&home).unwrap();
        assert!(salvaged.log_was_damaged && salvaged.missing_commits > 0, "{point}: {salvaged:?}");
        assert_eq!((salvaged.objects, salvaged.bytes), (3, 600_000), "{point}");
        assert!(contents(&store) == wanted, "{point}: {:?}", contents(&store).keys());
        store.close().unwrap();
        let store = Store::open(&home).unwrap();
        let scrubbed = store.scrub(b"", true, None, |_| {}).unwrap();
        assert_eq!((scrubbed.bad, scrubbed.lost), (0, 0), "{point}: {scrubbed:?}");
        assert!(contents(&store) == wanted, "{point}");
    }
}

/// Only the catalog has the last commits, and a target has seen more. A salvage goes on with this catalog, also when it is repeated.
#[test]
fn a_killed_salvage_goes_on_with_the_catalog_that_it_began_with() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("store");
    let store = new_store(dir.path());
    store.put_bytes(b"first", &noise(200_000, 1), &replicated()).unwrap();
    store.sync().unwrap();
    copy_folder(&home.join("log"), &dir.path().join("log"));
    store.put_bytes(b"second", &noise(200_000, 2), &replicated()).unwrap();
    store.sync().unwrap();
    let before = contents(&store);
    store.close().unwrap();
    copy_folder(&home, &dir.path().join("earlier"));
    let store = Store::open(&home).unwrap();
    store.put_bytes(b"third", &noise(200_000, 3), &replicated()).unwrap();
    let third = (salvaged_key(&store, b"third"), store.get(b"third").unwrap());
    store.sync().unwrap();
    store.close().unwrap();
    // The directory is older than its targets, and all logs are older than the directory.
    let reach = fs::read(home.join("log-reach")).unwrap();
    fs::remove_dir_all(&home).unwrap();
    fs::rename(dir.path().join("earlier"), &home).unwrap();
    fs::write(home.join("log-reach"), reach).unwrap();
    for folder in ["store", "a", "b"].map(|folder| dir.path().join(folder)) {
        fs::remove_dir_all(folder.join("log")).unwrap();
        copy_folder(&dir.path().join("log"), &folder.join("log"));
    }
    let mut wanted = before;
    wanted.extend([third]);
    for point in ["salvage:opened", "salvage:left-log", "salvage:offered"] {
        salvage_until(&home, point);
        assert!(Store::open(&home).is_err() && Store::rebuild(&home).is_err(), "{point}");
        assert!(fs::read_to_string(home.join("salvage")).unwrap().starts_with("catalog "), "{point}");
    }
    let (store, salvaged) = Store::salvage(&home).unwrap();
    assert!(contents(&store) == wanted, "{salvaged:?}: {:?}", contents(&store).keys());
}

#[test]
fn a_salvage_waits_for_a_target_that_is_away() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("store");
    let (b, away) = (dir.path().join("b"), dir.path().join("away"));
    let wanted = lose_new_commits(dir.path());
    fs::rename(&b, &away).unwrap();
    let refused = Store::rebuild(&home).map(drop).unwrap_err().to_string();
    assert!(refused.contains("commits are missing") && refused.contains("bring it back first"), "{refused}");
    let refused = Store::salvage(&home).map(drop).unwrap_err().to_string();
    assert!(refused.contains("Nothing was changed") && refused.contains("terrace tiers renew disk"), "{refused}");
    assert!(!home.join("salvage").exists());
    // It is gone for good.
    assert!(Store::renew_tier(&home, "disk", false).unwrap().is_none());
    let (store, _) = Store::salvage(&home).unwrap();
    assert!(contents(&store) == wanted, "{:?}", contents(&store).keys());
    store.sync().unwrap();
    let scrubbed = store.scrub(b"", true, None, |_| {}).unwrap();
    assert_eq!((scrubbed.bad, scrubbed.lost), (0, 0), "{scrubbed:?}");
}

#[test]
fn a_whole_copy_of_the_log_that_comes_back_ends_a_salvage_that_was_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("store");
    let store = new_store(dir.path());
    store.put_bytes(b"first", &noise(200_000, 1), &replicated()).unwrap();
    store.sync().unwrap();
    let log = "log/0000000000000001.log";
    let end = fs::metadata(home.join(log)).unwrap().len();
    store.put_bytes(b"second", &noise(200_000, 2), &replicated()).unwrap();
    store.sync().unwrap();
    let wanted = contents(&store);
    store.close().unwrap();
    let whole = fs::read(home.join(log)).unwrap();
    for folder in ["store", "a", "b"].map(|folder| dir.path().join(folder)) {
        fs::File::options().write(true).open(folder.join(log)).unwrap().set_len(end).unwrap();
    }
    fs::remove_dir_all(home.join("catalog")).unwrap();
    salvage_until(&home, "salvage:offered");
    fs::write(dir.path().join("b").join(log), &whole).unwrap();
    let copies = ["store", "a", "b"].map(|folder| (dir.path().join(folder), dir.path().join("kept").join(folder)));
    fs::create_dir(dir.path().join("kept")).unwrap();
    copies.iter().for_each(|(from, to)| copy_folder(from, to));
    let store = Store::rebuild(&home).unwrap();
    assert!(contents(&store) == wanted, "{:?}", contents(&store).keys());
    store.close().unwrap();
    assert!(contents(&Store::open(&home).unwrap()) == wanted);

    // A salvage finds nothing missing, either.
    for (to, from) in &copies {
        fs::remove_dir_all(to).unwrap();
        fs::rename(from, to).unwrap();
    }
    let (store, salvaged) = Store::salvage(&home).unwrap();
    assert_eq!((salvaged.log_was_damaged, salvaged.missing_commits), (false, 0));
    assert!(contents(&store) == wanted, "{:?}", contents(&store).keys());
}

/// `health` called a store safe whose salvaged objects had one replica.
#[test]
fn salvaged_objects_get_the_replicas_that_they_are_to_have() {
    let dir = tempfile::tempdir().unwrap();
    let tiers = ["a", "b", "c"].map(|name| tier(dir.path(), name, &[name], ""));
    let store = store_of(dir.path(), &tiers);
    store.put_bytes(b"known", &noise(100_000, 1), &replicated()).unwrap();
    store.sync().unwrap();
    let log = "log/0000000000000001.log";
    let end = fs::metadata(store.dir().join(log)).unwrap().len();
    store.put_bytes(b"new", &noise(100_000, 2), &replicated()).unwrap();
    store.sync().unwrap();
    let home = store.dir().to_owned();
    store.close().unwrap();
    for folder in ["store", "a", "b", "c"].map(|folder| dir.path().join(folder)).iter().filter(|f| f.join(log).exists())
    {
        fs::File::options().write(true).open(folder.join(log)).unwrap().set_len(end).unwrap();
    }
    fs::remove_dir_all(home.join("catalog")).unwrap();
    fs::remove_dir_all(dir.path().join("a")).unwrap();
    assert!(Store::renew_tier(&home, "a", false).unwrap().is_none());
    let (store, salvaged) = Store::salvage(&home).unwrap();
    assert_eq!(salvaged.objects, 1);
    store.sync().unwrap();
    for (key, _) in store.list(b"", None, 100).unwrap() {
        let replicas = store.locate(&key).unwrap().extents.iter().map(|extent| extent.replicas.len()).min();
        assert_eq!(replicas, Some(2), "{}", String::from_utf8_lossy(&key));
    }
}
