//! Checks the expectations of a change.

use smallvec::SmallVec;
use terrace_format::key::show;
use terrace_format::{Change, Edit, Expect};
use terrace_format::{Kind, Object, Owed, Replica, TargetId, Task};

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
        let conflict = |key: &[u8], reason: String| Err(Error::Conflict { key: show(key), reason });
        for expect in &change.expect {
            match expect {
                Expect::Generation(key, generation) => match self.object(key)? {
                    Some(object) if object.generation == *generation => {}
                    Some(object) => {
                        return conflict(
                            key,
                            format!("its generation is {}, not {generation}; read it again", object.generation),
                        );
                    }
                    None => return Err(Error::not_found(key)),
                },
                Expect::Exists(key) => {
                    self.object(key)?.ok_or_else(|| Error::not_found(key))?;
                }
                Expect::Names(key, id) => {
                    if self.object(key)?.is_none_or(|object| object.id != *id) {
                        return conflict(key, "another object has taken its place; look at it again".into());
                    }
                }
                Expect::Length(key, length) => {
                    let object = self.object(key)?.ok_or_else(|| Error::not_found(key))?;
                    if object.length != *length {
                        let now = object.length;
                        return conflict(key, format!("it has {now} bytes, not {length}; look at it again"));
                    }
                }
                Expect::Absent(key) => {
                    if self.object(key)?.is_some() {
                        return conflict(key, "it exists; name another key, or remove it first".into());
                    }
                }
                Expect::Owed(task, key) => {
                    let value = self.records.get(self.txn, &keys::owed(task))?;
                    let owed: Option<Owed> = value.map(|v| decode(v, "an owed replica's record")).transpose()?;
                    if owed.is_none_or(|owed| owed.key != *key) {
                        return conflict(key, "it no longer owes this replica".into());
                    }
                }
                Expect::NotPlain(key, object) => {
                    if !self.plain_of(*object)?.is_empty() {
                        return conflict(key, "it has become a plain file; look at it again".into());
                    }
                }
                Expect::HasOther { task, key, among } => {
                    let targets = self.targets_of(task, key)?;
                    if !targets.iter().any(|target| *target != task.target && among.contains(target)) {
                        return conflict(key, "its other replicas have gone; look at it again".into());
                    }
                }
                Expect::KeepsOne { task, key, among } => {
                    let value = self.records.get(self.txn, &keys::owed(task))?;
                    let owed: Option<Owed> = value.map(|v| decode(v, "an owed replica's record")).transpose()?;
                    let dropped = owed.and_then(|owed| owed.then_drop);
                    let targets = self.targets_of(task, key)?;
                    let lasts = |target: &TargetId| among.contains(target);
                    let is_kept = targets.iter().any(|target| Some(*target) != dropped && lasts(target));
                    if !is_kept && !lasts(&task.target) && targets.iter().any(lasts) {
                        return conflict(
                            key,
                            "the replica to be replaced is the last one that outlives a reboot; look at it again"
                                .into(),
                        );
                    }
                }
                Expect::NoFrame(task, key) => {
                    if self.has_frame(task, key)? {
                        return conflict(key, "its object has only been renamed; look at it again".into());
                    }
                }
                Expect::KeepsSynced { task, key } => {
                    if !self.has_other_synced(task, key)? {
                        return conflict(key, "no other replica is synced on a live node; sync first".into());
                    }
                }
                Expect::Unused(target) => {
                    if self.is_used(*target)? {
                        return conflict(
                            b"",
                            "the target still holds replicas, or is to get some; move them first".into(),
                        );
                    }
                }
                Expect::Free(key) => {
                    if let Some(other) = self.in_the_way(key)? {
                        return conflict(
                            key,
                            format!(
                                "{:?} is a file, and one is a path prefix of the other; name another key, or remove or rename that one",
                                show(&other)
                            ),
                        );
                    }
                }
            }
        }
        for edit in &change.edits {
            if let Edit::Share { from, extents, .. } = edit
                && !self.lists_what_is_there(from, extents)?
            {
                return conflict(from, "its replicas are moving; look at it again".into());
            }
        }
        Ok(())
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
