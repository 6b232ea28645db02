//! Targets and stores that have lost, or damaged, the files that say what they are.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{store_of, tier};
use terrace::report::TierState;
use terrace::{Ack, Config, PutOptions, Store};
use terrace_testkit::{Missing, noise, skip};

fn two_disks(dir: &Path) -> Store {
    store_of(dir, &[tier(dir, "a", &["a"], ""), tier(dir, "b", &["b"], "")])
}

fn replicated() -> PutOptions {
    PutOptions { ack: Some(Ack::Replicated), replicas: Some(1), ..PutOptions::default() }
}

/// A marker with a flipped bit refused the whole store as somebody else's; one that was no text made a `put` spin for ever, as
/// the failed write did not set the target aside, and `sync` said that all was durable.
#[test]
fn a_damaged_marker_sets_its_target_aside_only() {
    let damaged: [&[u8]; 4] =
        [b"\xfftore 0\n", b"stora 0000000000000001\ntarget 0\n", b"store 0000000000000001\ntarget 0\n", b""];
    for damage in damaged {
        let dir = tempfile::tempdir().unwrap();
        let store = two_disks(dir.path());
        let bytes = noise(100_000, 1);
        store.put_bytes(b"k", &bytes, &PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() }).unwrap();
        let home = store.dir().to_owned();
        fs::write(dir.path().join("a/terrace-target"), damage).unwrap();
        store.put_bytes(b"open", &bytes, &replicated()).unwrap();
        drop(store);
        let store = Store::open(&home).unwrap();
        assert!(store.get(b"k").unwrap() == bytes);
        store.put_bytes(b"more", &bytes, &replicated()).unwrap();
        let states: Vec<TierState> = store.status().unwrap().tiers.iter().map(|tier| tier.state).collect();
        assert_eq!(states, [TierState::Away, TierState::Ok]);
        let failed = store.sync().unwrap_err().to_string();
        assert!(failed.contains("is damaged") || failed.contains("another store"), "{failed}");
        drop(store);
        // An empty target cannot be made there. The note that it was made must stay, or the store would not open again.
        let refused = Store::renew_tier(&home, "a", true).map(drop).unwrap_err().to_string();
        assert!(refused.contains("is damaged") || refused.contains("another store"), "{refused}");
        assert!(Store::open(&home).unwrap().get(b"k").unwrap() == bytes);
    }
}

/// The id passed for that of another store: the error named the log, and after a restart of the machine the store seemed empty.
#[test]
fn a_damaged_id_is_named_with_the_one_that_the_targets_have() {
    let dir = tempfile::tempdir().unwrap();
    let store = two_disks(dir.path());
    store.put_bytes(b"k", b"bytes", &PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() }).unwrap();
    let (home, id) = (store.dir().to_owned(), store.id());
    store.close().unwrap();
    let (file, whole) = (home.join("store"), fs::read_to_string(home.join("store")).unwrap());
    let named = format!("{id:016x}");
    let damaged = format!("{:016x}", id ^ 0x10);
    fs::write(&file, whole.replace(&named, &damaged)).unwrap();
    let sums = || {
        let list = "find store/log store/catalog a b -type f | sort | xargs md5sum";
        let listed = Command::new("sh").args(["-c", list]).current_dir(dir.path()).output().unwrap();
        String::from_utf8(listed.stdout).unwrap()
    };
    let reach = fs::read(home.join("log-reach")).unwrap();
    for is_restarted in [false, true] {
        if is_restarted {
            fs::write(home.join("boot"), "another boot").unwrap();
        }
        let before = sums();
        let refusals = [
            Store::open(&home).map(drop).unwrap_err().to_string(),
            Store::rebuild(&home).map(drop).unwrap_err().to_string(),
            Store::salvage(&home).map(drop).unwrap_err().to_string(),
            Store::destroy(&home, false).map(drop).unwrap_err().to_string(),
            Store::destroy(&home, true).map(drop).unwrap_err().to_string(),
        ];
        for refused in refusals {
            assert!(refused.contains(&damaged) && refused.contains(&format!("`id {named}` into")), "{refused}");
        }
        assert_eq!(sums(), before, "nothing was changed");
        // A store of version 0.1 has no such note.
        fs::remove_file(home.join("log-reach")).unwrap();
        assert!(Store::open(&home).map(drop).unwrap_err().to_string().contains("If the markers are right"));
        fs::write(home.join("log-reach"), &reach).unwrap();
    }
    // As the error says.
    fs::write(&file, format!("format 1\nid {named}\n")).unwrap();
    assert_eq!(Store::open(&home).unwrap().get(b"k").unwrap(), b"bytes");
}

