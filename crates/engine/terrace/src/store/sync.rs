//! Waiting until what is owed is made, and what was written durable.

use std::time::Duration;

use super::Store;
use crate::Result;
use crate::config::Ack;
use crate::mover::{GRACE_PERIOD, MAX_WAIT};
use crate::write::Receipt;

impl Store {
    /// Waits until a write has reached `ack`; this thread does what of it is owed.
    ///
    /// # Errors
    /// [`StillOwed`](crate::Error::StillOwed) where that cannot be done within 30 seconds without progress.
    pub fn wait(&self, receipt: &mut Receipt, ack: Ack) -> Result<()> {
        // A range is durable only with what it was laid over, as after `fsync` of a file.
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
                // What no target could take is owed to none any more, so they may be fewer than were wanted.
                receipt.have = self.engine.mover.count_replicas(receipt)?.unwrap_or(receipt.have);
            }
            receipt.owed = 0;
            receipt.owed_to.clear();
        }
        match ack {
            Ack::Placed => Ok(()),
            Ack::Replicated => self.engine.journal.copy_log(false),
            Ack::Durable => {
                self.engine.journal.sync_files()?;
                receipt.durable = true;
                Ok(())
            }
        }
    }

    /// Makes what one object is owed, and all that was committed durable.
    pub(crate) fn sync_object(&self, object: u64) -> Result<()> {
        self.engine.mover.finish(Some(object), MAX_WAIT, &mut |_| {})?;
        self.engine.mover.finish_shared(object)?;
        self.engine.journal.sync_files()
    }

    /// Makes what an object is owed, and all that was committed durable: nothing of the object is lost with the power then.
    pub fn make_durable(&self, key: &[u8]) -> Result<()> {
        self.sync_object(self.stat(key)?.id)
    }

    /// Makes durable what was committed and lies on persistent targets. Nothing that is owed is made.
    pub fn sync_placed(&self) -> Result<()> {
        self.engine.journal.sync_files()
    }

    /// Makes everything that is owed, calling `progress` with what is left, then makes all durable.
    ///
    /// # Errors
    /// Also where a persistent target is not what it was, such as a bucket that was emptied: all else is done then.
    pub fn sync_with(&self, mut progress: impl FnMut(u64)) -> Result<()> {
        let missing = self.engine.care.look_at_targets()?;
        self.engine.planning.rules.renew();
        self.replan_renamed()?;
        if self.engine.mover.replanning().is_some() {
            // The holder of the lock may have begun before the rules changed.
            let _lock = self.engine.locks.wait_for_mover()?;
            while self.engine.mover.follow_rules()? > 0 {}
        }
        self.engine.mover.follow_all()?;
        self.engine.mover.finish(None, MAX_WAIT, &mut progress)?;
        if self.engine.mover.follow_policies()? > 0 {
            // They were owed replicas before, and could not be planned.
            self.engine.mover.finish(None, MAX_WAIT, &mut progress)?;
        }
        self.engine.journal.mark_synced()?;
        self.engine.mover.reap(GRACE_PERIOD)?;
        if let Some(_lock) = self.engine.locks.mover_at_once()? {
            self.engine.journal.snapshot_if_due()?;
        }
        missing.map_or(Ok(()), Err)
    }

    /// Waits until nothing is owed, then makes all durable.
    pub fn sync(&self) -> Result<()> {
        self.sync_with(|_| {})
    }

    pub(crate) fn sync_within(&self, limit: Duration) -> Result<()> {
        self.engine.mover.finish(None, limit, &mut |_| {})?;
        self.engine.journal.mark_synced()
    }

    /// Gives back, now, all dead space that a sync covers: readers have had no grace.
    pub fn reap_now(&self) -> Result<()> {
        self.engine.mover.reap(Duration::ZERO)
    }
}
