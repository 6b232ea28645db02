//! Power losses: short workloads, all of them, and long ones at random run on a disk that loses, reorders and tears
//! what was not synced. `TERRACE_POWER` is the share that is run, in percent (`make soak`: 100); `TERRACE_SEED` repeats a run.

#![allow(clippy::unwrap_used, unsafe_code)]

#[path = "../common/mod.rs"]
mod common;
mod disk;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use disk::{Loss, Progress};
use terrace::{Ack, Config, PutOptions, Store};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Put,
    Write,
    Cut,
    Clear,
    Remove,
    Rename,
    Sync,
    Evict,
    Compact,
}

const KINDS: [Kind; 9] = [
    Kind::Put,
    Kind::Write,
    Kind::Cut,
    Kind::Clear,
    Kind::Remove,
    Kind::Rename,
    Kind::Sync,
    Kind::Evict,
    Kind::Compact,
];

#[derive(Clone, Debug)]
struct Operation {
    kind: Kind,
    key: Vec<u8>,
    other: Vec<u8>,
    at: u64,
    bytes: Vec<u8>,
    durable: bool,
}

fn operation(kind: Kind, random: &mut Random) -> Operation {
    let key = |random: &mut Random| vec![b'a' + random.below(2) as u8];
    let length = [0, 100, 5_000, 40_000, 90_000, 1_200_000][random.below(6) as usize];
    let (flat, start) = (random.below(2) == 0, random.below(250) as u32);
    let byte = |i: u32| if flat { (start + i / 97) as u8 } else { (i.wrapping_mul(i) >> 7) as u8 ^ start as u8 };
    Operation {
        kind,
        key: key(random),
        other: key(random),
        at: random.below(60_000),
        bytes: (0..length).map(byte).collect(),
        durable: random.below(4) == 0,
    }
}

fn run(store: &Store, operation: &Operation) {
    let ack = if operation.durable { Ack::Durable } else { Ack::Placed };
    let options = PutOptions { ack: Some(ack), ..PutOptions::default() };
    let Operation { key, other, at, bytes, .. } = operation;
    let done = match operation.kind {
        Kind::Put => store.put_bytes(key, bytes, &options).map(|_| ()),
        Kind::Write => store.write_at(key, *at, bytes, &options).map(|_| ()),
        Kind::Cut => store.set_length(key, *at),
        Kind::Clear => common::clear(store, key, *at, bytes.len() as u64),
        Kind::Remove => store.remove(key),
        Kind::Rename => store.rename(key, other),
        Kind::Sync => store.sync(),
        Kind::Evict => store.evict(b"", "ram").map(|_| ()),
        Kind::Compact => store.compact(),
    };
    match done {
        Ok(()) | Err(terrace::Error::NotFound { .. }) => {}
        Err(e) => std::panic::resume_unwind(Box::new(format!("{operation:?}: {e}"))),
    }
}

/// Whether it survives, once it has returned, whatever becomes of what came before.
fn is_durable(operation: &Operation) -> bool {
    match operation.kind {
        Kind::Put => operation.durable,
        // A write of no bytes waits for nothing.
        Kind::Write => operation.durable && !operation.bytes.is_empty(),
        _ => false,
    }
}

/// The slow, obvious store.
fn apply(model: &mut Model, operation: &Operation) {
    let Operation { key, other, at, bytes, .. } = operation;
    match operation.kind {
        Kind::Put => {
            model.insert(key.clone(), bytes.clone());
        }
        Kind::Write => {
            let file = model.entry(key.clone()).or_default();
            if !bytes.is_empty() {
                let (start, end) = (*at as usize, *at as usize + bytes.len());
                file.resize(file.len().max(end), 0);
                file[start..end].copy_from_slice(bytes);
            }
        }
        Kind::Cut => {
            if let Some(file) = model.get_mut(key) {
                file.resize(*at as usize, 0);
            }
        }
        Kind::Clear => {
            if let Some(file) = model.get_mut(key) {
                common::clear_in(file, *at, bytes.len() as u64);
            }
        }
        Kind::Remove => {
            model.remove(key);
        }
        Kind::Rename => {
            if let Some(bytes) = model.remove(key) {
                model.insert(other.clone(), bytes);
            }
        }
        Kind::Sync | Kind::Evict | Kind::Compact => {}
    }
}

