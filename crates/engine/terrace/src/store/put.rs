//! Writes objects: whole, in ranges, or truncated to a length.

use std::io::Read;

use terrace_catalog::{Attributes, Change, Commit, Edit, Expect};
use terrace_codec::Element;
use terrace_format::key;
use terrace_system::clock::unix_nanos;

use super::Store;
use super::stale::retry_if_stale;
use crate::config::Ack;
use crate::origins::forget_origin;
use crate::place::{PutOptions, WritePolicy};
use crate::sparse::{Dense, ReadHoles};
use crate::write::{Draft, OwedTo, Receipt, Update};
use crate::{Error, Result};

/// A whole object that is written, and the rest of its commit.
pub(super) struct Put<'a> {
    pub key: &'a [u8],
    /// The key whose rules apply: that of the object that this one becomes a part of, or its own.
    pub ruled_by: &'a [u8],
    pub expect: Vec<Expect>,
    /// The edits that follow.
    pub then: Vec<Edit>,
}

impl Put<'_> {
    pub fn alone(key: &[u8]) -> Put<'_> {
        Put { key, ruled_by: key, expect: Vec::new(), then: Vec::new() }
    }
}

impl Store {
    /// Writes a whole object from `bytes`. An object that has the key already is replaced at once.
    pub fn put_bytes(&self, key: &[u8], bytes: &[u8], options: &PutOptions) -> Result<Receipt> {
        let (mut receipt, ack) = self.put_bytes_at_once(key, bytes, options)?;
        self.wait_if_asked(&mut receipt, ack)?;
        Ok(receipt)
    }

    /// Writes a whole object from `bytes` as [`Store::put_bytes`] does, but returns once they are placed. [`Store::wait`]
    /// then waits for the acknowledgement that was asked for, which is also returned.
    pub fn put_bytes_at_once(&self, key: &[u8], bytes: &[u8], options: &PutOptions) -> Result<(Receipt, Ack)> {
        let block = self.engine.writer.block_bytes;
        let add = |draft: &mut Draft<'_>| bytes.chunks(block).try_for_each(|block| draft.add(block));
        retry_if_stale(|| self.put_by(Put::alone(key), options, add, |_| ()))
    }

    /// Writes a whole object, read to its end from `source`, in bounded memory. It becomes visible completely or not at all.
    /// An object that has the key already is replaced.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if no tier takes the bytes, [`Error::Conflict`] if another file's key is a path prefix of this one
    /// or this one of another's.
    pub fn put(&self, key: &[u8], source: impl Read, options: &PutOptions) -> Result<Receipt> {
        self.put_source(key, Dense(source), options, |_| ())
    }

    /// Like [`Store::put`], but holes of `source` become holes of the object, which take no space.
    pub fn put_sparse(&self, key: &[u8], source: impl ReadHoles, options: &PutOptions) -> Result<Receipt> {
        self.put_source(key, source, options, |_| ())
    }

    /// Writes a whole object as [`Store::put`] does. `describe` completes its attributes once `source` has been read to its end,
    /// so that they can hold digests of the bytes.
    pub fn put_described(
        &self,
        key: &[u8],
        source: impl Read,
        options: &PutOptions,
        describe: impl FnOnce(&mut Attributes),
    ) -> Result<Receipt> {
        self.put_source(key, Dense(source), options, describe)
    }

    fn put_source(
        &self,
        key: &[u8],
        mut source: impl ReadHoles,
        options: &PutOptions,
        describe: impl FnOnce(&mut Attributes),
    ) -> Result<Receipt> {
        let (mut receipt, ack) = self.put_by(Put::alone(key), options, |draft| draft.fill(&mut source), describe)?;
        self.wait_if_asked(&mut receipt, ack)?;
        Ok(receipt)
    }

