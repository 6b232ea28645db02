//! Keys of a store, below a prefix.

use std::collections::HashSet;
use std::io;

use rustix_futex_sync::Mutex;
use terrace::{Ack, Attributes, ByteLocks, PutOptions, Store};
use xxhash_rust::xxh3::xxh3_64;

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
            // Where this fails, the lock ends with this destination; until then others report that they wait for it.
            let _ = locks.unlock(byte_of(key));
        }
    }

    fn key(&self, name: &[u8]) -> Vec<u8> {
        [&self.prefix, name].concat()
    }
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
        | terrace::Error::TooLarge { .. }
        | terrace::Error::Conflict { .. } => Failure::Never(e.to_string()),
        e => Failure::Later(e.to_string()),
    })
}

impl Destination for Keys {
    fn length(&self, name: &[u8]) -> Outcome<Option<u64>> {
        match self.store.stat(&self.key(name)) {
            Ok(object) => Ok(Some(object.length)),
            Err(terrace::Error::NotFound { .. }) => Ok(Some(0)),
            Err(e) => outcome(Err(e)),
        }
    }

    fn write(&self, name: &[u8], _: Position, runs: &[Run]) -> Outcome<()> {
        let ranges: Vec<(u64, &[u8])> = runs.iter().map(|run| (run.offset, run.bytes.as_ref())).collect();
        // Write to persistent targets directly: a copy in memory would have to be copied again to become durable.
        let durable = PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() };
        outcome(self.store.write_all_at(&self.key(name), &ranges, &durable).map(|_| ()))
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
        let written = begin().and_then(|()| {
            if !runs.is_empty() {
                self.write(name, Position::default(), runs)?;
            }
            let Some(end) = end else { return Ok(()) };
            self.set_length(name, end.length)?;
            self.set_attributes(name, &end.attributes)
        });
        if end.is_some() || written.is_err() {
            self.end_parts(&key);
        }
        written
    }

    fn set_length(&self, name: &[u8], length: u64) -> Outcome<()> {
        let key = self.key(name);
        let set = || match self.store.set_length(&key, length) {
            // The object does not exist: nothing was written to it.
            Err(terrace::Error::NotFound { .. }) => {
                self.store.put_bytes(&key, b"", &PutOptions::default())?;
                self.store.set_length(&key, length)
            }
            done => done,
        };
        outcome(set())
    }

    fn set_attributes(&self, name: &[u8], attributes: &Attributes) -> Outcome<()> {
        outcome(self.store.set_attributes(&self.key(name), attributes.clone()))
    }

    fn sync(&self, name: &[u8]) -> Outcome<()> {
        // Written bytes are durable already; a cut becomes durable with its commit.
        match self.store.stat(&self.key(name)) {
            Ok(_) => outcome(self.store.sync_placed()),
            Err(e) => outcome(Err(e)),
        }
    }
}