fn config(root: &Path, layout: &str) -> Config {
    let d = root.display();
    let text = format!(
        "[store]\nreplicas = {{ default = 2 }}\n\
         [[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{d}/ram']\npersistent = false\n\
         [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{d}/a', '{d}/b']\nlayout = '{layout}'\n"
    );
    Config::parse(&text, "test").unwrap()
}

fn contents(store: &Store) -> terrace::Result<Model> {
    let objects = store.list(b"", None, 100)?.into_iter();
    objects.map(|(key, _)| Ok((key.clone(), store.get(&key)?))).collect()
}

/// Whether the store holds all up to the last sync, what was durable of later operations, and any of the others.
fn explained(found: &Model, operations: &[Operation], loss: &Loss) -> bool {
    let mut plain = Model::new();
    let Progress { begun, returned, synced } = loss.progress;
    operations[..synced].iter().for_each(|operation| apply(&mut plain, operation));
    let later: Vec<usize> = (synced..begun)
        .filter(|&index| !matches!(operations[index].kind, Kind::Sync | Kind::Evict | Kind::Compact))
        .collect();
    (0u64..1 << later.len()).any(|subset| {
        let mut model = plain.clone();
        for (bit, &index) in later.iter().enumerate() {
            if subset >> bit & 1 == 1 || index < returned && is_durable(&operations[index]) {
                apply(&mut model, &operations[index]);
            }
        }
        model == *found
    })
}

/// An object's plain file. A name whose file is gone from the folder of their numbers is anybody's, and stays until a new
/// file takes it.
fn plain_file(root: &Path, key: &[u8]) -> Option<Vec<u8>> {
    let names = ["a", "b"].map(|target| root.join(target).join("files").join(str::from_utf8(key).unwrap()));
    let ours = |name: &&PathBuf| fs::metadata(name).is_ok_and(|metadata| metadata.nlink() > 1);
    names.iter().find(ours).map(|name| fs::read(name).unwrap())
}

/// Runs a workload once, loses the power at a few moments of it, and looks at what is found each time.
fn try_out(root: &Path, operations: &[Operation], moments: u64, random: &mut Random) -> u64 {
    let _ = fs::remove_dir_all(root);
    fs::create_dir_all(root).unwrap();
    let home = root.join("store");
    let plain = random.below(2) == 0;
    let store = Store::init(&home, &config(root, if plain { "plain" } else { "frames" })).unwrap();
    // About how many calls are watched.
    let fail_at: BTreeSet<u64> = (0..moments).map(|_| 1 + random.below(12 * operations.len() as u64)).collect();
    disk::watch(root, fail_at);
    for (index, operation) in operations.iter().enumerate() {
        disk::progress(|p| p.begun = index + 1);
        run(&store, operation);
        disk::progress(|p| {
            p.returned = index + 1;
            if operation.kind == Kind::Sync {
                p.synced = index + 1;
            }
        });
    }
    let losses = disk::end();
    drop(store);
    for loss in &losses {
        fs::remove_dir_all(root).unwrap();
        loss.restore(root, &mut |n| random.below(n));
        // What lies in memory is gone, and the machine knows that it was started again.
        let _ = fs::remove_dir_all(root.join("ram"));
        fs::write(home.join("boot"), "another boot").unwrap();
        let at = || format!("call {}, {:?}, after {operations:?}", loss.call, loss.progress);
        let store = Store::open(&home).map_err(|e| format!("{e}: {}", at())).unwrap();
        let found = contents(&store).map_err(|e| format!("{e}: {}", shorten(&at()))).unwrap();
        let lengths = || found.iter().map(|(key, bytes)| (key[0] as char, bytes.len())).collect::<Vec<_>>();
        assert!(explained(&found, operations, loss), "found {:?}: {}", lengths(), shorten(&at()));
        // It goes on as a store.
        store.put_bytes(b"after", b"the power is back", &PutOptions::default()).unwrap();
        let synced = store.sync().map_err(|e| format!("{e}, with {:?}: {}", lengths(), shorten(&at())));
        synced.unwrap();
        let scrubbed = store.scrub(b"", false, None, |_| {}).unwrap();
        assert_eq!((scrubbed.bad, scrubbed.lost), (0, 0), "{}", shorten(&at()));
        // Zeros alone may be a hole, which has no file.
        for (key, bytes) in found.iter().filter(|(_, bytes)| plain && bytes.iter().any(|&byte| byte != 0)) {
            let file = plain_file(root, key);
            let held = file.as_ref().map(Vec::len);
            assert!(file.as_ref() == Some(bytes), "a file of {held:?} bytes, {:?}: {}", lengths(), shorten(&at()));
        }
        for key in [b"a", b"b"].map(|key| key.as_slice()).into_iter().filter(|key| !found.contains_key(*key)) {
            assert_eq!(plain_file(root, key), None, "{:?}: {}", lengths(), shorten(&at()));
        }
        // Opened anew, nothing happens in the background.
        drop(store);
        let dump = Store::open(&home).unwrap().catalog().dump().unwrap();
        let differing = common::differing(&dump, &Store::rebuild(&home).unwrap().catalog().dump().unwrap());
        assert!(differing.is_empty(), "{differing}: {}", shorten(&at()));
    }
    losses.len() as u64
}

