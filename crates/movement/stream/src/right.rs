//! The right to change a stream's progress.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use terrace::{Batch, Locked, Object, Store};

use crate::claim::{Claim, Claimant, find, holder, is_there, runner_key};
use crate::deal::{Deal, shares};
use crate::heartbeat::{Heartbeat, is_beating, is_silent};
use crate::{Error, Result};

/// Two nodes that claim a stream at the same time try again after this.
const CLAIM_PAUSE: Duration = Duration::from_millis(20);

/// The right to change a part of a stream's progress.
#[derive(Clone)]
pub enum Right {
    /// All or nothing, as the lock of a file says: the store is one machine's.
    Local,
    /// All, as no process of another node may change anything.
    Alone(Arc<Alone>),
    /// The destinations of the shares that are dealt to it.
    Dealt(Arc<Deal>),
}

impl Right {
    /// Makes a batch expect that this process may still change the progress of a destination, or of the log if none is named.
    ///
    /// # Errors
    /// [`Error::TakenOver`] if it may not.
    pub fn guard(&self, batch: &mut Batch<'_>, destination: Option<&[u8]>) -> Result<()> {
        match self {
            Right::Local => Ok(()),
            Right::Alone(alone) => {
                alone.claim.guard(batch);
                Ok(())
            }
            Right::Dealt(deal) => deal.guard(batch, destination),
        }
    }

    /// Fails if this process must not deliver now.
    ///
    /// # Errors
    /// [`Error::TakenOver`] if another node runs the stream, [`Error::Unheard`] if one may do so soon.
    pub fn check_fresh(&self) -> Result<()> {
        match self {
            Right::Alone(alone) if alone.is_lost.load(Ordering::Acquire) => Err(Error::TakenOver(alone.stream.clone())),
            Right::Alone(alone) if !alone.heartbeat.is_fresh() => Err(Error::Unheard(alone.stream.clone())),
            _ => Ok(()),
        }
    }

    /// Says what a commit of a guarded batch has come to.
    ///
    /// # Errors
    /// [`Error::TakenOver`] if another process runs the stream, or nodes share the destinations and another one has this one now.
    pub fn check(&self, committed: terrace::Result<()>) -> Result<()> {
        match (self, committed) {
            (Right::Dealt(deal), Err(terrace::Error::Conflict { .. })) => Err(deal.taken_over()),
            (Right::Alone(alone), Err(terrace::Error::Conflict { .. })) => Err(Error::TakenOver(alone.stream.clone())),
            (_, committed) => Ok(committed?),
        }
    }
}

/// A claim on all of a stream.
pub struct Alone {
    stream: String,
    claim: Claim,
    heartbeat: Heartbeat,
    /// Whether another node has taken over. Set once, with release, and read with acquire.
    is_lost: AtomicBool,
}

impl Alone {
    /// Says that this process still runs the stream. Called about once a second.
    ///
    /// # Errors
    /// [`Error::TakenOver`] if another node runs it now.
    pub fn tend(&self) -> Result<()> {
        match self.heartbeat.beat(Some(&self.claim)) {
            Ok(begun) => {
                self.heartbeat.confirm(begun);
                Ok(())
            }
            Err(Error::Engine(terrace::Error::Conflict { .. })) => {
                self.is_lost.store(true, Ordering::Release);
                Err(Error::TakenOver(self.stream.clone()))
            }
            Err(error) => Err(error),
        }
    }
}

/// The right to run a stream, or to change its progress, while no other process does: the lock of a file among the processes of a machine,
/// and a claim among nodes.
pub struct Exclusive {
    store: Store,
    pub right: Right,
    /// Released after the claim.
    _lock: Locked,
}

impl Exclusive {
    /// Claims the stream whose objects lie below `folder`, for the holder of its file lock.
    ///
    /// # Errors
    /// [`Error::Running`] if a node that is there has claimed it, or shares of it.
    pub fn take(store: &Store, folder: &str, name: &str, lock: Locked) -> Result<Exclusive> {
        let right = match store.node()? {
            Some(node) => {
                let (claim, stream) = (claim_alone(store, folder, name, &node)?, name.to_owned());
                let heartbeat = Heartbeat::new(store, folder, &node, String::new());
                Right::Alone(Arc::new(Alone { stream, claim, heartbeat, is_lost: AtomicBool::new(false) }))
            }
            None => Right::Local,
        };
        Ok(Exclusive { store: store.clone(), right, _lock: lock })
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        if let Right::Alone(alone) = &self.right {
            let mut batch = self.store.batch();
            alone.claim.release(&mut batch);
            if let Err(error) = batch.commit() {
                // Another process of this node may claim it again; other nodes may once this one has ended.
                tracing::debug!(%error, "a claim on a stream was not released");
            }
            alone.heartbeat.end();
        }
    }
}

fn claim_alone(store: &Store, folder: &str, name: &str, node: &str) -> Result<Claim> {
    let key = runner_key(folder);
    let claimant = Claimant::new(store, node)?;
    loop {
        let before = find(store, &key)?;
        let shares = shares(store, folder)?;
        for other in other_holders(node, before.as_ref(), &shares) {
            if !is_silent(store, folder, other)? {
                return Err(Error::Running(name.to_owned()));
            }
        }
        let mut batch = store.batch();
        claimant.claim(&mut batch, &key, before.as_ref())?;
        for (key, share) in &shares {
            match share {
                Some(object) => {
                    batch.unchanged(key, object);
                    batch.remove(key);
                }
                None => batch.absent(key),
            }
        }
        match batch.commit() {
            Ok(_) | Err(terrace::Error::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(claim) = claimant.made(&key)? {
            return Ok(claim);
        }
        thread::sleep(CLAIM_PAUSE);
    }
}

/// Returns whether a process of another node runs the stream whose objects lie below `folder`. The claims of a process that was killed stay
/// until another one takes over.
pub fn runs_elsewhere(store: &Store, folder: &str) -> Result<bool> {
    let Some(node) = store.node()? else { return Ok(false) };
    let (alone, dealt) = (find(store, &runner_key(folder))?, shares(store, folder)?);
    let runner = alone.as_ref().and_then(holder);
    for other in other_holders(&node, alone.as_ref(), &dealt) {
        // A command that takes a moment claims all, and has no record.
        if is_there(store, other)? && is_beating(store, folder, other)?.unwrap_or(runner == Some(other)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the names of the other nodes that have claimed the stream, or shares of it. A process that has the file lock is the only one of its
/// own node, so a claim of that node is a dead process's.
fn other_holders<'a>(
    node: &str,
    alone: Option<&'a Object>,
    shares: &'a [(Vec<u8>, Option<Object>)],
) -> HashSet<&'a str> {
    let claims = alone.into_iter().chain(shares.iter().filter_map(|(_, share)| share.as_ref()));
    claims.filter_map(holder).filter(|other| *other != node).collect()
}
