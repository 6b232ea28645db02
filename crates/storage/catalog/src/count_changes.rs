//! [`CountChanges`]: by how much commits change the counts that the catalog keeps.

use std::collections::BTreeMap;

use terrace_format::TargetId;
use terrace_format::key::{RESERVED_FOLDER, below};

/// By how much commits change the counts.
#[derive(Default)]
pub(super) struct CountChanges {
    pub objects: i64,
    pub owed: BTreeMap<TargetId, i64>,
}

impl CountChanges {
    /// An object got this key, or has lost it.
    pub fn name(&mut self, key: &[u8], change: i64) {
        if !below(key, RESERVED_FOLDER) {
            self.objects += change;
        }
    }

    /// Replicas of a target became pending, or are no longer.
    pub fn owe(&mut self, target: TargetId, change: i64) {
        *self.owed.entry(target).or_default() += change;
    }
}
