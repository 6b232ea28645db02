//! Makes pending replicas.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use terrace_catalog::{Change, Edit, Expect, Extent, Object, Owed, Replica, TargetId, Task};
use terrace_codec::Encoding;
use terrace_format::frame::Identity;
use terrace_plan::policy::Policy;

use super::Mover;
use super::claimed::Claimed;
use super::edits::owe_instead;
use crate::Result;
use crate::devices::Device;
use crate::place::{Placer, element_of};
use crate::report::{Lacking, TierState};
use crate::write::KeptBytes;

/// Replicas that were made and are not yet registered. No other thread makes them meanwhile.
pub(super) struct Made<'a> {
    pub claimed: Claimed<'a>,
    pub changes: Vec<Change>,
    /// The number of finished tasks.
    pub done: usize,
}

impl Mover {
    /// Makes these pending replicas, as far as their targets allow. Returns the number of tasks that are no longer pending.
    /// An object that is being written to becomes a plain file once the writes have stopped, or now if `at_once`.
    pub(super) fn make(&self, tasks: &[(Task, Owed)], at_once: bool) -> Result<usize> {
        let mut made = Made { claimed: Claimed::none(self), changes: Vec::new(), done: 0 };
        tasks.iter().try_for_each(|(task, owed)| self.make_next(&mut made, task, owed, at_once))?;
        self.register(made)
    }

    /// Makes one more replica, unless the store is being closed, or another thread makes it or has made it.
    pub(super) fn make_next(&self, made: &mut Made<'_>, task: &Task, owed: &Owed, at_once: bool) -> Result<()> {
        let stopping = self.state.stopping.load(Ordering::Acquire);
        if stopping || !made.claimed.claim(*task) || !self.catalog.is_owed(task)? {
            return Ok(());
        }
        let placer = self.placer_for(task.object, &owed.key)?;
        if placer.has_budget() {
            // The rest of a budget depends on each replica of the extent, so they are made one after the other.
            self.commit_made(made)?;
            if !made.claimed.claim_frame(*task) {
                return Ok(());
            }
        }
        let Some(extent) = self.catalog.frame(task, &owed.key)? else {
            made.done += self.drop_stale_task(task, &owed.key)?;
            return Ok(());
        };
        let device = self.tiers.device(task.target)?;
        let is_shared = extent.source.is_some();
        if is_shared && self.planning.rules.now().is_plain(device.tier, &owed.key) {
            // The object gets frames of its own, and its other owners keep this one. If there are none, the replica is no
            // longer pending.
            self.unshare(&owed.key)?;
            if !self.catalog.is_owed(task)? {
                made.done += 1;
                return Ok(());
            }
        }
        if device.state() == TierState::Ok
            && !is_shared
            && self.planning.rules.now().is_plain(device.tier, &owed.key)
            && let Some(done) = self.make_plain(device, task.object, &owed.key, at_once)?
        {
            made.done += done;
            return Ok(());
        }
        if let Some(edits) = self.make_one(task, owed, &extent, &placer)? {
            made.changes.push(Change { expect: self.expect_when_made(task, owed), edits });
        }
        Ok(())
    }

    /// Commits the replicas that were made. Returns the number of tasks that are no longer pending.
    pub(super) fn register(&self, mut made: Made<'_>) -> Result<usize> {
        self.commit_made(&mut made)?;
        Ok(made.done)
    }

    fn commit_made(&self, made: &mut Made<'_>) -> Result<()> {
        terrace_system::fail::point("mover:copied");
        let changes = std::mem::take(&mut made.changes);
        if !changes.is_empty() {
            for (result, change) in self.catalog.commit_many(&changes)?.into_iter().zip(&changes) {
                match result {
                    Err(terrace_catalog::Error::Conflict { .. }) => self.register_beside(change)?,
                    result => drop(result?),
                }
            }
            self.state.registrations.add();
        }
        terrace_system::fail::point("mover:committed");
        made.done += changes.len();
        Ok(())
    }

    /// Returns the edit with which an object wants no more replicas than the budget pays for, unless others of the extent are pending.
    /// Otherwise each repair would make them again, only to drop them.
    fn want_at_most(&self, task: &Task, owed: &Owed, left: usize) -> Result<Option<Edit>> {
        let object = self.catalog.object(&owed.key)?.filter(|object| object.id == task.object);
        let wants_more = |object: &Object| usize::from(object.want) > left && left > 0;
        match object.filter(wants_more) {
            Some(object) if self.catalog.owed_to(task)?.len() <= 1 => {
                Ok(Some(Edit::Want { key: owed.key.clone(), object: object.id, want: left as u8 }))
            }
            _ => Ok(None),
        }
    }

