//! Keys of a store, below a prefix.

use terrace::{Ack, Attributes, PutOptions, Store};

use super::{Destination, Outcome};
use crate::Failure;
use crate::entry::Position;
use crate::runs::Run;

/// Objects of a store. The store's rules for their keys decide how they are placed.
pub struct Keys {
    store: Store,
    prefix: Vec<u8>,
}

impl Keys {
    /// Writes objects whose keys are `prefix` and the name, separated by a `/` unless the prefix ends with one.
    pub fn new(store: &Store, prefix: &[u8]) -> Keys {
        let mut prefix = prefix.to_vec();
        if !prefix.is_empty() && !prefix.ends_with(b"/") {
            prefix.push(b'/');
        }
        Keys { store: store.clone(), prefix }
    }

    fn key(&self, name: &[u8]) -> Vec<u8> {
        [&self.prefix, name].concat()
    }
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
