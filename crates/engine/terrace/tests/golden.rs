//! Stores as older versions wrote them: what they hold is read for ever.
//!
//! `tests/golden/v1` is from the first days of format 1. Each archive beside it holds a store with some features, as its `write_`
//! function below made it. `make golden` writes archives that are not there; one that is there is never written again: a
//! store that shows something new is a new archive.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use common::{clear, replicated};
use terrace::files::{Files, Owner, Setting, Special};
use terrace::report::ReplicaState;
use terrace::{Ack, Config, Kind, PutOptions, Store};
use terrace_testkit::golden::{archive, is_wanted, pack, unpack};
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

/// Numbers that every codec shrinks.
fn numbers(count: u32) -> Vec<u8> {
    (0..count).flat_map(|i| ((i / 16) as f32).to_le_bytes()).collect()
}

fn unlike(store: &Store) {
    let scrubbed = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((scrubbed.checked > 0, scrubbed.bad, scrubbed.lost), (true, 0, 0));
}

/// The codecs of version 0.1, and each transform.
const ENCODING_NAMES: [&str; 17] = [
    "none",
    "lz4",
    "lz4hc-9",
    "zstd-3",
    "huffman",
    "pco-f32",
    "snappy",
    "deflate-6",
    "brotli-5",
    "bzip2-9",
    "lzma-6",
    "lzo",
    "ppmd-6",
    "quicklz-1",
    "shuffle4+zstd-1",
    "delta4+lz4",
    "bitshuffle4+zstd-1",
];

fn encodings_config(dir: &Path) -> String {
    let tier = common::tier(dir, "disk", &["a"], "");
    let rule = |name: &&str| format!("[[rule]]\nprefix = 'codec/{name}'\nencoding = '{name}'\n");
    let rules: String = ENCODING_NAMES.iter().map(rule).collect();
    format!("[store]\nreplicas = {{ default = 1 }}\n{tier}{rules}")
}

fn write_encodings(dir: &Path, config: Config, archive: &Path) {
    let store = Store::init(&dir.join("store"), &config).unwrap();
    for name in ENCODING_NAMES {
        store.put_bytes(format!("codec/{name}").as_bytes(), &numbers(1500), &replicated()).unwrap();
    }
    store.close().unwrap();
    pack(dir, archive);
}

#[test]
fn every_codec_of_a_golden_store_is_decoded() {
    let Golden { dir: _dir, store } = golden("encodings", encodings_config, write_encodings);
    for name in ENCODING_NAMES {
        let key = format!("codec/{name}");
        assert!(store.get(key.as_bytes()).unwrap() == numbers(1500), "{name}");
        let located = store.locate(key.as_bytes()).unwrap().extents;
        assert_eq!(located[0].replicas[0].encoding, name, "it is stored so");
    }
    unlike(&store);
}

/// Elements of records, with pco and without it.
const FIELDS_NAMES: [&str; 4] = ["fields", "fields-f32", "fields-r32-4", "fields-f64-8"];

/// Records of a counter, a sum, noise and a constant; the first one is cut.
fn records() -> Vec<u8> {
    let record = |(i, noise): (usize, u8)| {
        let noise = 1.0 + f64::from(noise) / 256.0;
        [(i as u64).to_le_bytes(), (i as f64 * 0.25).to_le_bytes(), noise.to_le_bytes(), 1.5f64.to_le_bytes()].concat()
    };
    let all: Vec<u8> = noise(9000, 7).into_iter().enumerate().flat_map(record).collect();
    all[12..].to_vec()
}

fn fields_config(dir: &Path) -> String {
    let rule = |name: &&str| format!("[[rule]]\nprefix = '{name}'\nencoding = '{name}'\n");
    let rules: String = FIELDS_NAMES.iter().map(rule).collect();
    format!("[store]\nreplicas = {{ default = 1 }}\n{}{rules}", common::tier(dir, "disk", &["a"], ""))
}

fn write_fields(dir: &Path, config: Config, archive: &Path) {
    let store = Store::init(&dir.join("store"), &config).unwrap();
    for name in FIELDS_NAMES {
        store.put_bytes(name.as_bytes(), &records(), &replicated()).unwrap();
    }
    store.close().unwrap();
    pack(dir, archive);
}

#[test]
fn records_of_a_golden_store_are_joined() {
    let Golden { dir: _dir, store } = golden("fields", fields_config, write_fields);
    for name in FIELDS_NAMES {
        assert!(store.get(name.as_bytes()).unwrap() == records(), "{name}");
        // A range within a record, across the end of a sub-block.
        let mut range = vec![0; 1001];
        store.read_at(name.as_bytes(), (256 << 10) - 501, &mut range).unwrap();
        assert!(range == records()[(256 << 10) - 501..][..1001], "a range of {name}");
        let replica = &store.locate(name.as_bytes()).unwrap().extents[0].replicas[0];
        assert_eq!(replica.encoding, name, "it is stored so");
    }
    unlike(&store);
}