    /// Deletes the task of a replica whose extent no longer exists, unless its object has just been renamed.
    fn drop_stale_task(&self, task: &Task, key: &[u8]) -> Result<usize> {
        self.writer.kept.forget(task);
        // The object may have been renamed, and back again, since it was looked for.
        let expect = vec![Expect::Owed(*task, key.to_vec()), Expect::NoFrame(*task, key.to_vec())];
        match self.catalog.commit(Change { expect, edits: vec![Edit::Forgive { task: *task }] }) {
            Ok(_) => Ok(1),
            Err(terrace_catalog::Error::Conflict { .. }) => Ok(0),
            Err(e) => Err(e.into()),
        }
    }

    /// Makes one pending replica. Returns the edits that register it, or none if it cannot be made now.
    fn make_one(&self, task: &Task, owed: &Owed, extent: &Extent, placer: &Placer<'_>) -> Result<Option<Vec<Edit>>> {
        let device = self.tiers.device(task.target)?;
        let more = owed.then_drop.is_none() && extent.replicas.iter().all(|r| r.target != task.target);
        if more && self.would_leave(device, extent) {
            return self.owe_below_instead(task, owed, extent, device).map(Some);
        }
        match device.state() {
            TierState::Ok => {}
            TierState::Full | TierState::ReadOnly if extent.replicas.iter().any(|r| r.target == task.target) => {
                // It was to be compacted. The existing replica stays where it is.
                return Ok(Some(vec![Edit::Forgive { task: *task }]));
            }
            TierState::Full | TierState::ReadOnly => return self.owe_elsewhere(task, owed, extent),
            TierState::Away => return Ok(None),
        }
        let kept = self.writer.kept.get(task);
        let read = || Some(KeptBytes { raw: self.reader.read_frame(task.object, extent)?, encoded: None });
        let Some(bytes) = kept.or_else(|| read().map(Arc::new)) else {
            // Nobody needs to wait for a replica that can never be made.
            let is_impossible = self.reader.is_changed_by_owner(task.object, extent);
            return Ok(is_impossible.then(|| vec![Edit::Forgive { task: *task }]));
        };
        let replica = extent.replicas.len() as u8;
        let identity = Identity { object: task.object, write: task.write, offset: task.frame_offset, replica };
        // Released before the bytes are studied, which takes long.
        let planned = self.state.encodings.lock().get(task).copied();
        let encoding = match planned {
            Some(planned) => planned,
            None => placer.encoding(device, extent, &bytes.raw, self.catalog.owed_to(task)?.len()),
        };
        let alike = extent.replicas.iter().find(|r| r.encoding == encoding).map_or(0, |r| r.stored);
        let least = if encoding == Encoding::NONE { extent.raw_len } else { alike };
        if more && !placer.affords(extent, device, least) {
            // The budget pays for fewer replicas than were planned.
            let mut edits = vec![Edit::Forgive { task: *task }];
            edits.extend(self.want_at_most(task, owed, extent.replicas.len())?);
            return Ok(Some(edits));
        }
        let encoding = placer.pinned_or(encoding);
        match device.append_one_of_several(identity, encoding, &bytes.raw, bytes.encoded.as_ref()) {
            Ok(replica) => {
                placer.note_appended(device, task.frame_offset, encoding, bytes.raw.len());
                self.writer.kept.made(task);
                self.register_within_budget(task, owed, extent, replica, more.then_some(placer)).map(Some)
            }
            Err(e) => {
                device.failed_to_write(&e);
                match device.state() {
                    TierState::Full | TierState::ReadOnly if more => self.owe_elsewhere(task, owed, extent),
                    _ => Ok(None),
                }
            }
        }
    }

    /// Returns the edits that register a replica, and drop what no budget pays for. A replica that replaces another one has no budget.
    fn register_within_budget(
        &self,
        task: &Task,
        owed: &Owed,
        extent: &Extent,
        replica: Replica,
        budget: Option<&Placer<'_>>,
    ) -> Result<Vec<Edit>> {
        let stored = replica.stored;
        let lose = |replica: &Replica| {
            let key = serde_bytes::ByteBuf::from(owed.key.clone());
            let task = Task { target: replica.target, ..*task };
            Edit::Lost { task, key, place: replica.place, owed: None }
        };
        // If the budget does not pay for the new one, it is registered and dropped in one commit, which frees its space.
        let dropped: Vec<Edit> = match budget {
            None => Vec::new(),
            Some(placer) if placer.affords(extent, self.tiers.device(task.target)?, stored) => {
                placer.replicas_over_budget(extent, stored).map(lose).collect()
            }
            Some(_) => vec![lose(&replica)],
        };
        let left = extent.replicas.len() + 1 - dropped.len();
        let wanted = if dropped.is_empty() { None } else { self.want_at_most(task, owed, left)? };
        let mut edits = vec![Edit::Made { task: *task, replica }];
        edits.extend(dropped);
        edits.extend(wanted);
        Ok(edits)
    }