/// Every command waited for a writer of the pipe.
#[test]
fn a_pipe_in_the_place_of_a_file_is_not_waited_for() {
    for name in ["terrace-target", "terrace-home", "terrace-owner", "log-reach"] {
        let dir = tempfile::tempdir().unwrap();
        let store = two_disks(dir.path());
        let bytes = noise(100_000, 5);
        store.put_bytes(b"k", &bytes, &PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() }).unwrap();
        // The note on how far the log is durable is written with a sync mark.
        store.sync().unwrap();
        let home = store.dir().to_owned();
        drop(store);
        let file = dir.path().join("a").join(name);
        fs::remove_file(&file).unwrap();
        assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
        assert!(Store::open(&home).unwrap().get(b"k").unwrap() == bytes);
    }
}

/// `put` went on writing to a target whose folder for segments was gone: a missing file was taken for a bad frame.
#[test]
fn a_target_without_its_folder_for_segments_is_written_around() {
    let dir = tempfile::tempdir().unwrap();
    let store = two_disks(dir.path());
    fs::remove_dir_all(dir.path().join("a/segments")).unwrap();
    let bytes = noise(2_000_000, 2);
    store.put_bytes(b"k", &bytes, &replicated()).unwrap();
    assert!(store.get(b"k").unwrap() == bytes);
}

/// No command made the folder again.
#[test]
fn a_target_without_its_folder_for_segments_is_renewed() {
    let dir = tempfile::tempdir().unwrap();
    let store = two_disks(dir.path());
    let (both, one) = (noise(300_000, 6), noise(300_000, 7));
    store.put_bytes(b"both", &both, &PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() }).unwrap();
    let on_a = PutOptions { tiers: Some(vec!["a".into()]), ..replicated() };
    store.put_bytes(b"one", &one, &on_a).unwrap();
    let home = store.dir().to_owned();
    store.close().unwrap();
    let (folder, away) = (dir.path().join("a/segments"), dir.path().join("moved"));
    fs::rename(&folder, &away).unwrap();
    let store = Store::open(&home).unwrap();
    let tier = store.status().unwrap().tiers.swap_remove(0);
    assert_eq!(tier.state, TierState::Away);
    assert!(store.get(b"both").unwrap() == both);
    assert!(store.get(b"one").is_err());
    let failed = store.sync().unwrap_err().to_string();
    assert!(failed.contains("lacks its folder segments"), "{failed}");
    drop(store);
    // Until somebody gives it up, nothing is.
    fs::rename(&away, &folder).unwrap();
    let store = Store::open(&home).unwrap();
    assert!(store.get(b"one").unwrap() == one);
    let found = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((found.checked, found.bad, found.lost), (3, 0, 0));
    store.close().unwrap();

    fs::remove_dir_all(&folder).unwrap();
    let refused = Store::renew_tier(&home, "a", false).map(drop).unwrap_err().to_string();
    assert!(refused.contains("only good copy of bytes of an object: one.") && refused.contains("--force"), "{refused}");
    let store = Store::renew_tier(&home, "a", true).unwrap().unwrap();
    store.sync().unwrap();
    assert!(store.get(b"both").unwrap() == both);
    assert_eq!(store.locate(b"both").unwrap().extents[0].replicas.len(), 2);
    assert_eq!(store.stat(b"one").unwrap().length, 300_000, "it is not forgotten");
    let found = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!(found.lost_of.keys().collect::<Vec<_>>(), ["one"]);
    store.put_bytes(b"one", &one, &on_a).unwrap();
    store.close().unwrap();
    assert!(Store::open(&home).unwrap().get(b"one").unwrap() == one);
}

