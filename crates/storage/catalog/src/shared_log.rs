//! The way of a catalog's changes into a log that several nodes share. Then the node of this machine writes the catalog, and all other
//! processes only read it.

use terrace_format::{Change, Expect};

use super::{Catalog, Commit, Verdict};
use crate::{Error, Result};

/// A log that several nodes share, as a process asks the node of its machine to change it.
pub trait SharedLog: Send + Sync {
    /// Has changes carried out in this order, each at most once, and returns the verdict of each. The catalog of this machine has them
    /// then.
    ///
    /// # Errors
    /// [`Error::UnknownOutcome`] if nobody knows yet whether they were carried out; after any other error, none was.
    fn carry_out(&self, changes: &[&Change]) -> Result<Vec<Verdict>>;

    /// Returns the first of `count` numbers that nobody else has.
    ///
    /// # Errors
    /// [`Error::SharedLog`] if the node does not answer.
    fn claim_numbers(&self, count: u64) -> Result<u64>;

    /// Waits until the catalog of this machine has all that was acknowledged on any node before this call.
    ///
    /// # Errors
    /// [`Error::SharedLog`] if the log does not answer.
    fn catch_up(&self) -> Result<()>;
}

/// A step before changes go into a shared log.
pub(super) type Prepare = dyn Fn(&Catalog, &[&Change]) -> Result<()> + Send + Sync;

impl Catalog {
    /// From now on, this process asks for changes by way of `log`. Only its node writes the catalog. Call it before the first change; later
    /// calls change nothing.
    pub fn share(&self, log: Box<dyn SharedLog>) {
        // The first one stays.
        let _ = self.shared_log.set(log);
    }

    /// Has `prepare` called with changes before they go into a shared log. If it fails, they do not. Later calls change nothing.
    pub fn prepare_shared(&self, prepare: impl Fn(&Catalog, &[&Change]) -> Result<()> + Send + Sync + 'static) {
        // The first one stays.
        let _ = self.prepare.set(Box::new(prepare));
    }

    pub(super) fn prepare(&self, changes: &[&Change]) -> Result<()> {
        self.prepare.get().map_or(Ok(()), |prepare| prepare(self, changes))
    }

    /// Returns whether this is the catalog of a log that several nodes share.
    pub fn is_shared(&self) -> bool {
        self.shared_log.get().is_some()
    }

    /// Waits until this catalog has all that any node had acknowledged before this call. Without a shared log, it always has.
    ///
    /// # Errors
    /// [`Error::SharedLog`] if the log does not answer.
    pub fn catch_up(&self) -> Result<()> {
        self.shared_log.get().map_or(Ok(()), |log| log.catch_up())
    }

    pub(super) fn commit_to_shared(&self, log: &dyn SharedLog, changes: &[&Change]) -> Result<Vec<Result<Commit>>> {
        let verdicts = log.carry_out(changes)?;
        Ok(changes.iter().zip(verdicts).map(|(change, verdict)| verdict.of(change)).collect())
    }
}

impl Verdict {
    /// Returns the result of a change with this verdict.
    fn of(self, change: &Change) -> Result<Commit> {
        let key = || change.expect.first().map(key_of).map(terrace_format::key::show).unwrap_or_default();
        match self {
            Verdict::Done(sequence) => Ok(Commit { sequence }),
            Verdict::Conflict | Verdict::Refused => {
                Err(Error::Conflict { key: key(), reason: "another client has changed it; look at it again".into() })
            }
            Verdict::NotFound => Err(Error::NotFound { key: key() }),
            Verdict::Stale => Err(Error::Stale),
            Verdict::NoSession | Verdict::Forgotten => {
                Err(Error::UnknownOutcome { reason: "its session has ended before its verdict was asked for".into() })
            }
        }
    }
}

/// The key of the object that an expectation is about.
fn key_of(expect: &Expect) -> &[u8] {
    match expect {
        Expect::Generation(key, _)
        | Expect::Exists(key)
        | Expect::Names(key, _)
        | Expect::Length(key, _)
        | Expect::Absent(key)
        | Expect::Free(key)
        | Expect::Owed(_, key)
        | Expect::NotPlain(key, _)
        | Expect::HasOther { key, .. }
        | Expect::KeepsOne { key, .. }
        | Expect::NoFrame(_, key)
        | Expect::KeepsSynced { key, .. } => key,
        Expect::Unused(_) => &[],
    }
}
