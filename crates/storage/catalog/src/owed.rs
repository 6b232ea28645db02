//! Pending replicas.

use terrace_format::{Owed, Task};

use super::apply::Applier;
use super::keys;
use crate::{Result, decode};

impl Applier<'_, '_> {
    /// Returns the record of a pending replica.
    pub(super) fn owed(&self, task: &Task) -> Result<Option<Owed>> {
        let value = self.records.get(self.txn, &keys::owed(task))?;
        value.map(|value| decode(value, "an owed replica's record")).transpose()
    }

    /// Makes a replica pending, unless its target was taken out of the store: a process may not know that yet.
    pub(super) fn put_owed(&mut self, task: &Task, owed: &Owed) -> Result<()> {
        if self.is_retired(task.target)? {
            return Ok(());
        }
        let key = keys::owed(task);
        if self.records.get(self.txn, &key)?.is_none() {
            self.changes.owe(task.target, 1);
        }
        self.put(&key, owed)
    }

    /// Takes a replica off the pending ones.
    pub(super) fn drop_owed(&mut self, task: &Task) -> Result<()> {
        if self.records.delete(self.txn, &keys::owed(task))? {
            self.changes.owe(task.target, -1);
        }
        Ok(())
    }
}