    /// Returns the placer for an object's replicas: by the policy of its write, or by the rules.
    pub fn placer_for<'a>(&'a self, object: u64, key: &'a [u8]) -> Result<Placer<'a>> {
        let wish = self.state.wishes.lock().get(&object).copied();
        let policy = wish.map_or_else(|| self.policy_of(key), Ok)?;
        Ok(self.planning.placer(key, element_of(key), policy))
    }

    /// Returns the number of replicas that an extent should have if its object wants `want`. For a frame that several objects share, this is the
    /// highest number that any owner has wanted.
    pub fn wanted(&self, want: u8, object: u64, extent: &Extent) -> Result<u8> {
        if extent.source.is_none() {
            return Ok(want);
        }
        let shared = self.catalog.shared_frame(&extent.task(object, 0))?.filter(|frame| frame.owners > 1);
        Ok(shared.map_or(want, |frame| frame.want.max(want)))
    }

    /// Returns the policy of a key's object, from the options that were given with it and the rules.
    pub fn policy_of(&self, key: &[u8]) -> Result<Policy> {
        let object = self.catalog.object(key)?;
        Ok(self.planning.policy(key, &self.planning.kept.of_replicas(key, object.as_ref())).wanted)
    }

    /// Returns whether a replica would be evicted as soon as it was made: a volatile tier is at its high watermark, and the
    /// extent has a persistent replica on a lower tier.
    fn would_leave(&self, device: &Device, extent: &Extent) -> bool {
        let tier = self.tiers.tier(device);
        let below = |r: &Replica| self.outlives(r) && self.tiers.device(r.target).is_ok_and(|d| d.tier > device.tier);
        !tier.persistent
            && device.free_below(tier.high_watermark) < u64::from(extent.raw_len)
            && extent.replicas.iter().any(below)
    }

    /// Makes a replica pending on a lower tier instead, because it would be evicted as soon as it was made. If its object
    /// has enough replicas, or its rule allows no other failure domain, its task is deleted.
    fn owe_below_instead(&self, task: &Task, owed: &Owed, extent: &Extent, device: &Device) -> Result<Vec<Edit>> {
        let forgive = Edit::Forgive { task: *task };
        let placer = self.placer_for(task.object, &owed.key)?;
        let object = self.catalog.object(&owed.key)?.filter(|object| object.id == task.object);
        // What is being written is not at its key yet.
        let wanted = object.map_or(placer.count(usize::MAX) as u8, |object| object.want);
        let wanted = usize::from(self.wanted(wanted, task.object, extent)?);
        if extent.replicas.len() >= wanted {
            return Ok(vec![forgive]);
        }
        let chosen = self.targets_of(task.object, extent)?;
        let lower = device.tier + 1..self.tiers.tiers.len();
        let target = placer.choose_target(placer.allowed(lower.clone()), extent, &chosen, true);
        let Some(target) = target.or_else(|| placer.for_later(lower, 1, &chosen).first().copied()) else {
            let left = chosen.iter().filter(|target| **target != task.target).count();
            self.note_will_lack(Lacking::of(left, wanted));
            return Ok(vec![forgive]);
        };
        Ok(owe_instead(&owed.key, *task, target, owed.raw_len, None).into())
    }

    /// Makes a replica pending on another target, if there is one, because its target does not take it.
    fn owe_elsewhere(&self, task: &Task, owed: &Owed, extent: &Extent) -> Result<Option<Vec<Edit>>> {
        let others = self.catalog.owed_to(task)?.into_iter().filter(|target| *target != task.target);
        let chosen: Vec<TargetId> = extent.replicas.iter().map(|r| r.target).chain(others).collect();
        let places = self.placer_for(task.object, &owed.key)?.plan_more(extent, 1, &chosen);
        // Its own target may be usable again by now. Then the replica stays pending there.
        let Some(target) = places.first().map(|placed| placed.target).filter(|target| *target != task.target) else {
            return Ok(None);
        };
        let persistent = |target| self.tiers.device(target).is_ok_and(|d| self.tiers.tier(d).persistent);
        // A move must not make a persistent replica volatile, and one that is pending on a disk must not become one in memory: a durable
        // write has counted it. It waits until there is room.
        if !persistent(target) && (persistent(task.target) || owed.then_drop.is_some_and(persistent)) {
            return Ok(None);
        }
        Ok(Some(owe_instead(&owed.key, *task, target, owed.raw_len, owed.then_drop).into()))
    }
}
