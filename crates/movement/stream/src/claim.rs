//! Which node runs a stream of a store that several nodes share. The lock of a file holds on one machine only.

use std::thread;
use std::time::Duration;

use terrace::{Attributes, Batch, Locked, Object, Store};

use crate::{Error, Result};

const RUNNER_KEY: &str = "/runner";
const NODE_ATTRIBUTE: &str = "node";
/// Claims differ by this, so that a process knows its own.
const TOKEN_ATTRIBUTE: &str = "token";
/// Two nodes that claim a stream at the same time try again after this.
const CLAIM_PAUSE: Duration = Duration::from_millis(20);

/// The right to run a stream, or to change its progress: the lock of a file among the processes of a machine, and a claim among nodes.
pub struct Exclusive {
    pub claim: Option<Claim>,
    /// Released after the claim.
    _lock: Locked,
}

/// A node's claim. What its holder commits expects that it still holds.
#[derive(Clone)]
pub struct Claim {
    store: Store,
    key: Vec<u8>,
    object: Object,
}

impl Exclusive {
    /// Claims the stream whose objects lie below `folder`, for the holder of its file lock.
    ///
    /// # Errors
    /// [`Error::Running`] if a node that is there has claimed it.
    pub fn take(store: &Store, folder: &str, name: &str, lock: Locked) -> Result<Exclusive> {
        let claim = match store.node()? {
            Some(node) => Some(Claim::take(store, folder, name, &node)?),
            None => None,
        };
        Ok(Exclusive { claim, _lock: lock })
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        if let Some(claim) = &self.claim
            && let Err(error) = claim.release()
        {
            // Another process of this node may claim it again; other nodes may once this one has ended.
            tracing::debug!(%error, "a claim on a stream was not released");
        }
    }
}

impl Claim {
    fn take(store: &Store, folder: &str, name: &str, node: &str) -> Result<Claim> {
        let key = [folder, RUNNER_KEY].concat().into_bytes();
        loop {
            let before = read(store, &key)?;
            // This process has the file lock, so no other one of this node holds the claim.
            if let Some(other) = before.as_ref().and_then(holder)
                && other != node
                && is_there(store, other)?
            {
                return Err(Error::Running(name.to_owned()));
            }
            let token = format!("{:016x}", store.new_number()?);
            let mut attributes = Attributes::now();
            attributes.user.insert(NODE_ATTRIBUTE.into(), node.to_owned());
            attributes.user.insert(TOKEN_ATTRIBUTE.into(), token.clone());
            let mut batch = store.batch();
            match &before {
                Some(object) => {
                    batch.unchanged(&key, object);
                    batch.set_attributes(&key, attributes);
                }
                None => drop(batch.make(&key, 0, attributes)?),
            }
            match batch.commit() {
                Ok(_) | Err(terrace::Error::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            let now = read(store, &key)?;
            if let Some(object) = now.filter(|object| object.attributes.user.get(TOKEN_ATTRIBUTE) == Some(&token)) {
                return Ok(Claim { store: store.clone(), key, object });
            }
            thread::sleep(CLAIM_PAUSE);
        }
    }

    /// Makes a batch expect that this claim still holds: a node that was paused must not commit after another one has taken over.
    pub fn guard(&self, batch: &mut Batch<'_>) {
        batch.unchanged(&self.key, &self.object);
    }

    fn release(&self) -> Result<()> {
        let mut batch = self.store.batch();
        self.guard(&mut batch);
        batch.remove(&self.key);
        batch.commit()?;
        Ok(())
    }
}

/// Returns whether another node that is there runs the stream whose objects lie below `folder`.
pub fn runs_elsewhere(store: &Store, folder: &str) -> Result<bool> {
    let Some(node) = store.node()? else { return Ok(false) };
    match read(store, [folder, RUNNER_KEY].concat().as_bytes())?.as_ref().and_then(holder) {
        Some(other) if other != node => is_there(store, other),
        _ => Ok(false),
    }
}

fn holder(object: &Object) -> Option<&str> {
    object.attributes.user.get(NODE_ATTRIBUTE).map(String::as_str)
}

fn is_there(store: &Store, node: &str) -> Result<bool> {
    Ok(store.nodes()?.iter().any(|other| other.name == node && other.is_there))
}

fn read(store: &Store, key: &[u8]) -> Result<Option<Object>> {
    match store.stat(key) {
        Ok(object) => Ok(Some(object)),
        Err(terrace::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