fn plain_config(dir: &Path) -> String {
    let pfs = common::tier(dir, "pfs", &["a", "b"], "layout = 'plain'");
    format!("[store]\nreplicas = {{ default = 2 }}\n{}{pfs}", common::tier(dir, "ram", &["ram"], "persistent = false"))
}

fn plain_contents() -> BTreeMap<String, Vec<u8>> {
    let mut holes = vec![0; 300_000];
    holes[..1000].copy_from_slice(&noise(1000, 3));
    holes[299_000..].copy_from_slice(&noise(1000, 4));
    let all = [("runs/1/a", noise(5000, 1)), ("runs/1/moved", noise(2000, 2)), ("holes", holes), ("empty", Vec::new())];
    all.into_iter().map(|(key, bytes)| (key.to_owned(), bytes)).collect()
}

fn write_plain(dir: &Path, config: Config, archive: &Path) {
    let store = Store::init(&dir.join("store"), &config).unwrap();
    let all = plain_contents();
    store.put_bytes(b"runs/1/a", b"an older version", &replicated()).unwrap();
    store.put_bytes(b"runs/1/a", &all["runs/1/a"], &replicated()).unwrap();
    store.put_bytes(b"before", &all["runs/1/moved"], &replicated()).unwrap();
    store.rename(b"before", b"runs/1/moved").unwrap();
    store.put_bytes(b"gone", &noise(700, 5), &replicated()).unwrap();
    store.remove(b"gone").unwrap();
    store.put_bytes(b"empty", b"", &replicated()).unwrap();
    store.put_bytes(b"holes", &all["holes"][..1000], &replicated()).unwrap();
    store.write_at(b"holes", 299_000, &all["holes"][299_000..], &replicated()).unwrap();
    store.sync().unwrap();
    store.close().unwrap();
    pack(dir, archive);
}

#[test]
fn plain_files_of_a_golden_store_are_its_objects() {
    let Golden { dir, store } = golden("plain", plain_config, write_plain);
    assert!(objects(&store) == plain_contents(), "{:?}", objects(&store).keys());
    unlike(&store);
    // The first process after a restart of the machine has compared all names.
    let mut files = 0;
    for (key, bytes) in plain_contents() {
        for target in ["a", "b"] {
            if let Ok(found) = fs::read(dir.path().join(target).join("files").join(&key)) {
                assert!(found == bytes, "{key} on {target}");
                files += 1;
            }
        }
    }
    assert!(files >= 3, "{files} plain files");
    assert!(!dir.path().join("a/files/gone").exists() && !dir.path().join("b/files/before").exists());
}

fn tiers_config(dir: &Path) -> String {
    let tiers = [common::tier(dir, "ram", &["ram"], "persistent = false"), common::tier(dir, "disk", &["a", "b"], "")];
    format!("[store]\nreplicas = {{ default = 2 }}\n{}", tiers.concat())
}

/// Bytes that repeat, so that the archive stays small.
fn repeated(length: usize, seed: u64) -> Vec<u8> {
    noise(97, seed).into_iter().cycle().take(length).collect()
}

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
    assert!(store.stat(b"in-snapshot/inline").unwrap().inline.is_some());
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

fn void_contents() -> BTreeMap<String, Vec<u8>> {
    let all = [("kept", repeated(60_000, 1)), ("overwritten", repeated(40_000, 2))];
    all.into_iter().map(|(key, bytes)| (key.to_owned(), bytes)).collect()
}

/// A restart of the machine takes a write that was in memory only: the log then says that this commit is void.
fn write_void(dir: &Path, config: Config, archive: &Path) {
    let home = dir.join("store");
    let store = Store::init(&home, &config).unwrap();
    let durable = PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() };
    for (key, bytes) in void_contents() {
        store.put_bytes(key.as_bytes(), &bytes, &durable).unwrap();
    }
    store.sync().unwrap();
    // From here on nothing is moved, so what follows stays in memory.
    let mover = File::options().write(true).open(home.join("mover")).unwrap();
    mover.lock().unwrap();
    let tiers = Some(vec!["ram".to_owned()]);
    let placed = PutOptions { ack: Some(Ack::Placed), replicas: Some(1), tiers, ..PutOptions::default() };
    store.write_at(b"overwritten", 5000, &repeated(20_000, 3), &placed).unwrap();
    store.put_bytes(b"lost", &repeated(50_000, 4), &placed).unwrap();
    // What is on the disks now is what the restart leaves.
    let left = tempfile::tempdir().unwrap();
    for part in ["store", "a", "b"] {
        copy(&dir.join(part), &left.path().join(part));
    }
    drop(mover);
    drop(store);
    for part in ["store", "a", "b", "ram"] {
        fs::remove_dir_all(dir.join(part)).unwrap();
    }
    copy(left.path(), dir);
    fs::remove_dir_all(home.join("catalog")).unwrap();
    fs::write(home.join("boot"), "another boot").unwrap();
    let store = Store::open(&home).unwrap();
    assert!(objects(&store) == void_contents(), "{:?}", objects(&store).keys());
    store.close().unwrap();
    pack(dir, archive);
}

