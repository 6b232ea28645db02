//! Checks the expectations of a change.

use std::fmt::Display;

use smallvec::SmallVec;
use terrace_format::key::show;
use terrace_format::{Change, Edit, Expect};
use terrace_format::{Kind, Object, Replica, TargetId, Task};

use super::Applier;
use crate::extents;
use crate::{Error, Result};
use crate::{decode, keys};

impl Applier<'_, '_> {
    /// The replicas of the frame that a task names.
    pub(crate) fn replicas_of(&self, task: &Task, key: &[u8]) -> Result<SmallVec<[Replica; 3]>> {
        let named = self.object(key)?.filter(|object| object.id == task.object);
        let object = named.unwrap_or_else(|| super::staged_object(task.object));
        let all = extents::load_frame(self.records, self.txn, &object, task.frame_offset, task.write)?;
        let frame = (task.write, task.frame_offset);
        let own = all.into_iter().find(|extent| extent.frame() == frame && extent.source.is_none());
        match own {
            Some(extent) => Ok(extent.replicas),
            None => Ok(self.shared(task)?.map(|shared| shared.replicas).unwrap_or_default()),
        }
    }

    /// Returns whether the object of this key or a staged object holds the frame that a task names, or it is shared.
    fn has_frame(&self, task: &Task, key: &[u8]) -> Result<bool> {
        let named = self.object(key)?.filter(|object| object.id == task.object);
        let is_staged = self.records.get(self.txn, &keys::staged(task.object))?.is_some();
        if let Some(object) = named.or_else(|| is_staged.then(|| super::staged_object(task.object))) {
            let all = extents::load_frame(self.records, self.txn, &object, task.frame_offset, task.write)?;
            let frame = (task.write, task.frame_offset);
            if all.iter().any(|extent| extent.frame() == frame && extent.source.is_none()) {
                return Ok(true);
            }
        }
        Ok(self.shared(task)?.is_some())
    }

    /// The targets that hold a replica of the frame that a task names.
    fn targets_of(&self, task: &Task, key: &[u8]) -> Result<Vec<TargetId>> {
        Ok(self.replicas_of(task, key)?.iter().map(|replica| replica.target).collect())
    }

    /// Checks all expectations of a change.
    pub fn check(&mut self, change: &Change) -> Result<()> {
        let checked = self.check_each(change);
        if checked.is_err() {
            self.folder.clear();
        }
        checked
    }

    fn check_each(&mut self, change: &Change) -> Result<()> {
        change.expect.iter().try_for_each(|expect| self.check_one(expect))?;
        for edit in &change.edits {
            if let Edit::Share { from, extents, .. } = edit {
                let is_current = self.lists_what_is_there(from, extents)?;
                require(is_current, from, "its replicas are moving; look at it again")?;
            }
        }
        Ok(())
    }

    fn check_one(&mut self, expect: &Expect) -> Result<()> {
        match expect {
            Expect::Generation(key, generation) => self.check_generation(key, *generation),
            Expect::Exists(key) => self.object(key)?.map(drop).ok_or_else(|| Error::not_found(key)),
            Expect::Names(key, id) => {
                let is_same = self.object(key)?.is_some_and(|object| object.id == *id);
                require(is_same, key, "another object has taken its place; look at it again")
            }
            Expect::Length(key, length) => self.check_length(key, *length),
            Expect::Absent(key) => {
                require(self.object(key)?.is_none(), key, "it exists; name another key, or remove it first")
            }
            Expect::Owed(task, key) => {
                let is_owed = self.owed(task)?.is_some_and(|owed| owed.key == *key);
                require(is_owed, key, "it no longer owes this replica")
            }
            Expect::NotPlain(key, object) => {
                let is_plain = !self.plain_of(*object)?.is_empty();
                require(!is_plain, key, "it has become a plain file; look at it again")
            }
            Expect::HasOther { task, key, among } => {
                let targets = self.targets_of(task, key)?;
                let has_other = targets.iter().any(|target| *target != task.target && among.contains(target));
                require(has_other, key, "its other replicas have gone; look at it again")
            }
            Expect::KeepsOne { task, key, among } => self.check_keeps_one(task, key, among),
            Expect::NoFrame(task, key) => {
                let is_there = self.has_frame(task, key)?;
                require(!is_there, key, "its object has only been renamed; look at it again")
            }
            Expect::KeepsSynced { task, key } => {
                let is_kept = self.has_other_synced(task, key)?;
                require(is_kept, key, "no other replica is synced on a live node; sync first")
            }
            Expect::Unused(target) => {
                let is_used = self.is_used(*target)?;
                require(!is_used, b"", "the target still holds replicas, or is to get some; move them first")
            }
            Expect::Free(key) => self.check_free(key),
        }
    }

