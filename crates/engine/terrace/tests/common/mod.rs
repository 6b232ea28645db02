//! Shared by many tests: incompressible bytes, tiers in a folder, options.

// Each test file is a program of its own, and uses some of these.
#![allow(dead_code, clippy::unwrap_used)]

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;
use std::process::Command;

use terrace::files::{FileError, Files};
use terrace::{Ack, Attributes, Config, ETAG_DIGEST, Object, PutOptions, Store};

/// The records of a catalog that are in one of two dumps only.
pub fn differing(before: &[(Vec<u8>, Vec<u8>)], after: &[(Vec<u8>, Vec<u8>)]) -> String {
    let only = |of: &[(Vec<u8>, Vec<u8>)], other: &[(Vec<u8>, Vec<u8>)]| {
        let records = of.iter().filter(|record| !other.contains(record));
        records.map(|(key, value)| format!("{:?} {key:?} {value:?}", char::from(key[0]))).collect::<Vec<_>>()
    };
    let (missing, added) = (only(before, after), only(after, before));
    if missing.is_empty() && added.is_empty() { String::new() } else { format!("without {missing:?}, with {added:?}") }
}

/// Returns when all replicas are there.
pub fn replicated() -> PutOptions {
    PutOptions { ack: Some(Ack::Replicated), ..PutOptions::default() }
}

/// Returns as soon as one replica is there: in memory, where the first tier is.
pub fn in_memory() -> PutOptions {
    PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() }
}

/// The digest that [`described`] gives to bytes.
fn digest_of(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish().to_string()
}

/// Attributes with a digest of `bytes` and an expiry time, in nanoseconds since 1970.
pub fn described(bytes: &[u8], expiry: Option<u64>) -> Attributes {
    let mut attributes = Attributes::now();
    attributes.set_digest(ETAG_DIGEST, &digest_of(bytes));
    attributes.set_expiry(expiry);
    attributes
}

/// Checks that an object has the digest of its bytes, or none.
pub fn check_digest(object: &Object, bytes: &[u8]) {
    let digest = object.attributes.digest(ETAG_DIGEST);
    assert!(digest.is_none_or(|digest| digest == digest_of(bytes)), "{object:?}: the digest is that of other bytes");
}

/// One tier of directories below `dir`; `more` are further lines of it.
pub fn tier(dir: &Path, name: &str, folders: &[&str], more: &str) -> String {
    let targets: Vec<String> = folders.iter().map(|folder| format!("'{}'", dir.join(folder).display())).collect();
    format!("[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = [{}]\n{more}\n", targets.join(", "))
}

/// Runs a program of the system, such as `mount`.
pub fn run(program: &str, arguments: &[&str], paths: &[&Path]) -> io::Result<()> {
    let output = Command::new(program).args(arguments).args(paths).output()?;
    let said = || format!("{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(()) } else { Err(io::Error::other(said())) }
}

/// A store in `dir`, of two replicas where nothing else is asked for, with these tiers.
pub fn store_of(dir: &Path, tiers: &[String]) -> Store {
    let text = format!("[store]\nreplicas = {{ default = 2 }}\n{}", tiers.concat());
    Store::init(&dir.join("store"), &Config::parse(&text, "test").unwrap()).unwrap()
}

/// A store with memory (one target) above a disk (two).
pub fn new_store(dir: &Path) -> Store {
    store_of(dir, &[tier(dir, "ram", &["ram"], "persistent = false"), tier(dir, "disk", &["a", "b"], "")])
}

/// Makes a hole in an object, as a file; nothing where there is no such object.
pub fn clear(store: &Store, key: &[u8], at: u64, length: u64) -> terrace::Result<()> {
    let cleared = Files::new(store).and_then(|files| files.open(key)?.clear(at, length));
    match cleared {
        Err(FileError::NotFound(_)) => Ok(()),
        Err(FileError::Engine(error)) => Err(error),
        cleared => {
            cleared.unwrap();
            Ok(())
        }
    }
}

/// The same in a file of a slow, obvious store.
pub fn clear_in(file: &mut [u8], at: u64, length: u64) {
    let end = file.len().min((at + length) as usize);
    if let Some(hole) = file.get_mut(at as usize..end) {
        hole.fill(0);
    }
}

/// Bytes on all targets.
pub fn used(store: &Store) -> u64 {
    store.status().unwrap().tiers.iter().map(|tier| tier.used).sum()
}

/// Frames that objects name, on all targets.
pub fn live(store: &Store) -> u64 {
    let segments = (0..4).flat_map(|target| store.catalog().segments(target).unwrap());
    segments.map(|(_, live)| live.frames).sum()
}

pub fn shared_frames(store: &Store) -> usize {
    let mut count = 0;
    store.catalog().each_shared_frame(|_, _| count += 1).unwrap();
    count
}

/// Nothing is lost, every owner is counted, and a catalog from the log is the same.
pub fn check_and_rebuild(store: Store, dir: &Path) -> Store {
    store.sync().unwrap();
    let scrubbed = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((scrubbed.bad, scrubbed.lost, scrubbed.away), (0, 0, 0));
    assert_eq!(store.catalog().miscounted_frames().unwrap(), []);
    store.close().unwrap();
    let home = dir.join("store");
    let before = Store::open(&home).unwrap().catalog().dump().unwrap();
    let store = Store::rebuild(&home).unwrap();
    let differing = differing(&before, &store.catalog().dump().unwrap());
    assert!(differing.is_empty(), "{differing}");
    store
}

/// Keeps the background thread from moving anything.
pub fn hold_mover(dir: &Path) -> File {
    let mover = File::options().write(true).open(dir.join("store/mover")).unwrap();
    mover.lock().unwrap();
    mover
}

pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// Cuts the power of a store as [`new_store`] makes one: what is in memory is gone, and the catalog is made from the log. `damage`
/// may take more from the folder that is left.
pub fn lose_power(dir: &Path, store: Store, mover: File, damage: impl FnOnce(&Path)) -> Store {
    let left = tempfile::tempdir().unwrap();
    for part in ["store", "a", "b"] {
        copy_folder(&dir.join(part), &left.path().join(part));
    }
    damage(left.path());
    drop(mover);
    drop(store);
    for part in ["store", "a", "b", "ram"] {
        fs::remove_dir_all(dir.join(part)).unwrap();
    }
    copy_folder(left.path(), dir);
    let home = dir.join("store");
    fs::remove_dir_all(home.join("catalog")).unwrap();
    fs::write(home.join("boot"), "another boot").unwrap();
    Store::open(&home).unwrap()
}