#[test]
fn writes_that_a_golden_store_calls_void_stay_so() {
    let Golden { dir, store } = golden("void", tiers_config, write_void);
    assert!(objects(&store) == void_contents(), "{:?}", objects(&store).keys());
    unlike(&store);
    // The log alone leads to the same, though it still has the writes.
    store.close().unwrap();
    let home = dir.path().join("store");
    fs::remove_dir_all(home.join("catalog")).unwrap();
    assert!(objects(&Store::rebuild(&home).unwrap()) == void_contents());
}

fn shared_contents() -> BTreeMap<String, Vec<u8>> {
    let first = repeated(2_100_000, 1);
    let mut changed = first.clone();
    changed[1000..21_000].copy_from_slice(&repeated(20_000, 2));
    let all =
        [("copy", first.clone()), ("changed", changed), ("cut", first[..5000].to_vec()), ("small", repeated(700, 3))];
    all.into_iter().map(|(key, bytes)| (key.to_owned(), bytes)).collect()
}

/// The first object is gone, its frames are not.
fn write_shared(dir: &Path, config: Config, archive: &Path) {
    let store = Store::init(&dir.join("store"), &config).unwrap();
    store.put_bytes(b"first", &repeated(2_100_000, 1), &replicated()).unwrap();
    store.sync().unwrap();
    for to in ["copy", "changed", "cut"] {
        store.copy(b"first", to.as_bytes()).unwrap();
    }
    store.write_at(b"changed", 1000, &repeated(20_000, 2), &replicated()).unwrap();
    store.set_length(b"cut", 5000).unwrap();
    store.remove(b"first").unwrap();
    store.put_bytes(b"first", &repeated(700, 3), &replicated()).unwrap();
    store.copy(b"first", b"small").unwrap();
    store.remove(b"first").unwrap();
    store.sync().unwrap();
    store.close().unwrap();
    pack(dir, archive);
}

#[test]
fn copies_of_a_golden_store_share_frames() {
    let Golden { dir, store } = golden("shared", tiers_config, write_shared);
    assert!(objects(&store) == shared_contents(), "{:?}", objects(&store).keys());
    unlike(&store);
    assert_eq!(store.catalog().miscounted_frames().unwrap(), []);
    let mut owners = Vec::new();
    store.catalog().each_shared_frame(|_, frame| owners.push(frame.owners)).unwrap();
    owners.sort_unstable();
    assert!(owners.len() > 2 && owners[0] == 1 && owners.ends_with(&[3]), "{owners:?}");
    store.close().unwrap();
    let home = dir.path().join("store");
    fs::remove_dir_all(home.join("catalog")).unwrap();
    assert!(objects(&Store::rebuild(&home).unwrap()) == shared_contents());
}

/// The parts of the upload that is in progress, and the object of the completed one.
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

fn origin_config(dir: &Path) -> String {
    let disk = common::tier(dir, "disk", &["a"], "");
    let url = dir.join("origin").display().to_string();
    format!("{disk}[[origin]]\nprefix = 'o'\nnumber = 1\nurl = '{url}'\nmax_age = '12h'\n")
}

fn write_origin(dir: &Path, mut config: Config, archive: &Path) {
    let origin = dir.join("origin");
    fs::create_dir_all(origin.join("folder")).unwrap();
    for (name, seed) in [("stored", 1), ("dropped", 2), ("folder/unread", 3)] {
        fs::write(origin.join(name), repeated(400_000, seed)).unwrap();
    }
    config.origins.clear();
    let store = Store::init(&dir.join("store"), &config).unwrap();
    store.add_origin("o", origin.to_str().unwrap(), BTreeMap::new(), None).unwrap();
    assert_eq!(store.list(b"o", None, 100).unwrap().len(), 5);
    store.get(b"o/stored").unwrap();
    store.get(b"o/dropped").unwrap();
    store.evict(b"o/dropped", "disk").unwrap();
    store.close().unwrap();
    fs::remove_dir_all(origin).unwrap();
    pack(dir, archive);
}

