//! Keys of a store, below a prefix.

use std::collections::HashSet;
use std::io;

use rustix_futex_sync::Mutex;
use terrace::{Ack, ByteLocks, PutOptions, Store};
use xxhash_rust::xxh3::xxh3_64;

use super::part::part_name;
use super::{Destination, End, Outcome};
use crate::Failure;
use crate::entry::Position;
use crate::runs::Run;

/// The file of the locks, in the store's folder of streams.
const LOCKS_FILE: &str = "keys.turns";

/// Objects of a store. The store's rules for their keys decide how they are placed.
pub struct Keys {
    store: Store,
    prefix: Vec<u8>,
    /// Held while a key is locked or unlocked among processes, which does not wait. A leaf.
    begun: Mutex<Begun>,
}

/// Objects that are partly written. Each key is locked, so that no other stream writes to it before it is complete.
#[derive(Default)]
struct Begun {
    /// Opened for the first part.
    locks: Option<ByteLocks>,
    keys: HashSet<Vec<u8>>,
}

impl Keys {
    /// Writes objects whose keys are `prefix` and the name, separated by a `/` unless the prefix ends with one.
    pub fn new(store: &Store, prefix: &[u8]) -> Keys {
        let mut prefix = prefix.to_vec();
        if !prefix.is_empty() && !prefix.ends_with(b"/") {
            prefix.push(b'/');
        }
        Keys { store: store.clone(), prefix, begun: Mutex::default() }
    }

    /// Locks a key before its first part is written. False where another stream, or another process, writes to it.
    fn begin_parts(&self, key: &[u8]) -> io::Result<bool> {
        let mut begun = self.begun.lock(); // see the field
        if begun.keys.contains(key) {
            return Ok(true);
        }
        if begun.locks.is_none() {
            let folder = self.store.dir().join("streams");
            std::fs::create_dir_all(&folder)?;
            begun.locks = Some(ByteLocks::open(&folder.join(LOCKS_FILE))?);
        }
        let is_ours = begun.locks.as_ref().map_or(Ok(true), |locks| locks.try_lock(byte_of(key)))?;
        if is_ours {
            begun.keys.insert(key.to_vec());
        }
        Ok(is_ours)
    }

    fn end_parts(&self, key: &[u8]) {
        let mut begun = self.begun.lock();
        if begun.keys.remove(key)
            && let Some(locks) = &begun.locks
        {
            // If this fails, the key stays locked until this destination is dropped, and others report that they wait for it.
            let _ = locks.unlock(byte_of(key));
        }
    }

    fn key(&self, name: &[u8]) -> Vec<u8> {
        [&self.prefix, name].concat()
    }

    fn write_runs(&self, key: &[u8], runs: &[Run]) -> terrace::Result<()> {
        let ranges: Vec<(u64, &[u8])> = runs.iter().map(|run| (run.offset, run.bytes.as_ref())).collect();
        self.store.write_all_at(key, &ranges, &durable()).map(drop)
    }

    fn cut(&self, key: &[u8], length: u64) -> terrace::Result<()> {
        match self.store.set_length(key, length) {
            // The object does not exist: nothing was written to it.
            Err(terrace::Error::NotFound { .. }) => {
                self.store.put_bytes(key, b"", &PutOptions::default())?;
                self.store.set_length(key, length)
            }
            done => done,
        }
    }

    /// Writes the next part of a file: a whole file by one commit, others under a hidden key until they are complete.
    fn gather(&self, key: &[u8], runs: &[Run], end: Option<&End>) -> terrace::Result<()> {
        let part = part_name(key);
        let whole = match runs {
            [] => Some(&b""[..]),
            [run] if run.offset == 0 => Some(&run.bytes[..]),
            _ => None,
        };
        match (whole, end) {
            (Some(bytes), Some(end)) if bytes.len() as u64 == end.length => {
                let options = PutOptions { attributes: Some(end.attributes.clone()), ..durable() };
                self.store.put_bytes(key, bytes, &options)?;
                // A process that was killed may have left parts of an earlier file.
                match self.store.stat(&part) {
                    Err(terrace::Error::NotFound { .. }) => Ok(()),
                    found => found.and_then(|_| self.store.remove(&part)),
                }
            }
            (_, end) => {
                if !runs.is_empty() {
                    self.write_runs(&part, runs)?;
                }
                let Some(end) = end else { return Ok(()) };
                self.cut(&part, end.length)?;
                self.store.set_attributes(&part, end.attributes.clone())?;
                self.store.rename(&part, key)
            }
        }
    }
}

/// Writes to persistent targets directly: a copy in memory would have to be copied again to become durable.
fn durable() -> PutOptions {
    PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() }
}

/// The byte that stands for a key.
fn byte_of(key: &[u8]) -> i64 {
    (xxh3_64(key) >> 1) as i64
}

fn outcome<T>(done: terrace::Result<T>) -> Outcome<T> {
    done.map_err(|e| match e {
        // The key is a folder or invalid: a retry cannot help.
        terrace::Error::BadKey { .. }
        | terrace::Error::Reserved { .. }
        | terrace::Error::ReadOnlyOrigin { .. }
        | terrace::Error::TooLarge { .. }
        | terrace::Error::Conflict { .. } => Failure::Never(e.to_string()),
        e => Failure::Later(e.to_string()),
    })
}

impl Destination for Keys {
    fn describe(&self) -> String {
        format!("key:{}", terrace::key::show(&self.prefix))
    }

    fn length(&self, name: &[u8]) -> Outcome<Option<u64>> {
        match self.store.stat(&self.key(name)) {
            Ok(object) => Ok(Some(object.length)),
            Err(terrace::Error::NotFound { .. }) => Ok(Some(0)),
            Err(e) => outcome(Err(e)),
        }
    }

    fn write(&self, name: &[u8], _: Position, runs: &[Run]) -> Outcome<()> {
        outcome(self.write_runs(&self.key(name), runs))
    }

    fn write_part(&self, name: &[u8], runs: &[Run], end: Option<&End>) -> Outcome<()> {
        let key = self.key(name);
        let shown = || String::from_utf8_lossy(&key).into_owned();
        let begin = || match self.begin_parts(&key) {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(Failure::Later(format!("writing {}: another process or stream writes to it now", shown())))
            }
            Err(e) => Err(Failure::Later(format!("locking {}: {e}", shown()))),
        };
        let written = begin().and_then(|()| outcome(self.gather(&key, runs, end)));
        if end.is_some() || written.is_err() {
            self.end_parts(&key);
        }
        written
    }

    fn set_length(&self, name: &[u8], length: u64) -> Outcome<()> {
        outcome(self.cut(&self.key(name), length))
    }

    fn sync(&self, name: &[u8]) -> Outcome<()> {
        let key = self.key(name);
        // Incomplete files need no sync: after a crash they are written again from the first byte.
        if self.begun.lock().keys.contains(&key) {
            return Ok(());
        }
        // Written bytes are durable already; a cut becomes durable with its commit.
        match self.store.stat(&key) {
            Ok(_) => outcome(self.store.sync_placed()),
            Err(e) => outcome(Err(e)),
        }
    }
}