/// Without the bytes that operations carry.
fn shorten(text: &str) -> String {
    let mut out = String::new();
    for (index, part) in text.split("bytes: [").enumerate() {
        if index > 0 {
            let (bytes, rest) = part.split_once(']').unwrap_or((part, ""));
            out += &format!("{} bytes", bytes.split(',').count());
            out += rest;
        } else {
            out += part;
        }
    }
    out
}

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

#[test]
fn what_was_durable_survives_the_loss_of_power() {
    // SAFETY: no other thread runs yet that could read the environment. Small, so that short workloads meet them, too.
    unsafe {
        std::env::set_var("TERRACE_LOG_FILE", "4096");
        std::env::set_var("TERRACE_STAGE_BYTES", "1000000");
    }
    let share = setting("TERRACE_POWER", 10);
    let seed = setting("TERRACE_SEED", 1);
    let memory = Path::new("/dev/shm");
    let folder = tempfile::tempdir_in(if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }).unwrap();
    let root: PathBuf = folder.path().join("disk");
    let mut random = Random(seed);
    let (mut short, mut long, mut losses) = (0, 0, 0);
    let mut left: Vec<Vec<Kind>> = KINDS.iter().map(|kind| vec![*kind]).collect();
    while let Some(kinds) = left.pop() {
        if kinds.len() < 3 {
            left.extend(KINDS.iter().map(|kind| kinds.iter().chain([kind]).copied().collect()));
        }
        // There is something to lose from the beginning.
        let kinds = [&[Kind::Put, Kind::Sync], kinds.as_slice()].concat();
        for _ in 0..10 {
            let operations: Vec<Operation> = kinds.iter().map(|kind| operation(*kind, &mut random)).collect();
            if random.below(100) < share {
                losses += try_out(&root, &operations, 3, &mut random);
                short += 1;
            }
        }
    }
    while long < 3 * share {
        let (mut operations, mut since) = (Vec::new(), 0);
        for _ in 0..10 + random.below(40) {
            // What is not durable stays few enough to try every subset.
            let kind = if since == 8 { Kind::Sync } else { KINDS[random.below(KINDS.len() as u64) as usize] };
            let next = operation(kind, &mut random);
            since = if next.kind == Kind::Sync { 0 } else { since + 1 };
            operations.push(next);
        }
        losses += try_out(&root, &operations, 10, &mut random);
        long += 1;
    }
    println!("{losses} losses of power in {short} short and {long} long workloads: what was durable was there");
}