/// The origin is not there any more. Its names are, and the bytes that were read and not dropped.
#[test]
fn files_of_an_origin_of_a_golden_store_are_shown_and_read() {
    let Golden { dir, store } = golden("origin", origin_config, write_origin);
    let check = |store: &Store| {
        let keys: Vec<Vec<u8>> = store.list(b"o", None, 100).unwrap().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [&b"o"[..], b"o/dropped", b"o/folder", b"o/folder/unread", b"o/stored"]);
        assert!(store.get(b"o/stored").unwrap() == repeated(400_000, 1));
        for key in [&b"o/dropped"[..], b"o/folder/unread"] {
            assert_eq!(store.stat(key).unwrap().length, 400_000);
            assert!(matches!(store.get(key), Err(terrace::Error::Origin { .. })));
        }
    };
    check(&store);
    store.close().unwrap();
    check(&Store::rebuild(&dir.path().join("store")).unwrap());
}

fn upload_contents() -> (Vec<u8>, [(u32, Vec<u8>); 2]) {
    let whole = [repeated(1_300_007, 1), repeated(5, 2), repeated(700_000, 3)].concat();
    (whole, [(1, repeated(1_100_000, 4)), (10_000, repeated(9, 5))])
}

fn write_uploads(dir: &Path, config: Config, archive: &Path) {
    let store = Store::init(&dir.join("store"), &config).unwrap();
    let put = |upload, number, bytes: &[u8]| {
        let describe = |attributes: &mut terrace::Attributes| attributes.set_digest("crc32c", "of the part");
        let part = store.put_part(upload, number, bytes, &replicated(), describe).unwrap();
        (part.number, part.object.etag())
    };
    let completed = store.begin_upload(b"whole", &PutOptions::default(), None).unwrap();
    let parts = [(1, 1_300_007, 1), (2, 5, 2), (7, 700_000, 3)];
    let parts = parts.map(|(number, length, seed)| put(completed, number, &repeated(length, seed)));
    store.complete_upload(completed, &parts, &replicated(), |all| all.set_digest("etag", "of the whole-3")).unwrap();
    let options = PutOptions { replicas: Some(1), ..PutOptions::default() };
    let begun = store.begin_upload(b"a\xff/b", &options, Some(u64::MAX)).unwrap();
    for (number, bytes) in upload_contents().1 {
        put(begun, number, &bytes);
    }
    store.sync().unwrap();
    store.close().unwrap();
    pack(dir, archive);
}

#[test]
fn uploads_of_a_golden_store_are_completed() {
    let Golden { dir, store } = golden("uploads", tiers_config, write_uploads);
    let (whole, parts) = upload_contents();
    let read = |store: &Store| {
        assert!(store.get(b"whole").unwrap() == whole);
        assert_eq!(store.stat(b"whole").unwrap().etag(), "of the whole-3");
        let uploads = store.list_uploads(b"").unwrap();
        assert_eq!(uploads.iter().map(|upload| upload.key.as_slice()).collect::<Vec<_>>(), [b"a\xff/b"]);
        assert_eq!(uploads[0].expiry, Some(u64::MAX));
        let found = store.list_parts(uploads[0].id, None, 10).unwrap();
        assert_eq!(
            found.iter().map(|part| part.number).collect::<Vec<_>>(),
            parts.each_ref().map(|(number, _)| *number)
        );
        assert!(found.iter().all(|part| part.object.attributes.digest("crc32c") == Some("of the part")));
        (uploads[0].id, found.iter().map(|part| (part.number, part.object.etag())).collect::<Vec<_>>())
    };
    let (upload, named) = read(&store);
    assert_eq!(store.catalog().miscounted_frames().unwrap(), []);
    unlike(&store);
    store.close().unwrap();
    let home = dir.path().join("store");
    fs::remove_dir_all(home.join("catalog")).unwrap();
    let store = Store::rebuild(&home).unwrap();
    assert_eq!(read(&store), (upload, named.clone()));
    let object = store.complete_upload(upload, &named, &replicated(), |_| ()).unwrap();
    assert_eq!(object.want, 1);
    assert!(store.get(b"a\xff/b").unwrap() == parts.map(|(_, bytes)| bytes).concat());
}

#[cfg(feature = "services-fs")]
mod bucket {
    use terrace::RebuildFrom;
    use terrace::tier::TargetSettings;

    use super::*;

    fn config(dir: &Path) -> String {
        let bucket = format!("kind = 'object'\nservice = 'fs'\ntargets = ['{}/bucket']", dir.display());
        let disk = common::tier(dir, "disk", &["a"], "");
        format!("[store]\nreplicas = {{ default = 2 }}\n{disk}[[tier]]\nname = 'bucket'\n{bucket}\n")
    }

    fn contents() -> BTreeMap<String, Vec<u8>> {
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
}
