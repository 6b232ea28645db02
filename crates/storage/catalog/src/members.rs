//! The index's knowledge of the nodes that share its log: who may append, who serves which target, how far each target is synced, and
//! which places may be given back. All of it comes from the log, so that all nodes decide alike.

use std::collections::BTreeMap;

use heed::RoTxn;
use serde::{Deserialize, Serialize};
use terrace_format::{Change, Edit, PLAIN_SEGMENT_BIT, Place, Replica, TargetId, Task};

use super::apply::{Applier, Live};
use super::environment::Environment;
use super::verdict::Verdict;
use super::{Catalog, Records, decode, keys};
use crate::Result;

/// The numbers that an incarnation gives to objects, writes and segments begin with its short number, above this many bits of a counter.
const NUMBER_COUNTER_BITS: u32 = 39;

/// An incarnation of a node that may append records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The number of its next record.
    pub next: u64,
    /// Its short number, from 1; 0 before it has joined.
    pub short: u32,
    /// The node's name.
    pub node: String,
    /// The last commit that its index had when it last reported.
    pub reported: u64,
    /// The objects that its clients pinned then, each with a generation.
    pub pins: Vec<(u64, u64)>,
}

/// A target that a node serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// The incarnation of the node.
    pub incarnation: u64,
    /// Its short number.
    pub short: u32,
    /// Whether synced frames survive a loss of power.
    pub persistent: bool,
    /// Whether frames that were not synced may be gone.
    pub doubtful: bool,
    /// All frames that commits up to this one name are synced.
    pub synced: u64,
}

/// Returns the lowest number of an object, a write or a segment that the incarnation with this short number gives out.
pub fn first_number(short: u32) -> u64 {
    u64::from(short) << NUMBER_COUNTER_BITS
}

/// Returns the short number of the incarnation that made a segment.
fn short_of(place: Place) -> u64 {
    (place.segment & !PLAIN_SEGMENT_BIT) >> NUMBER_COUNTER_BITS
}

impl Catalog {
    /// Returns an incarnation that may append records.
    pub fn member(&self, incarnation: u64) -> Result<Option<Member>> {
        self.read_record(&keys::incarnation(incarnation), "the record of an incarnation")
    }

    /// Returns all incarnations that may append records.
    pub fn members(&self) -> Result<Vec<(u64, Member)>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        members_in(&env, &txn)
    }

    /// Returns a target that a node serves, or served when it was last there.
    pub fn served(&self, target: TargetId) -> Result<Option<Served>> {
        self.read_record(&keys::served(target), "the record of a served target")
    }

    /// Returns all targets that a node serves, or served when it was last there.
    pub fn all_served(&self) -> Result<Vec<(TargetId, Served)>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        served_in(env.records, &txn)
    }

    /// Returns the last commit up to which no loss of power takes a frame that is still needed on a persistent target, whether its node
    /// is there or not.
    pub fn settled(&self) -> Result<u64> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        settled_in(env.records, &txn)
    }

    /// Returns the last commit whose freed places may be given back.
    pub fn floor(&self) -> Result<u64> {
        Ok(self.read_record(keys::FLOOR_KEY, "the floor of a shared log")?.unwrap_or(0))
    }
}

/// Returns the targets that a node serves or served.
fn served_in(records: Records, txn: &RoTxn<'_>) -> Result<Vec<(TargetId, Served)>> {
    let mut all = Vec::new();
    for entry in records.prefix_iter(txn, &[keys::SERVED_LETTER])? {
        let (key, value) = entry?;
        let target = key.get(1..3).and_then(|bytes| bytes.try_into().ok()).map_or(0, TargetId::from_be_bytes);
        all.push((target, decode(value, "the record of a served target")?));
    }
    Ok(all)
}

/// See [`Catalog::settled`]. A target that holds no needed frame of a commit after its mark, such as one that was emptied because its
/// node is away, limits nothing.
fn settled_in(records: Records, txn: &RoTxn<'_>) -> Result<u64> {
    let mut settled = u64::MAX;
    for (target, served) in served_in(records, txn)?.into_iter().filter(|(_, served)| served.persistent) {
        for entry in records.prefix_iter(txn, &keys::segments_on(target))? {
            let live = Live::read(entry?.1)?;
            if live.frames > 0 && live.sequence > served.synced {
                settled = settled.min(served.synced);
                break;
            }
        }
    }
    Ok(settled)
}

fn members_in(env: &Environment, txn: &RoTxn<'_>) -> Result<Vec<(u64, Member)>> {
    let mut members = Vec::new();
    for entry in env.records.prefix_iter(txn, &[keys::INCARNATION_LETTER])? {
        let (key, value) = entry?;
        let incarnation = keys::number(key, 1).unwrap_or(0);
        members.push((incarnation, decode(value, "the record of an incarnation")?));
    }
    Ok(members)
}

/// Adds what the clients of all nodes had pinned at their last reports.
pub(super) fn add_pins(env: &Environment, txn: &RoTxn<'_>, oldest: &mut BTreeMap<u64, u64>) -> Result<()> {
    for (object, generation) in members_in(env, txn)?.into_iter().flat_map(|(_, member)| member.pins) {
        let known = oldest.entry(object).or_insert(generation);
        *known = generation.min(*known);
    }
    Ok(())
}

impl Applier<'_, '_> {
    fn record<T: for<'de> Deserialize<'de>>(&self, key: &[u8], name: &str) -> Result<Option<T>> {
        self.records.get(self.txn, key)?.map(|value| decode(value, name)).transpose()
    }