#[test]
fn memory_without_its_folder_for_segments_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::new_store(dir.path());
    let bytes = noise(300_000, 8);
    store.put_bytes(b"k", &bytes, &PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() }).unwrap();
    let home = store.dir().to_owned();
    store.close().unwrap();
    fs::remove_dir_all(dir.path().join("ram/segments")).unwrap();
    let store = Store::open(&home).unwrap();
    store.sync().unwrap();
    assert!(store.get(b"k").unwrap() == bytes);
    assert!(dir.path().join("ram/segments").is_dir());
    assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().bad, 0);
}

/// Where memory was full at the first opening after a reboot, an empty marker stayed, and the store was refused for ever.
#[test]
fn memory_that_is_full_does_not_keep_a_store_from_opening() {
    let dir = tempfile::tempdir().unwrap();
    let memory = dir.path().join("memory");
    fs::create_dir(&memory).unwrap();
    let mount = || Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "test"]).arg(&memory).status().unwrap();
    if !mount().success() {
        return skip("memory that is full", &Missing::new("root", "this user may not mount file systems"));
    }
    let tiers = [tier(dir.path(), "ram", &["memory/ram"], "persistent = false"), tier(dir.path(), "disk", &["d"], "")];
    let store = store_of(dir.path(), &tiers);
    let bytes = noise(20_000, 3);
    store.put_bytes(b"k", &bytes, &PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() }).unwrap();
    let home = store.dir().to_owned();
    drop(store);
    let unmount = || assert!(Command::new("umount").arg("-l").arg(&memory).status().unwrap().success());
    unmount();
    assert!(mount().success());
    fs::create_dir_all(memory.join("ram/segments")).unwrap();
    // A part of it is written, and fills the file system.
    let _ = fs::write(memory.join("others"), noise(200_000, 4));
    for _ in 0..2 {
        let store = Store::open(&home).unwrap();
        assert!(store.get(b"k").unwrap() == bytes);
    }
    fs::remove_file(memory.join("others")).unwrap();
    let store = Store::open(&home).unwrap();
    store.put_bytes(b"more", &bytes, &PutOptions::default()).unwrap();
    assert!(store.get(b"more").unwrap() == bytes);
    drop(store);
    unmount();
}

/// `terrace init` on a store that had lost its file `store` replaced its configuration, and said that nothing was changed.
#[test]
fn a_store_without_its_file_keeps_its_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let store = two_disks(dir.path());
    store.put_bytes(b"k", b"bytes", &PutOptions::default()).unwrap();
    let home = store.dir().to_owned();
    drop(store);
    let (configured, file) = (fs::read(home.join("terrace.toml")).unwrap(), fs::read(home.join("store")).unwrap());
    fs::remove_file(home.join("store")).unwrap();
    let other = format!("[store]\n{}", tier(dir.path(), "c", &["c"], ""));
    let refused = Store::init(&home, &Config::parse(&other, "test").unwrap()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("terrace-target"), "{refused}");
    assert!(fs::read(home.join("terrace.toml")).unwrap() == configured);
    fs::write(home.join("store"), file).unwrap();
    assert_eq!(Store::open(&home).unwrap().get(b"k").unwrap(), b"bytes");
}

/// Only a folder `segments` of somebody else was refused. The store wrote over the others, and `destroy` removed them.
#[test]
fn files_of_somebody_else_are_not_taken_for_a_targets_own() {
    for name in ["files/precious", "plain/precious", "log/precious", "log-reach"] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "not ours").unwrap();
        let config = Config::parse(&tier(dir.path(), "disk", &["a"], "layout = 'plain'"), "test").unwrap();
        let refused = Store::init(&dir.path().join("store"), &config).map(drop).unwrap_err().to_string();
        assert!(refused.contains("no target's marker claims"), "{refused}");
        assert_eq!(fs::read(&file).unwrap(), b"not ours");
    }
}
