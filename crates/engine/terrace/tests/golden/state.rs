//! A snapshot of the catalog, the log behind it, pending replicas, and files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use terrace::files::{Files, Owner, Setting, Special};
use terrace::report::ReplicaState;
use terrace::{Ack, Config, Kind, PutOptions, Store};
use terrace_testkit::golden::pack;

use crate::common::{clear, replicated};
use crate::{Golden, golden, objects, repeated, tiers_config, unlike};

/// The content of the golden store `state`; the first ones are in the snapshot.
fn state_contents() -> BTreeMap<String, Vec<u8>> {
    let mut extents = repeated(90_000, 1);
    (0..6).for_each(|i| extents[i * 15_000..][..100].copy_from_slice(&repeated(100, 50 + i as u64)));
    let mut hole = repeated(300_000, 2);
    hole[100_000..200_000].fill(0);
    let all = [
        ("in-snapshot/extents", extents),
        ("in-snapshot/hole", hole),
        ("in-snapshot/inline", repeated(500, 3)),
        ("in-snapshot/overwritten", repeated(9000, 13)),
        ("files/file", repeated(40, 4)),
        ("files/link", b"../in-snapshot".to_vec()),
        ("files/empty", Vec::new()),
        ("files/pipe", Vec::new()),
        ("owed/1", repeated(70_000, 5)),
        ("owed/2", repeated(3000, 6)),
        ("in-log/cut", repeated(1000, 7)[..10].to_vec()),
    ];
    all.into_iter().map(|(key, bytes)| (key.to_owned(), bytes)).collect()
}

/// Bytes that are not read to their end: before that the archive is written.
struct Unfinished<'a> {
    left: usize,
    pack: &'a dyn Fn(),
}

impl Read for Unfinished<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = out.len().min(self.left);
        if count == 0 {
            (self.pack)();
            return Err(io::Error::other("never read to the end"));
        }
        out[..count].copy_from_slice(&repeated(count, self.left as u64));
        self.left -= count;
        Ok(count)
    }
}

