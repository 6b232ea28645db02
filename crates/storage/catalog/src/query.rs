//! Queries. Each holds its read transaction only while it copies the answer.

use std::ops::Bound;

use heed::RoTxn;
use serde::Deserialize;
use terrace_format::{Extent, Object, Owed, TargetId, Task};

use super::apply::Live;
use super::{Catalog, Environment, Moment, decode, extents, keys, shared};
use crate::log::Tail;
use crate::{Error, Result};

impl Catalog {
    /// The object that a key names.
    pub fn object(&self, key: &[u8]) -> Result<Option<Object>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        self.object_in(&env, &txn, key)
    }

    pub(super) fn object_in(&self, env: &Environment, txn: &RoTxn<'_>, key: &[u8]) -> Result<Option<Object>> {
        env.records.get(txn, &keys::object(key))?.map(|value| decode(value, "an object's record")).transpose()
    }

    /// Returns the current moment. What was read after this call stays true while the catalog is at the same moment.
    pub fn moment(&self) -> Result<Moment> {
        Ok(self.env()?.moment())
    }

    /// The object and its extents that touch `start..end`, in order. `None` if the key names no object.
    pub fn locate(&self, key: &[u8], start: u64, end: u64) -> Result<Option<(Object, Vec<Extent>)>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let Some(mut object) = self.object_in(&env, &txn, key)? else { return Ok(None) };

        // The extents of a small object are in its own record, the others in records of their own.
        let mut found = match object.extents_in_record.take() {
            Some(extents) => extents.into_vec(),
            None => extents::load(env.records, &txn, &object, start, end)?,
        };
        found.retain(|e| e.offset < end && e.end() > start);
        shared::resolve(env.records, &txn, &mut found)?;
        Ok(Some((object, found)))
    }

    /// Returns up to `limit` objects whose key is `prefix` or below it and comes after the key `after`, in order of keys.
    pub fn list(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Vec<u8>, Object)>> {
        let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix);
        let start = keys::object(after.unwrap_or(prefix));
        let env = self.env()?;
        let txn = env.read_txn()?;
        let from = if after.is_some() {
            std::ops::Bound::Excluded(start.as_slice())
        } else {
            std::ops::Bound::Included(start.as_slice())
        };
        let mut found = Vec::new();
        for entry in env.records.range(&txn, &(from, std::ops::Bound::Unbounded))? {
            let (key, value) = entry?;
            let Some(key) = key.strip_prefix(&[keys::OBJECT_LETTER]) else { break };
            if !key.starts_with(prefix) || found.len() == limit {
                break;
            }
            if terrace_format::key::below(key, prefix) {
                found.push((key.to_vec(), decode(value, "an object's record")?));
            }
        }
        Ok(found)
    }

    /// Calls `each` with every object at or below `prefix` and its extents, in order of keys, until it returns false. The
    /// catalog may change meanwhile: each object is read when its turn comes.
    pub fn each_object<E: From<Error>>(
        &self,
        prefix: &[u8],
        each: impl FnMut(&[u8], &Object, &[Extent]) -> Result<bool, E>,
    ) -> Result<(), E> {
        self.each_object_after(prefix, None, each)
    }

    /// Like [`Catalog::each_object`], for the objects after a key.
    pub fn each_object_after<E: From<Error>>(
        &self,
        prefix: &[u8],
        mut after: Option<Vec<u8>>,
        mut each: impl FnMut(&[u8], &Object, &[Extent]) -> Result<bool, E>,
    ) -> Result<(), E> {
        loop {
            let mut page = self.list(prefix, after.as_deref(), 256)?;
            for (key, _) in &page {
                if let Some((object, extents)) = self.locate(key, 0, u64::MAX)?
                    && !each(key, &object, &extents)?
                {
                    return Ok(());
                }
            }
            match page.pop() {
                Some((last, _)) => after = Some(last),
                None => return Ok(()),
            }
        }
    }

    /// Returns whether a replica is still owed.
    pub fn is_owed(&self, task: &Task) -> Result<bool> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        Ok(env.records.get(&txn, &keys::owed(task))?.is_some())
    }

    /// The record of an owed replica.
    pub fn owed_replica(&self, task: &Task) -> Result<Option<Owed>> {
        self.read_record(&keys::owed(task), "an owed replica's record")
    }

    /// The targets that owe a replica of the frame that `task` names.
    pub fn owed_to(&self, task: &Task) -> Result<Vec<TargetId>> {
        let first = Task { target: 0, ..*task };
        let prefix = &keys::owed(&first)[..25];
        let env = self.env()?;
        let txn = env.read_txn()?;
        let mut found = Vec::new();
        for entry in env.records.prefix_iter(&txn, prefix)? {
            found.extend(keys::task(entry?.0).map(|task| task.target));
        }
        Ok(found)
    }

    /// Returns up to `limit` owed replicas after `after`, in order of objects.
    pub fn owed(&self, after: Option<&Task>, limit: usize) -> Result<Vec<(Task, Owed)>> {
        let start = after.map_or_else(|| [keys::OWED_LETTER].as_slice().into(), keys::owed);
        let env = self.env()?;
        let txn = env.read_txn()?;
        let bounds = (std::ops::Bound::Excluded(start.as_slice()), std::ops::Bound::Unbounded);
        let mut found = Vec::new();
        for entry in env.records.range(&txn, &bounds)?.take(limit) {
            let (key, value) = entry?;
            match keys::task(key).filter(|_| key.first() == Some(&keys::OWED_LETTER)) {
                Some(task) => found.push((task, decode(value, "an owed replica's record")?)),
                None => break,
            }
        }
        Ok(found)
    }

    /// Returns the last commit, and the first commit that owes a frame its only replica on a `lasting` target. Both come from one
    /// transaction: a replica that is registered later belongs to a later commit, and a power cut may undo that commit.
    pub fn tail_and_first_fleeting(&self, lasting: impl Fn(TargetId) -> bool) -> Result<(u64, Option<u64>)> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let mut first: Option<u64> = None;
        for entry in env.records.prefix_iter(&txn, &[keys::OWED_LETTER])? {
            let (key, value) = entry?;
            let Some(task) = keys::task(key).filter(|task| lasting(task.target)) else { continue };
            let owed: Owed = decode(value, "an owed replica's record")?;
            if first.is_some_and(|first| first <= owed.since) {
                continue;
            }
            let extent = self.frame_in(&env, &txn, &task, &owed.key)?;
            if extent.is_some_and(|extent| !extent.replicas.iter().any(|r| lasting(r.target))) {
                first = Some(owed.since);
            }
        }
        Ok((self.tail_in(&env, &txn)?.sequence, first))
    }

    /// Returns the number of owed replicas of one object, or of all.
    pub fn owed_count(&self, object: Option<u64>) -> Result<u64> {
        let Some(object) = object else { return Ok(self.owed_by_target()?.into_values().sum()) };
        let mut prefix = keys::Key::new();
        prefix.push(keys::OWED_LETTER);
        prefix.extend_from_slice(&object.to_be_bytes());
        let env = self.env()?;
        let txn = env.read_txn()?;
        Ok(env.records.prefix_iter(&txn, &prefix)?.count() as u64)
    }

    /// An extent of the frame that a task names; of a shared frame, the whole. `None` if neither an object nor a staged one holds
    /// it any more.
    pub fn frame(&self, task: &Task, key: &[u8]) -> Result<Option<Extent>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        self.frame_in(&env, &txn, task, key)
    }

    fn frame_in(&self, env: &Environment, txn: &RoTxn<'_>, task: &Task, key: &[u8]) -> Result<Option<Extent>> {
        let object = match self.object_in(env, txn, key)?.filter(|o| o.id == task.object) {
            Some(object) => object,
            None if env.records.get(txn, &keys::staged(task.object))?.is_some() => {
                super::apply::staged_object(task.object)
            }
            None => return shared::read_extent(env.records, txn, task),
        };
        let near = extents::load_frame(env.records, txn, &object, task.frame_offset, task.write)?;
        let frame = (task.write, task.frame_offset);
        match near.into_iter().find(|extent| extent.frame() == frame && extent.source.is_none()) {
            Some(extent) => Ok(Some(extent)),
            None => shared::read_extent(env.records, txn, task),
        }
    }

    /// Every segment of `target` with committed frames, live or dead.
    pub fn segments(&self, target: TargetId) -> Result<Vec<(u64, Live)>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let mut prefix = keys::Key::new();
        prefix.push(keys::SEGMENT_LETTER);
        prefix.extend_from_slice(&target.to_be_bytes());
        let mut found = Vec::new();
        for entry in env.records.prefix_iter(&txn, &prefix)? {
            let (key, value) = entry?;
            if let Some(segment) = keys::number(key, 3) {
                found.push((segment, Live::read(value)?));
            }
        }
        Ok(found)
    }

    /// Returns the targets that hold frames of objects.
    pub fn targets_with_frames(&self) -> Result<Vec<TargetId>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let (mut found, mut next) = (Vec::new(), Some(0));
        // The rest of a target's segments is passed over as soon as one of them has frames.
        while let Some(start) = next.take() {
            let begin = keys::segments_on(start);
            for entry in env.records.range(&txn, &(Bound::Included(begin.as_slice()), Bound::Unbounded))? {
                let (key, value) = entry?;
                let Some((&keys::SEGMENT_LETTER, numbers)) = key.split_first() else { break };
                let Some(target) = numbers.first_chunk().map(|bytes| TargetId::from_be_bytes(*bytes)) else { continue };
                if Live::read(value)?.frames > 0 {
                    found.push(target);
                    next = target.checked_add(1);
                    break;
                }
            }
        }
        Ok(found)
    }

    /// The counts of one segment of `target`. `None` if no commit has ever named a frame in it.
    pub fn segment(&self, target: TargetId, segment: u64) -> Result<Option<Live>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        env.records.get(&txn, &keys::segment(target, segment))?.map(Live::read).transpose()
    }

    /// Staged objects that no key names yet, each with its intended key.
    pub fn staged(&self) -> Result<Vec<(u64, Vec<u8>)>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let mut found = Vec::new();
        for entry in env.records.prefix_iter(&txn, &[keys::STAGED_LETTER])? {
            let (key, value) = entry?;
            found.extend(keys::number(key, 1).map(|object| (object, value.to_vec())));
        }
        Ok(found)
    }

    /// Reads one record, whose `name` is for errors.
    pub(crate) fn read_record<T: for<'de> Deserialize<'de>>(&self, key: &[u8], name: &str) -> Result<Option<T>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        env.records.get(&txn, key)?.map(|value| decode(value, name)).transpose()
    }

    /// The extents of a staged object.
    pub fn staged_extents(&self, object: u64) -> Result<Vec<Extent>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        extents::load(env.records, &txn, &super::apply::staged_object(object), 0, u64::MAX)
    }

    /// The end of the log.
    pub fn tail(&self) -> Result<Tail> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        self.tail_in(&env, &txn)
    }

    /// The files of the log up to its end, oldest first, each named by the first sequence in it. What a power cut or a kill has left behind
    /// the end is none of them.
    pub fn log_files(&self) -> Result<Vec<u64>> {
        // Before the list: the log may go on in another file meanwhile, and then some of what lay behind the end is in front of it.
        let end = self.tail()?.file;
        let mut files = self.log.files()?;
        files.retain(|file| *file <= end);
        Ok(files)
    }

    /// The last commit that a sync mark covers; with a shared log, the last one up to which the persistent targets of all nodes that are
    /// there are synced.
    pub fn synced(&self) -> Result<u64> {
        if self.is_shared() {
            let live = self.members()?;
            let is_there = |incarnation| live.iter().any(|(known, _)| *known == incarnation);
            let served = self.all_served()?.into_iter().map(|(_, served)| served);
            let synced = served.filter(|served| served.persistent && is_there(served.incarnation)).map(|s| s.synced);
            return Ok(synced.min().unwrap_or(0));
        }
        let env = self.env()?;
        let txn = env.read_txn()?;
        self.synced_in(&env, &txn)
    }

    pub(super) fn synced_in(&self, env: &Environment, txn: &RoTxn<'_>) -> Result<u64> {
        let value = env.records.get(txn, keys::SYNCED_KEY)?;
        Ok(value.map(|v| decode(v, "the last sync mark")).transpose()?.unwrap_or(0))
    }

    /// The bytes of all pages with records.
    pub fn used_bytes(&self) -> Result<u64> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let stat = env.records.stat(&txn)?;
        Ok((stat.branch_pages + stat.leaf_pages + stat.overflow_pages) as u64 * u64::from(stat.page_size))
    }

    /// Every record, for comparing catalogs. It omits leases, and the records of ids and of the log's end, which a rebuild may
    /// increase.
    pub fn dump(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let mut all = Vec::new();
        for entry in env.records.iter(&txn)? {
            let (key, value) = entry?;
            if ![keys::TAIL_KEY, keys::NEXT_ID, keys::OLDEST_SEGMENT_KEY].contains(&key)
                && key.first() != Some(&keys::LEASE_LETTER)
            {
                all.push((key.to_vec(), value.to_vec()));
            }
        }
        Ok(all)
    }
}
