//! Shared by many tests: incompressible bytes, tiers in a folder, options.

// Each test file is a program of its own, and uses some of these.
#![allow(dead_code, clippy::unwrap_used)]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

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
