//! Power cuts: all short workloads, and random long ones, run on a disk that loses, reorders and tears unsynced bytes, including
//! LMDB's pages and the boot mark. Only the boot id is simulated: it changes after each power cut. Closing the store is one of the
//! operations. Some power cuts happen during the recovery from another. `TERRACE_POWER` is the share that is run, in thousandths
//! (`make soak`: 1000), and `TERRACE_SEED` repeats a run.

#![allow(clippy::unwrap_used, unsafe_code)]

#[path = "../common/mod.rs"]
mod common;
mod disk;
mod workload;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use disk::{Loss, Progress};
use terrace::{Config, Object, PutOptions, Store};
use terrace_testkit::Random;
use workload::{ALL_KINDS, Kind, Model, Operation, Outcome, apply, crowded_operation, is_durable, operation, run};

/// About how many calls an operation makes that change files.
const CALLS_OF_OPERATION: u64 = 40;
/// The same of a recovery.
const CALLS_OF_RECOVERY: u64 = 100;

/// Small targets are full soon: what is in memory waits for room then.
fn config(root: &Path, layout: &str, is_small: bool) -> Config {
    let capacity = |size: &str| if is_small { format!("capacity = '{size}'\n") } else { String::new() };
    let (memory, disk) = (capacity("400KiB"), capacity("160KiB"));
    let d = root.display();
    let text = format!(
        "[store]\nreplicas = {{ default = 2 }}\n\
         [[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{d}/ram']\npersistent = false\n{memory}\
         [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{d}/a', '{d}/b']\nlayout = '{layout}'\n{disk}"
    );
    Config::parse(&text, "test").unwrap()
}

fn contents(store: &Store) -> terrace::Result<Model> {
    // The power may have gone before they were removed, or the removal may be lost.
    store.remove_expired(usize::MAX)?;
    let objects = store.list(b"", None, 100)?.into_iter();
    // Parts of uploads, too, have their bytes.
    let read = |(key, object): (Vec<u8>, Object)| {
        let bytes = store.get(&key)?;
        common::check_digest(&object, &bytes);
        Ok((key, bytes))
    };
    let all: terrace::Result<Model> = objects.map(read).collect();
    let mut all = all?;
    all.retain(|key, _| !terrace::key::below(key, terrace::key::RESERVED_FOLDER));
    Ok(all)
}

/// Whether the store holds all up to the last sync, what was durable of later operations, and any of the others.
fn explained(found: &Model, operations: &[Operation], outcomes: &[Outcome], loss: &Loss) -> bool {
    let mut plain = Model::new();
    let Progress { begun, returned, synced } = loss.progress;
    let happened = |index: &usize| outcomes[*index] != Outcome::Refused;
    (0..synced).filter(happened).for_each(|index| apply(&mut plain, &operations[index]));
    let changes = |index: &usize| operations[*index].kind.changes();
    let later: Vec<usize> = (synced..begun).filter(changes).filter(happened).collect();
    let is_durable = |index: usize| outcomes[index] == Outcome::Done && is_durable(&operations[index]);
    (0u64..1 << later.len()).any(|subset| {
        let mut model = plain.clone();
        for (bit, &index) in later.iter().enumerate() {
            if subset >> bit & 1 == 1 || index < returned && is_durable(index) {
                apply(&mut model, &operations[index]);
            }
        }
        model == *found
    })
}

/// An object's plain file. A name whose file is gone from the folder of their numbers is anybody's, and stays until a new
/// file takes it; an object's old and new key may be such names of one file.
fn plain_file(root: &Path, key: &[u8]) -> Option<Vec<u8>> {
    let is_numbered = |target: &Path, inode: u64| {
        let numbered = fs::read_dir(target.join("plain")).into_iter().flatten();
        numbered.into_iter().any(|entry| entry.unwrap().metadata().unwrap().ino() == inode)
    };
    let named = ["a", "b"].into_iter().find_map(|target| {
        let target = root.join(target);
        let name = target.join("files").join(str::from_utf8(key).unwrap());
        let inode = fs::metadata(&name).ok()?.ino();
        is_numbered(&target, inode).then_some(name)
    });
    named.map(|name| fs::read(name).unwrap())
}

/// The machine is started, and knows it.
fn boot(number: &mut u64) {
    *number += 1;
    // SAFETY: no store is open, so no other thread of this process reads the environment.
    unsafe { std::env::set_var("TERRACE_BOOT_ID", format!("boot {number}")) };
}

/// A workload that lost power.
struct Case<'a> {
    root: &'a Path,
    operations: &'a [Operation],
    outcomes: &'a [Outcome],
    plain: bool,
    loss: &'a Loss,
}