    fn check_generation(&self, key: &[u8], generation: u64) -> Result<()> {
        let now = self.object(key)?.ok_or_else(|| Error::not_found(key))?.generation;
        require(now == generation, key, format_args!("its generation is {now}, not {generation}; read it again"))
    }

    fn check_length(&self, key: &[u8], length: u64) -> Result<()> {
        let now = self.object(key)?.ok_or_else(|| Error::not_found(key))?.length;
        require(now == length, key, format_args!("it has {now} bytes, not {length}; look at it again"))
    }

    /// Checks that a pending replica, which replaces another one, leaves a replica on one of `among`, if there is one now.
    fn check_keeps_one(&self, task: &Task, key: &[u8], among: &[TargetId]) -> Result<()> {
        let dropped = self.owed(task)?.and_then(|owed| owed.then_drop);
        let targets = self.targets_of(task, key)?;
        let lasts = |target: &TargetId| among.contains(target);
        let is_kept = targets.iter().any(|target| Some(*target) != dropped && lasts(target));
        let is_last = !is_kept && !lasts(&task.target) && targets.iter().any(lasts);
        require(!is_last, key, "the replica to be replaced is the last one that outlives a reboot; look at it again")
    }

    fn check_free(&mut self, key: &[u8]) -> Result<()> {
        let Some(other) = self.in_the_way(key)? else { return Ok(()) };
        let other = show(&other);
        let reason = format!(
            "{other:?} is a file, and one is a path prefix of the other; name another key, or remove or rename that one"
        );
        Err(Error::Conflict { key: show(key), reason })
    }

    /// A key that prevents a file under `key`: a file above it, or anything below it.
    fn in_the_way(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let folder = key.iter().rposition(|&byte| byte == b'/').map_or(&[][..], |at| &key[..at]);
        if folder != self.folder {
            for (at, _) in key.iter().enumerate().filter(|&(_, &byte)| byte == b'/') {
                let above = &key[..at];
                if self.object(above)?.is_some_and(|o| o.attributes.kind != Kind::Directory) {
                    return Ok(Some(above.to_vec()));
                }
            }
            self.folder.clear();
            self.folder.extend_from_slice(folder);
        }
        let mut below = keys::object(key);
        // The next record at or after the key nearly always tells whether anything is below it.
        match self.records.get_greater_than_or_equal_to(self.txn, &below)? {
            Some((found, value)) if found == below.as_slice() => {
                let object: Object = decode(value, "an object's record")?;
                if object.attributes.kind != Kind::Directory {
                    return Ok(None);
                }
            }
            Some((found, _)) if found.starts_with(&below) => {}
            _ => {
                self.vacant.clear();
                self.vacant.extend_from_slice(key);
                return Ok(None);
            }
        }
        below.push(b'/');
        let next = self.records.get_greater_than_or_equal_to(self.txn, &below)?;
        Ok(next.filter(|(found, _)| found.starts_with(&below)).map(|(found, _)| found[1..].to_vec()))
    }
}

/// Returns a conflict with this reason unless an expectation holds.
fn require(holds: bool, key: &[u8], reason: impl Display) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Conflict { key: show(key), reason: reason.to_string() }) }
}
