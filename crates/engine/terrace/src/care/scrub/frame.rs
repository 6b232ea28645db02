//! Scrubs a frame: reads each of its replicas, and replaces those that are bad or missing.

use std::io;

use smallvec::SmallVec;
use terrace_catalog::{Edit, Extent, Replica, Task};
use terrace_format::key::show;

use super::{FrameState, Scrub, Subject};
use crate::Result;
use crate::devices::Device;
use crate::home::BadReplica;
use crate::mover::Repair;
use crate::origins::is_at_origin;
use crate::read::{Suspect, is_changed_by_owner, means_bad_replica, task_of};
use crate::report::{Lacking, TierState};

/// The replicas of a frame, after all were read.
#[derive(Default)]
struct Replicas {
    good: usize,
    away: u64,
    /// Those that are damaged, and that a good one may replace.
    damaged: Vec<Suspect>,
    /// Those in adopted files that their owners have changed.
    changed: Vec<Suspect>,
}

/// Returns whether the error of a read says nothing about a replica, because its target cannot be asked, or another one is in its place.
fn is_out_of_reach(device: &Device, error: &io::Error) -> bool {
    use io::ErrorKind::*;
    match error.kind() {
        NotConnected | TimedOut | ConnectionRefused | ConnectionReset | ConnectionAborted | HostUnreachable
        | NetworkUnreachable | AlreadyExists | ResourceBusy => true,
        // A sector that cannot be read is damage, unless all of the target fails.
        _ => !means_bad_replica(error) && device.target.check_again().is_err(),
    }
}

impl Scrub<'_> {
    pub(super) fn scrub_frame(&mut self, subject: Subject, extent: &Extent) -> Result<FrameState> {
        let mut replicas = Replicas::default();
        for replica in &extent.replicas {
            self.scrub_replica(subject, extent, replica, &mut replicas)?;
        }
        self.found.away += replicas.away;
        if replicas.good == 0 {
            return self.scrub_without_good(subject, extent, &replicas);
        }
        if self.repair {
            self.replace(&replicas)?;
        }
        self.count_lacking(subject, extent)?;
        Ok(FrameState::Good)
    }

    fn scrub_replica(
        &mut self,
        subject: Subject,
        extent: &Extent,
        replica: &Replica,
        replicas: &mut Replicas,
    ) -> Result<()> {
        let care = self.care;
        let device = care.tiers.device(replica.target)?;
        // Each look at a node that hangs takes its time.
        if device.capabilities.remote && device.state() == TierState::Away {
            replicas.away += 1;
            return Ok(());
        }
        let mut raw = vec![0; extent.raw_len as usize];
        let read = care.reader.read_replica(device, subject.object.id, extent, replica, 0, &mut raw);
        let Err(error) = read else {
            self.found.checked += 1;
            replicas.good += 1;
            return Ok(());
        };
        device.failed(&error);
        if is_out_of_reach(device, &error) {
            replicas.away += 1;
            return Ok(());
        }
        self.found.checked += 1;
        let task = task_of(subject.object.id, extent, replica);
        if !self.is_still_named(subject.key, &task, extent)? {
            return Ok(());
        }
        let suspect = Suspect { key: subject.key.to_vec(), task, replica: *replica };
        if is_changed_by_owner(&error) {
            self.found.changed += 1;
            *self.found.changed_of.entry(show(subject.key)).or_default() += 1;
            replicas.changed.push(suspect);
            return Ok(());
        }
        self.found.bad += 1;
        self.unreplaced.push(BadReplica { key: subject.key.to_vec(), task, place: replica.place });
        if means_bad_replica(&error) {
            replicas.damaged.push(suspect);
        }
        Ok(())
    }

    /// Tells why no replica of a frame is good. If the bytes are at an origin, they are fetched again when they are read.
    fn scrub_without_good(&mut self, subject: Subject, extent: &Extent, replicas: &Replicas) -> Result<FrameState> {
        let Subject { key, object } = subject;
        let task = extent.task(object.id, 0);
        if replicas.away > 0 || !replicas.changed.is_empty() || !self.is_still_named(key, &task, extent)? {
            return Ok(FrameState::Unknown);
        }
        if !is_at_origin(object) {
            self.count_lost(key);
            return Ok(FrameState::Lost);
        }
        if self.repair && self.care.mover.uncache_bad(key, object.id, extent)? {
            self.found.repaired += extent.replicas.len() as u64;
            self.unreplaced.retain(|bad| bad.task != extent.task(object.id, bad.task.target));
        }
        Ok(FrameState::Unknown)
    }

    /// Replaces replicas of a frame by copies of a good one.
    fn replace(&mut self, replicas: &Replicas) -> Result<()> {
        let care = self.care;
        let mover = &care.mover;
        for suspect in &replicas.damaged {
            match mover.repair(suspect)? {
                Repair::Impossible => continue,
                Repair::Owed => {
                    self.found.bad -= 1;
                    self.found.owed += 1;
                }
                Repair::NotNeeded | Repair::Replaced | Repair::Detached => self.found.repaired += 1,
            }
            self.unreplaced.retain(|bad| (bad.task, bad.place) != (suspect.task, suspect.replica.place));
        }
        // The object keeps the bytes that were adopted, in a file of the store's own.
        for suspect in &replicas.changed {
            let repair = mover.repair(suspect)?;
            if repair != Repair::Impossible {
                self.found.owed += u64::from(repair == Repair::Owed);
                self.found.changed -= 1;
                self.forget_changed(&suspect.key);
            }
        }
        Ok(())
    }

    fn forget_changed(&mut self, key: &[u8]) {
        let changed_of = &mut self.found.changed_of;
        let key = show(key);
        if let Some(count) = changed_of.get_mut(&key) {
            *count -= 1;
        }
        changed_of.retain(|_, count| *count > 0);
    }

    /// Returns whether the catalog still names this frame. If not, the object has changed, and nothing is wrong.
    fn is_still_named(&self, key: &[u8], task: &Task, extent: &Extent) -> Result<bool> {
        Ok(self.care.catalog.frame(task, key)?.is_some_and(|now| now.replicas == extent.replicas))
    }

    /// Counts an extent that has fewer replicas than it should have, pending ones included. If this scrub repairs, it first adds the missing
    /// ones as pending, as far as failure domains have room.
    pub(super) fn count_lacking(&mut self, subject: Subject, extent: &Extent) -> Result<()> {
        let Subject { key, object } = subject;
        let task = |target| extent.task(object.id, target);
        let Some(now) = self.care.catalog.frame(&task(0), key)? else { return Ok(()) };
        let chosen = self.care.mover.targets_of(object.id, &now)?;
        let missing = usize::from(object.want).saturating_sub(chosen.len());
        let mut placed = SmallVec::new();
        if missing > 0 && self.repair {
            placed = self.care.mover.placer_for(object.id, key)?.plan_more(&now, missing, &chosen);
        }
        self.found.add_lacking(Lacking::of(chosen.len() + placed.len(), object.want.into()));
        for placed in placed {
            let edit = Edit::Owe {
                task: task(placed.target),
                key: serde_bytes::ByteBuf::from(key.to_vec()),
                raw_len: extent.raw_len,
                then_drop: None,
            };
            self.care.catalog.commit(edit.into())?;
        }
        Ok(())
    }
}