impl Case<'_> {
    fn home(&self) -> PathBuf {
        self.root.join("store")
    }

    fn at(&self) -> String {
        shorten(&format!("call {}, {:?}, after {:?}", self.loss.call, self.loss.progress, self.operations))
    }

    /// Puts what this loss may leave onto the disk. What lies in memory is gone.
    fn restore(&self, loss: &Loss, boots: &mut u64, random: &mut Random) {
        fs::remove_dir_all(self.root).unwrap();
        loss.restore(self.root, &mut |n| random.below(n));
        let _ = fs::remove_dir_all(self.root.join("ram"));
        boot(boots);
    }

    /// Opens the store and reads all that it holds.
    fn read(&self) -> (Store, Model) {
        let store = Store::open(&self.home()).map_err(|e| format!("{e}: {}", self.at())).unwrap();
        let found = contents(&store).map_err(|e| format!("{e}: {}", self.at())).unwrap();
        let held = lengths(&found);
        assert!(explained(&found, self.operations, self.outcomes, self.loss), "found {held:?}: {}", self.at());
        (store, found)
    }

    /// The power goes again while the store recovers, a few times.
    fn lose_again(&self, moments: u64, boots: &mut u64, random: &mut Random) -> u64 {
        disk::watch(self.root, (0..moments).map(|_| 1 + random.below(CALLS_OF_RECOVERY)).collect());
        drop(self.read());
        let losses = disk::end();
        for loss in &losses {
            self.restore(loss, boots, random);
            self.go_on();
        }
        losses.len() as u64
    }

    /// Checks that everything that must be there is, and that the store works.
    fn go_on(&self) {
        let (store, found) = self.read();
        let one = PutOptions { replicas: Some(1), ..PutOptions::default() };
        store.put_bytes(b"after", b"the power is back", &one).map_err(|e| format!("{e}: {}", self.at())).unwrap();
        match store.sync() {
            // There may be no room for all replicas.
            Err(terrace::Error::StillOwed { .. }) if self.operations.iter().all(|operation| operation.crowded) => {}
            synced => synced.map_err(|e| format!("{e}, with {:?}: {}", lengths(&found), self.at())).unwrap(),
        }
        // Replicas in memory are gone, which the catalog does not know where it was closed in time.
        let repaired = store.scrub(b"", true, None, |_| {}).unwrap();
        assert_eq!(repaired.lost, 0, "{}", self.at());
        let scrubbed = store.scrub(b"", false, None, |_| {}).unwrap();
        assert_eq!((scrubbed.bad, scrubbed.lost), (0, 0), "{}", self.at());
        assert_eq!(store.catalog().miscounted_frames().unwrap(), [], "{}", self.at());
        // Opened again, nothing happens in the background.
        drop(store);
        let dump = Store::open(&self.home()).unwrap().catalog().dump().unwrap();
        let differing = common::differing(&dump, &Store::rebuild(&self.home()).unwrap().catalog().dump().unwrap());
        assert!(differing.is_empty(), "{differing}: {}", self.at());
        // Names of plain files are not synced: they are put right when the catalog is made from the log.
        // Zeros alone may be a hole, which has no file.
        for (key, bytes) in found.iter().filter(|(_, bytes)| self.plain && bytes.iter().any(|&byte| byte != 0)) {
            let file = plain_file(self.root, key);
            let held = file.as_ref().map(Vec::len);
            assert!(file.as_ref() == Some(bytes), "a file of {held:?} bytes, {:?}: {}", lengths(&found), self.at());
        }
        for key in [b"a", b"b"].map(|key| key.as_slice()).into_iter().filter(|key| !found.contains_key(*key)) {
            assert_eq!(plain_file(self.root, key), None, "{:?}: {}", lengths(&found), self.at());
        }
    }
}

fn lengths(found: &Model) -> Vec<(char, usize)> {
    found.iter().map(|(key, bytes)| (key[0] as char, bytes.len())).collect()
}