    pub(super) fn put_by(
        &self,
        put: Put<'_>,
        options: &PutOptions,
        write: impl FnOnce(&mut Draft<'_>) -> Result<()>,
        describe: impl FnOnce(&mut Attributes),
    ) -> Result<(Receipt, Ack)> {
        let Put { key, ruled_by, mut expect, mut then } = put;
        self.check_changeable(key)?;
        options.check_for(&self.engine.tiers)?;
        let engine = &self.engine;
        let (policy, kept) = (engine.planning.policy(ruled_by, options), options.lasting().to_kept()?);
        engine.mover.note_rules(&policy.rules)?;
        let object = engine.catalog.next_id()?;
        let mut draft = engine.writer.draft(&*engine.mover, key, object, &policy, options.element);
        if ruled_by != key {
            draft.plan_as(ruled_by, &policy, options.element);
        }
        if let Err(e) = write(&mut draft) {
            draft.abandon();
            return Err(e);
        }
        let mut attributes = options.attributes.clone().unwrap_or_else(Attributes::now);
        kept.store_in(&mut attributes.user);
        describe(&mut attributes);
        // A copy of a file of an origin is an object of its own.
        forget_origin(&mut attributes);
        expect.extend(options.conditions(key));
        let length = draft.offset;
        let extents = draft.extents.clone();
        let (want, staged) = (draft.want(), draft.staged);
        let mut edits = vec![Edit::Put { key: key.to_vec(), object, length, want, attributes, staged, extents }];
        edits.append(&mut then);
        terrace_system::fail::point("put:written");
        if draft.owed > 0 && (options.says_how() || ruled_by != key) {
            engine.mover.remember(object, policy.wanted);
        }
        let commit = match engine.catalog.commit(Change { expect, edits }) {
            Ok(commit) => commit,
            Err(e) => {
                draft.abandon();
                return Err(e.into());
            }
        };
        engine.mover.note_written(&policy.rules, &[key]);
        terrace_system::fail::point("put:committed");
        let receipt = self.receipt(commit.sequence, &policy, &draft, length)?;
        Ok((receipt, policy.wanted.ack))
    }

    /// Writes `bytes` at `offset` of an object, which is created if the key does not exist. Other ranges of the object are
    /// not read and do not change, even if others write them at the same time.
    pub fn write_at(&self, key: &[u8], offset: u64, bytes: &[u8], options: &PutOptions) -> Result<Receipt> {
        self.write_all_at(key, &[(offset, bytes)], options)
    }

    /// Writes several ranges of an object, each at its offset. All become visible by one commit. Where they overlap, the
    /// later one wins.
    pub fn write_all_at(&self, key: &[u8], ranges: &[(u64, &[u8])], options: &PutOptions) -> Result<Receipt> {
        self.check_changeable(key)?;
        options.check_for(&self.engine.tiers)?;
        loop {
            let object = self.engine.catalog.object(key)?;
            let kept = self.engine.planning.kept.of(key, object.as_ref())?;
            let policy = self.engine.planning.policy(key, &options.clone().over(&kept));
            let named = object.map(|object| object.id);
            match self.write_ranges(key, named, ranges, unix_nanos(), &policy, options.element) {
                // The object was replaced meanwhile. The bytes belong to the new one.
                Err(Error::Conflict { .. }) if self.engine.catalog.object(key)?.map(|o| o.id) != named => {}
                done => return done,
            }
        }
    }

    /// Writes to the object with number `named`, or creates one. All ranges become visible by one commit.
    pub(crate) fn write_ranges(
        &self,
        key: &[u8],
        named: Option<u64>,
        ranges: &[(u64, &[u8])],
        mtime: i64,
        policy: &WritePolicy,
        element: Option<Element>,
    ) -> Result<Receipt> {
        retry_if_stale(|| {
            let mut draft = self.draft(key, named, policy, element)?;
            let commit = draft.commit_ranges(&Update { named, length: None, ranges, mtime })?;
            self.acknowledge_ranges(commit, policy, &draft, ranges)
        })
    }

    /// Begins to write to the object with number `named`, or to a new one.
    pub(super) fn draft<'a>(
        &'a self,
        key: &'a [u8],
        named: Option<u64>,
        policy: &WritePolicy,
        element: Option<Element>,
    ) -> Result<Draft<'a>> {
        let engine = &self.engine;
        engine.mover.note_rules(&policy.rules)?;
        let object = named.map_or_else(|| engine.catalog.next_id(), Ok)?;
        let mut draft = engine.writer.draft(&*engine.mover, key, object, policy, element);
        draft.stays_plain(named.is_some())?;
        Ok(draft)
    }

    pub(super) fn acknowledge_ranges(
        &self,
        commit: Commit,
        policy: &WritePolicy,
        draft: &Draft<'_>,
        ranges: &[(u64, &[u8])],
    ) -> Result<Receipt> {
        self.engine.mover.note_written(&policy.rules, &[draft.key]);
        ranges.iter().for_each(|(_, bytes)| self.engine.mover.note_range(draft.key, bytes.len()));
        let length = ranges.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        self.acknowledge(commit.sequence, policy, draft, length)
    }

    /// Truncates an object to `length` bytes, or extends it with zeros.
    pub fn set_length(&self, key: &[u8], length: u64) -> Result<()> {
        self.check_changeable(key)?;
        key::check_end(key, 0, length)?;
        let expect = vec![Expect::Exists(key.to_vec())];
        self.engine.catalog.commit(Change {
            expect,
            edits: vec![Edit::SetLength { key: key.to_vec(), length, mtime: unix_nanos() }],
        })?;
        self.engine.mover.follow_cut();
        Ok(())
    }

    pub(super) fn acknowledge(
        &self,
        generation: u64,
        policy: &WritePolicy,
        draft: &Draft<'_>,
        bytes: u64,
    ) -> Result<Receipt> {
        let mut receipt = self.receipt(generation, policy, draft, bytes)?;
        self.wait_if_asked(&mut receipt, policy.wanted.ack)?;
        Ok(receipt)
    }

    pub(super) fn wait_if_asked(&self, receipt: &mut Receipt, ack: Ack) -> Result<()> {
        if ack > Ack::Placed { self.wait(receipt, ack) } else { Ok(()) }
    }

    /// Makes the receipt of a commit. Starts the mover if the caller will not wait for pending replicas.
    fn receipt(&self, generation: u64, policy: &WritePolicy, draft: &Draft<'_>, bytes: u64) -> Result<Receipt> {
        let want = draft.want();
        let mut receipt = Receipt {
            key: draft.key.to_vec(),
            object: draft.object,
            generation,
            want,
            asked: policy.asked,
            possible: policy.wanted.replicas,
            memory_left_out: policy.memory_left_out,
            range: draft.range.clone(),
            have: draft.have.unwrap_or(want),
            durable: false,
            owed: draft.owed,
            owed_to: Vec::new(),
            bytes,
            stored: draft.stored,
            is_slow: draft.is_slow,
        };
        for &(target, replicas) in &draft.owed_to {
            let device = self.engine.tiers.device(target)?;
            let tier = self.engine.tiers.tier(device).name.clone();
            receipt.owed_to.push(OwedTo { tier, target: device.path.display().to_string(), replicas });
        }
        self.engine.mover.count_lacking(draft.lacking);
        self.engine.mover.start(draft.owed > 0 && policy.wanted.ack == Ack::Placed);
        Ok(receipt)
    }
}