fn write_state(dir: &Path, config: Config, archive: &Path) {
    assert!(std::env::var_os("TERRACE_LOG_FILE").is_some(), "run `make golden`, which asks for small files");
    let home = dir.join("store");
    let store = Store::init(&home, &config).unwrap();
    let all = state_contents();
    store.put_bytes(b"in-snapshot/extents", &repeated(90_000, 1), &replicated()).unwrap();
    for i in 0..6 {
        store.write_at(b"in-snapshot/extents", i * 15_000, &repeated(100, 50 + i), &replicated()).unwrap();
    }
    store.put_bytes(b"in-snapshot/hole", &repeated(300_000, 2), &replicated()).unwrap();
    clear(&store, b"in-snapshot/hole", 100_000, 100_000).unwrap();
    store.put_bytes(b"in-snapshot/inline", &all["in-snapshot/inline"], &replicated()).unwrap();
    // Its places stay dead for as long as a reader may use them, so the snapshot has them.
    store.put_bytes(b"in-snapshot/overwritten", &repeated(9000, 12), &replicated()).unwrap();
    store.put_bytes(b"in-snapshot/overwritten", &repeated(9000, 13), &replicated()).unwrap();
    store.sync().unwrap();
    while !names(&home.join("log")).iter().any(|name| name.ends_with(".snapshot")) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // From here on nothing is moved.
    let mover = File::options().write(true).open(home.join("mover")).unwrap();
    mover.lock().unwrap();
    let files = Files::new(&store).unwrap();
    let owner = Owner { uid: 1234, gid: 567 };
    files.make_directory(b"files", 0o755, owner).unwrap();
    files.make_directory(b"files/folder", 0o750, owner).unwrap();
    let file = files.create(b"files/file", 0o600, owner, true).unwrap();
    file.write_at(0, &all["files/file"]).unwrap();
    let setting = Setting { accessed: Some(-5), modified: Some(1_234_567_890_123_456_789), ..Setting::default() };
    file.set(&setting).unwrap();
    file.flush().unwrap();
    drop(file);
    files.set_pair(b"files/file", "unit", Some("kelvin"), terrace::files::Presence::Any).unwrap();
    files.make_link(b"files/link", b"../in-snapshot", owner).unwrap();
    files.create(b"files/empty", 0o644, owner, true).unwrap();
    files.make_special(b"files/pipe", Special::Pipe, 0o644, owner).unwrap();
    files.sync_names().unwrap();
    let placed = || PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
    store.put_bytes(b"in-log/cut", &repeated(1000, 7), &placed()).unwrap();
    store.set_length(b"in-log/cut", 10).unwrap();
    store.put_bytes(b"in-log/gone", &repeated(1000, 9), &placed()).unwrap();
    store.remove(b"in-log/gone").unwrap();
    store.put_bytes(b"owed/1", &all["owed/1"], &placed()).unwrap();
    store.put_bytes(b"owed/2", &all["owed/2"], &PutOptions { replicas: Some(3), ..placed() }).unwrap();
    assert!(store.status().unwrap().owed > 0, "a replica is owed");
    let pack = || pack(dir, archive);
    store.put(b"staged", Unfinished { left: 200_000, pack: &pack }, &placed()).unwrap_err();
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_golden_snapshot_and_the_log_behind_it_are_what_the_store_was() {
    let Golden { dir, store } = golden("state", tiers_config, write_state);
    assert!(objects_of_files(&store) == state_contents(), "{:?}", objects_of_files(&store).keys());
    unlike(&store);
    let files = Files::new(&store).unwrap();
    let stat = files.stat(b"files/file").unwrap();
    assert_eq!((stat.mode, stat.owner, stat.accessed), (0o600, Owner { uid: 1234, gid: 567 }, -5));
    assert_eq!(stat.modified, 1_234_567_890_123_456_789);
    assert_eq!(files.pairs(b"files/file").unwrap(), BTreeMap::from([("unit".to_owned(), "kelvin".to_owned())]));
    assert_eq!(files.stat(b"files/folder").unwrap().kind, Kind::Directory);
    assert_eq!(files.stat(b"files/link").unwrap().kind, Kind::Symlink);
    assert_eq!(files.stat(b"files/pipe").unwrap().special, Some(Special::Pipe));
    let hole = files.open(b"in-snapshot/hole").unwrap();
    assert_eq!((hole.next_hole(0).unwrap(), hole.next_data(150_000).unwrap()), (Some(100_000), Some(200_000)));
    assert!(store.locate(b"in-snapshot/extents").unwrap().extents.len() > 2, "they have records of their own");
    assert!(store.stat(b"in-snapshot/inline").unwrap().extents_in_record.is_some());
    // What was owed is made, and what a dead writer had staged is given up.
    store.sync().unwrap();
    for key in ["owed/1", "owed/2"] {
        let wanted = if key == "owed/2" { 3 } else { 2 };
        for extent in store.locate(key.as_bytes()).unwrap().extents {
            let present = extent.replicas.iter().filter(|replica| replica.state == ReplicaState::Present).count();
            assert_eq!(present, wanted, "{key}");
        }
    }
    assert!(matches!(store.get(b"staged"), Err(terrace::Error::NotFound { .. })));
    store.close().unwrap();
    let kept = names(&dir.path().join("store/log"));
    assert!(kept.iter().any(|name| name.ends_with(".snapshot")), "{kept:?}");
}

/// As [`objects`], without directories.
fn objects_of_files(store: &Store) -> BTreeMap<String, Vec<u8>> {
    let mut all = objects(store);
    all.retain(|key, _| key != "files" && key != "files/folder");
    all
}

/// Objects with a pending replica each.
fn counts_contents() -> BTreeMap<String, Vec<u8>> {
    (1..4).map(|n| (format!("owed/{n}"), repeated(70_000, n))).collect()
}

fn write_counts(dir: &Path, config: Config, archive: &Path) {
    let home = dir.join("store");
    let store = Store::init(&home, &config).unwrap();
    // Nothing is moved.
    let mover = File::options().write(true).open(home.join("mover")).unwrap();
    mover.lock().unwrap();
    for (key, bytes) in counts_contents() {
        store
            .put_bytes(key.as_bytes(), &bytes, &PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() })
            .unwrap();
    }
    assert!(store.status().unwrap().owed > 0, "a replica is owed");
    store.close_at_once().unwrap();
    pack(dir, archive);
}

#[test]
fn pending_replicas_of_a_golden_store_are_counted() {
    let Golden { dir: _dir, store } = golden("counts", tiers_config, write_counts);
    store.sync().unwrap();
    assert_eq!(store.status().unwrap().owed, 0);
    assert!(objects(&store) == counts_contents());
    unlike(&store);
}
