//! Records about plain files: the file of an object on a target, and the keys of a target whose names may be wrong and have to
//! be corrected.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use terrace_format::{Object, Owed};

use super::apply::Applier;
use super::{Catalog, TargetId, Task, decode, extents, keys};
use crate::Result;

const RECORD_NAME: &str = "a plain file's record";

/// A key of a target under which a wrong or outdated file may stand.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Unfollowed {
    /// The last commit that changed the file that belongs there.
    pub sequence: u64,
    /// The plain files that may stand there.
    pub files: Vec<u64>,
}

impl Applier<'_, '_> {
    /// Records the newest plain file of an object.
    pub(super) fn hold_plain(&mut self, task: &Task, key: &[u8], file: u64) -> Result<()> {
        let record = keys::plain(task.object, task.target);
        let old: Option<u64> =
            self.records.get(self.txn, &record)?.map(|value| decode(value, RECORD_NAME)).transpose()?;
        if old == Some(file) {
            return Ok(());
        }
        self.put(&record, &file)?;
        self.unfollow_file(task.target, key, file)
    }

    pub(super) fn plain_of(&self, object: u64) -> Result<Vec<(TargetId, u64)>> {
        let mut found = Vec::new();
        for entry in self.records.prefix_iter(self.txn, &keys::plain(object, 0)[..9])? {
            let (key, value) = entry?;
            if let Some(&[a, b]) = key.get(9..11) {
                found.push((TargetId::from_be_bytes([a, b]), decode(value, RECORD_NAME)?));
            }
        }
        Ok(found)
    }

    /// Makes an object's plain files pending again, because they have bytes where the object now has a hole. An object that
    /// only has holes gets no file.
    pub(super) fn owe_plain(&mut self, object: &Object, key: &[u8]) -> Result<()> {
        if self.plain_of(object.id)?.is_empty() {
            return Ok(());
        }
        let extents = extents::load(self.records, self.txn, object, 0, u64::MAX)?;
        let Some(first) = extents.first() else { return Ok(()) };
        let replicas = extents.iter().flat_map(|extent| &extent.replicas).filter(|replica| replica.place.is_plain());
        let targets: BTreeSet<TargetId> = replicas.map(|replica| replica.target).collect();
        let (write, frame_offset) = first.frame();
        for target in targets {
            let owed = Owed { key: key.to_vec(), raw_len: first.raw_len, then_drop: None, since: self.sequence };
            self.put_owed(&Task { object: object.id, frame_offset, write, target }, &owed)?;
        }
        Ok(())
    }

    /// Deletes the records of a removed object's plain files.
    pub(super) fn drop_plain(&mut self, object: u64) -> Result<()> {
        for (target, _) in self.plain_of(object)? {
            self.records.delete(self.txn, &keys::plain(object, target))?;
        }
        Ok(())
    }

    /// Records that an object's plain files may stand under a key where they no longer belong, or are outdated.
    pub(super) fn unfollow(&mut self, object: u64, key: &[u8]) -> Result<()> {
        self.plain_of(object)?.into_iter().try_for_each(|(target, file)| self.unfollow_file(target, key, file))
    }

    /// Like [`Applier::unfollow`], for one file.
    pub(super) fn unfollow_file(&mut self, target: TargetId, key: &[u8], file: u64) -> Result<()> {
        let record = keys::unfollowed(target, key);
        let known = self.records.get(self.txn, &record)?.map(|value| decode(value, RECORD_NAME)).transpose()?;
        let mut noted: Unfollowed = known.unwrap_or_default();
        let is_new = !noted.files.contains(&file);
        if is_new || noted.sequence != self.sequence {
            noted.files.extend(is_new.then_some(file));
            noted.sequence = self.sequence;
            self.put(&record, &noted)?;
        }
        Ok(())
    }

    pub(super) fn followed(&mut self, target: TargetId, key: &[u8], sequence: u64) -> Result<()> {
        let record = keys::unfollowed(target, key);
        let Some(value) = self.records.get(self.txn, &record)? else { return Ok(()) };
        let noted: Unfollowed = decode(value, RECORD_NAME)?;
        if noted.sequence <= sequence {
            self.records.delete(self.txn, &record)?;
        }
        Ok(())
    }
}

impl Catalog {
    /// Returns up to `limit` keys of `target` after `after` under which a wrong or outdated file may stand.
    pub fn unfollowed(&self, target: TargetId, after: &[u8], limit: usize) -> Result<Vec<(Vec<u8>, Unfollowed)>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let start = keys::unfollowed(target, after);
        let bounds = (std::ops::Bound::Excluded(start.as_slice()), std::ops::Bound::Unbounded);
        let mut found = Vec::new();
        for entry in env.records.range(&txn, &bounds)?.take(limit) {
            let (key, value) = entry?;
            let Some(key) = key.strip_prefix(&start[..3]) else { break };
            found.push((key.to_vec(), decode(value, RECORD_NAME)?));
        }
        Ok(found)
    }

    /// The targets on which an object has a plain file.
    pub fn plain_targets(&self, object: u64) -> Result<Vec<TargetId>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let mut found = Vec::new();
        for entry in env.records.prefix_iter(&txn, &keys::plain(object, 0)[..9])? {
            let key = entry?.0;
            if let Some(&[a, b]) = key.get(9..11) {
                found.push(TargetId::from_be_bytes([a, b]));
            }
        }
        Ok(found)
    }
}