/// Runs a workload once, loses the power at a few moments of it, and looks at what is found each time.
fn try_out(root: &Path, operations: &mut [Operation], moments: u64, boots: &mut u64, random: &mut Random) -> u64 {
    let _ = fs::remove_dir_all(root);
    fs::create_dir_all(root).unwrap();
    boot(boots);
    let home = root.join("store");
    let plain = random.below(2) == 0;
    let is_small = operations.iter().all(|operation| operation.crowded);
    // Elsewhere there is room, and a machine that is busy for a moment must not end a wait.
    let patience = if is_small { "300" } else { "30000" };
    // SAFETY: no store is open, so no other thread of this process reads the environment.
    unsafe { std::env::set_var("TERRACE_NO_SPACE_MILLISECONDS", patience) };
    let plain = plain && !is_small;
    let config = config(root, if plain { "plain" } else { "frames" }, is_small);
    let mut store = Some(Store::init(&home, &config).unwrap());
    let mut outcomes = vec![Outcome::Done; operations.len()];
    disk::watch(root, (0..moments).map(|_| 1 + random.below(CALLS_OF_OPERATION * operations.len() as u64)).collect());
    let mut model = Model::new();
    for (index, operation) in operations.iter_mut().enumerate() {
        operation.note_copied(&model);
        disk::progress(|p| p.begun = index + 1);
        outcomes[index] = run(&mut store, &home, operation);
        if outcomes[index] != Outcome::Refused {
            apply(&mut model, operation);
        }
        assert!(is_small || outcomes[index] == Outcome::Done, "{:?}: {operation:?}", outcomes[index]);
        disk::progress(|p| {
            p.returned = index + 1;
            if operation.kind == Kind::Sync && outcomes[index] == Outcome::Done {
                p.synced = index + 1;
            }
        });
    }
    // The last moment is when all is closed.
    drop(store);
    let losses = disk::end();
    let mut count = losses.len() as u64;
    for loss in &losses {
        let case = Case { root, operations, outcomes: &outcomes, plain, loss };
        case.restore(loss, boots, random);
        if random.below(4) == 0 {
            count += case.lose_again(2, boots, random);
        } else {
            case.go_on();
        }
    }
    count
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
    let share = setting("TERRACE_POWER", 5);
    let seed = setting("TERRACE_SEED", 1);
    let memory = Path::new("/dev/shm");
    let folder = tempfile::tempdir_in(if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }).unwrap();
    let root: PathBuf = folder.path().join("disk");
    let mut random = Random::new(seed);
    let (mut short, mut long, mut crowded, mut losses, mut boots) = (0, 0, 0, 0, 0);
    for _ in 0..share.max(10) {
        losses += rename_there_and_back(&root, &mut boots, &mut random);
    }
    let mut left: Vec<Vec<Kind>> = ALL_KINDS.iter().map(|kind| vec![*kind]).collect();
    while let Some(kinds) = left.pop() {
        if kinds.len() < 3 {
            left.extend(ALL_KINDS.iter().map(|kind| kinds.iter().chain([kind]).copied().collect()));
        }
        // There is something to lose from the beginning.
        let kinds = [&[Kind::Put, Kind::Sync], kinds.as_slice()].concat();
        for _ in 0..10 {
            if random.below(1000) < share {
                let mut operations: Vec<Operation> = kinds.iter().map(|kind| operation(*kind, &mut random)).collect();
                losses += try_out(&root, &mut operations, 3, &mut boots, &mut random);
                short += 1;
            }
        }
    }
    while long < share {
        let (mut operations, mut since) = (Vec::new(), 0);
        for _ in 0..10 + random.below(40) {
            // What is not durable stays few enough to try every subset.
            let kind = if since == 8 { Kind::Sync } else { ALL_KINDS[random.below(ALL_KINDS.len() as u64) as usize] };
            let next = operation(kind, &mut random);
            since = if next.kind == Kind::Sync { 0 } else { since + 1 };
            operations.push(next);
        }
        losses += try_out(&root, &mut operations, 10, &mut boots, &mut random);
        long += 1;
    }
    for _ in 0..share {
        let mut operations: Vec<Operation> = (0..14).map(|_| crowded_operation(&mut random)).collect();
        losses += try_out(&root, &mut operations, 4, &mut boots, &mut random);
        crowded += 1;
    }
    println!(
        "{losses} losses of power in {short} short, {long} long and {crowded} crowded workloads: what was durable was there"
    );
}

/// The mover looked for the object of a pending replica under its old key, found none, and forgot the replica when the object had its old
/// key again. A later durable write said that all of the object is durable.
fn rename_there_and_back(root: &Path, boots: &mut u64, random: &mut Random) -> u64 {
    let mut operations = [Kind::Put, Kind::Rename, Kind::Rename, Kind::Write].map(|kind| operation(kind, random));
    for (operation, [key, other]) in operations.iter_mut().zip([[b'b', b'b'], [b'b', b'a'], [b'a', b'b'], [b'b', b'b']])
    {
        (operation.key, operation.other, operation.durable) = (vec![key], vec![other], false);
    }
    operations[0].bytes = vec![7; 1_200_000];
    (operations[3].bytes, operations[3].durable) = (vec![9; 90_000], true);
    try_out(root, &mut operations, 20, boots, random)
}