    pub(super) fn member(&self, incarnation: u64) -> Result<Member> {
        Ok(self.record(&keys::incarnation(incarnation), "the record of an incarnation")?.unwrap_or_default())
    }

    pub(super) fn put_member(&mut self, incarnation: u64, member: &Member) -> Result<()> {
        self.put(&keys::incarnation(incarnation), member)
    }

    fn served(&self, target: TargetId) -> Result<Option<Served>> {
        self.record(&keys::served(target), "the record of a served target")
    }

    pub(super) fn join(&mut self, incarnation: u64, node: &str) -> Result<Verdict> {
        let member = self.member(incarnation)?;
        if member.short > 0 {
            return Ok(Verdict::Refused);
        }
        let joined: u32 = self.record(keys::JOINED_KEY, "the number of incarnations")?.unwrap_or(0);
        self.put(keys::JOINED_KEY, &(joined + 1))?;
        self.put_member(incarnation, &Member { short: joined + 1, node: node.to_owned(), ..member })?;
        Ok(Verdict::Done(self.sequence))
    }

    pub(super) fn leave(&mut self, incarnation: u64) -> Result<Verdict> {
        self.records.delete(self.txn, &keys::incarnation(incarnation))?;
        Ok(Verdict::Done(self.sequence))
    }

    pub(super) fn report(&mut self, incarnation: u64, sequence: u64, pins: &[(u64, u64)]) -> Result<Verdict> {
        let member = self.member(incarnation)?;
        let reported = member.reported.max(sequence.min(self.sequence));
        self.put_member(incarnation, &Member { reported, pins: pins.to_vec(), ..member })?;
        Ok(Verdict::Done(self.sequence))
    }

    pub(super) fn serve(
        &mut self,
        incarnation: u64,
        target: TargetId,
        persistent: bool,
        doubtful: bool,
    ) -> Result<Verdict> {
        let short = self.member(incarnation)?.short;
        let before = self.served(target)?;
        // The one that joined later is the target's present node. Before it has joined, nobody knows its segments.
        if short == 0 || before.is_some_and(|before| before.short > short) || self.is_retired(target)? {
            return Ok(Verdict::Refused);
        }
        let synced = before.map_or(0, |before| before.synced);
        let doubtful = doubtful || before.is_some_and(|before| before.doubtful);
        self.put(&keys::served(target), &Served { incarnation, short, persistent, doubtful, synced })?;
        Ok(Verdict::Done(self.sequence))
    }

    pub(super) fn note_synced(&mut self, incarnation: u64, target: TargetId, sequence: u64) -> Result<Verdict> {
        let Some(served) = self.served(target)?.filter(|served| served.incarnation == incarnation) else {
            return Ok(Verdict::Refused);
        };
        let synced = served.synced.max(sequence.min(self.sequence));
        self.put(&keys::served(target), &Served { synced, doubtful: false, ..served })?;
        Ok(Verdict::Done(self.sequence))
    }

    /// Raises the floor, unless a live node is not that far, or a persistent target has frames that are not synced: then bytes that
    /// replace freed ones could still be lost.
    pub(super) fn raise_floor(&mut self, sequence: u64) -> Result<Verdict> {
        let mut limit = self.sequence;
        for entry in self.records.prefix_iter(self.txn, &[keys::INCARNATION_LETTER])? {
            let member: Member = decode(entry?.1, "the record of an incarnation")?;
            limit = limit.min(member.reported);
        }
        limit = limit.min(settled_in(self.records, self.txn)?);
        let floor: u64 = self.record(keys::FLOOR_KEY, "the floor of a shared log")?.unwrap_or(0);
        if sequence > limit || sequence <= floor {
            return Ok(Verdict::Refused);
        }
        self.put(keys::FLOOR_KEY, &sequence)?;
        Ok(Verdict::Done(self.sequence))
    }

    /// Returns whether a change names a new frame of an incarnation that does not serve the frame's target any more, or of a target that
    /// was taken out of the store.
    pub(super) fn names_stale_frame(&mut self, change: &Change) -> Result<bool> {
        let mut replicas: Vec<&Replica> = Vec::new();
        for edit in &change.edits {
            match edit {
                // It names frames that are there.
                Edit::Share { .. } => {}
                Edit::Made { replica, .. } => replicas.push(replica),
                edit => {
                    let new = edit.new_extents().map_or(&[][..], |(_, new)| new);
                    replicas.extend(new.iter().flat_map(|new| &new.extent.replicas));
                }
            }
        }
        for replica in replicas {
            let is_stale = |served: Served| u64::from(served.short) != short_of(replica.place);
            if self.served(replica.target)?.is_some_and(is_stale) || self.is_retired(replica.target)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether the frame of a task has a replica beside that of the task's target which no loss of power takes, and which a live
    /// node serves.
    pub(super) fn has_other_synced(&self, task: &Task, key: &[u8]) -> Result<bool> {
        let is_named = self.object(key)?.is_some_and(|object| object.id == task.object);
        let is_staged = self.records.get(self.txn, &keys::staged(task.object))?.is_some();
        if !is_named && !is_staged && self.shared(task)?.is_none() {
            return Ok(false);
        }
        for replica in self.replicas_of(task, key)?.iter().filter(|replica| replica.target != task.target) {
            if self.is_synced(replica)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_synced(&self, replica: &Replica) -> Result<bool> {
        let Some(served) = self.served(replica.target)?.filter(|served| served.persistent && !served.doubtful) else {
            return Ok(false);
        };
        let is_live = self.records.get(self.txn, &keys::incarnation(served.incarnation))?.is_some();
        Ok(is_live && self.last_added(replica.target, replica.place.segment)? <= served.synced)
    }
}
