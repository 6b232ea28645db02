//! Targets that were taken out of a store for good.

use terrace_format::TargetId;

use super::apply::{Applier, Live};
use super::{Catalog, keys};
use crate::Result;

impl Catalog {
    /// Returns whether a target was taken out of the store.
    pub fn is_retired(&self, target: TargetId) -> Result<bool> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        Ok(env.records.get(&txn, &keys::retired(target))?.is_some())
    }
}

impl Applier<'_, '_> {
    /// Takes a target out of the store, and forgets what was freed there.
    pub(super) fn retire(&mut self, target: TargetId) -> Result<()> {
        let mut known = Vec::new();
        for prefix in [keys::segments_on(target), keys::freed_on(target), keys::unfollowed(target, b"")] {
            for entry in self.records.prefix_iter(self.txn, &prefix)? {
                known.push(entry?.0.to_vec());
            }
        }
        for key in known {
            self.records.delete(self.txn, &key)?;
        }
        self.counts.retain(|((of, _), _)| *of != target);
        self.records.delete(self.txn, &keys::served(target))?;
        self.records.put(self.txn, &keys::retired(target), &[])?;
        self.has_retired = Some(true);
        Ok(())
    }

    pub(super) fn is_retired(&mut self, target: TargetId) -> Result<bool> {
        let has_any = match self.has_retired {
            Some(known) => known,
            None => self.records.prefix_iter(self.txn, &[keys::RETIRED_LETTER])?.next().is_some(),
        };
        self.has_retired = Some(has_any);
        Ok(has_any && self.records.get(self.txn, &keys::retired(target))?.is_some())
    }

    /// Returns whether a frame of any object is on a target, or is to be made there.
    pub(super) fn is_used(&self, target: TargetId) -> Result<bool> {
        let counted =
            |segment| self.counts.iter().find(|(known, _)| *known == (target, segment)).map(|(_, live)| *live);
        if self.counts.iter().any(|((of, _), live)| *of == target && live.frames > 0) {
            return Ok(true);
        }
        for entry in self.records.prefix_iter(self.txn, &keys::segments_on(target))? {
            let (key, value) = entry?;
            let live = match keys::number(key, 3).and_then(counted) {
                Some(live) => live,
                None => Live::read(value)?,
            };
            if live.frames > 0 {
                return Ok(true);
            }
        }
        Ok(self.tasks(&[keys::OWED_LETTER])?.iter().any(|task| task.target == target))
    }
}
