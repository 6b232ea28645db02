//! Waits until pending replicas are made and commits are durable.

use std::time::Duration;

use super::Store;
use crate::Result;
use crate::config::Ack;
use crate::mover::{GRACE_PERIOD, MAX_WAIT};
use crate::write::Receipt;

/// A sync replans at most this many times what had to wait for pending replicas. Replicas are dropped once others are made, so one round may
/// not be enough.
const MAX_REPLANNING_ROUNDS: usize = 3;

impl Store {
    /// Waits until a write has reached `ack`. This thread makes the pending replicas of the object.
    ///
    /// # Errors
    /// [`StillOwed`](crate::Error::StillOwed) if no replica could be made for 30 seconds and some are still pending.
    pub fn wait(&self, receipt: &mut Receipt, ack: Ack) -> Result<()> {
        // A range is durable only together with the older bytes of the object, as after `fsync` of a file.
        if ack == Ack::Durable || ack == Ack::Replicated && receipt.owed > 0 {
            if receipt.key.is_empty()
                && let Some((_, owed)) = self.engine.mover.owed_next(Some(receipt.object), None)?.into_iter().next()
            {
                // A receipt of the C library does not hold the key.
                receipt.key = owed.key;
            }
            self.engine.mover.finish(Some(receipt.object), MAX_WAIT, &mut |_| {})?;
            self.engine.mover.finish_shared(receipt.object)?;
            if receipt.owed > 0 {
                // A replica that no target takes may have been given up, so there may be fewer than were wanted.
                receipt.have = self.engine.mover.count_replicas(receipt)?.unwrap_or(receipt.have);
            }
            receipt.owed = 0;
            receipt.owed_to.clear();
        }
        match ack {
            Ack::Placed => Ok(()),
            Ack::Replicated => self.engine.journal.copy_log(false),
            Ack::Durable => {
                self.engine.journal.sync_files_of(&[receipt.object])?;
                receipt.durable = true;
                Ok(())
            }
        }
    }

    /// Makes an object's pending replicas, then makes all commits durable.
    pub(crate) fn sync_object(&self, object: u64) -> Result<()> {
        self.make_all_durable(&[object])
    }

    /// Makes the pending replicas of objects, which are named by their numbers, then makes all commits durable. Objects that were removed
    /// have none.
    pub fn make_all_durable(&self, objects: &[u64]) -> Result<()> {
        for &object in objects {
            self.engine.mover.finish(Some(object), MAX_WAIT, &mut |_| {})?;
            self.engine.mover.finish_shared(object)?;
        }
        self.engine.journal.sync_files_of(objects)
    }

    /// Makes an object's pending replicas, then makes all commits durable: after this, a power cut takes nothing of the
    /// object.
    pub fn make_durable(&self, key: &[u8]) -> Result<()> {
        self.sync_object(self.stat(key)?.id)
    }

    /// Makes durable all commits and their bytes on persistent targets. Makes no pending replicas.
    pub fn sync_placed(&self) -> Result<()> {
        self.engine.journal.sync_files()
    }

    /// Makes durable all commits and their bytes on persistent targets, as [`Store::sync_placed`] does, and notes it in the log: a
    /// recovery does not check them, and [`Store::health`](Store::health) knows. Makes no pending replicas.
    pub fn mark_placed(&self) -> Result<()> {
        self.engine.journal.mark_synced()
    }

    /// Makes all pending replicas, calling `progress` with the number of those that are left, then makes everything durable.
    ///
    /// # Errors
    /// Also if a persistent target was emptied or replaced, such as a bucket. Everything else is done then.
    pub fn sync_with(&self, mut progress: impl FnMut(u64)) -> Result<()> {
        let missing = self.engine.care.check_targets()?;
        self.engine.planning.rules.renew();
        self.engine.mover.note_rules(&self.engine.planning.rules.now())?;
        self.replan_renamed()?;
        if self.engine.mover.replanning().is_some() {
            // The holder of the lock may have begun before the rules changed.
            let _lock = self.engine.locks.wait_for_mover()?;
            while self.engine.mover.follow_rules()? > 0 {}
        }
        self.engine.names.update_all()?;
        self.engine.mover.finish(None, MAX_WAIT, &mut progress)?;
        for _ in 0..MAX_REPLANNING_ROUNDS {
            if self.engine.mover.follow_policies()? == 0 && self.engine.catalog.owed_count(None)? == 0 {
                break;
            }
            self.engine.mover.finish(None, MAX_WAIT, &mut progress)?;
        }
        self.engine.journal.mark_synced()?;
        let marked = self.engine.catalog.tail()?.sequence;
        self.engine.reaper.reap(GRACE_PERIOD)?;
        if self.engine.catalog.tail()?.sequence > marked {
            // For the commits that say what was freed.
            self.engine.journal.mark_synced()?;
        }
        if let Some(_lock) = self.engine.locks.mover_at_once()? {
            self.engine.journal.snapshot_if_due()?;
        }
        missing.map_or(Ok(()), Err)
    }

    /// Makes all pending replicas, then makes everything durable.
    pub fn sync(&self) -> Result<()> {
        self.sync_with(|_| {})
    }

    pub(crate) fn sync_within(&self, limit: Duration) -> Result<()> {
        self.engine.mover.finish(None, limit, &mut |_| {})?;
        self.engine.journal.mark_synced()
    }

    /// Frees now all garbage that a sync mark covers, without the grace period for readers.
    pub fn reap_now(&self) -> Result<()> {
        self.engine.reaper.reap(Duration::ZERO)
    }
}
