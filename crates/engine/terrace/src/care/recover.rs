//! Bringing the catalog in line with what the targets hold, when a store is opened.

use std::collections::HashSet;

use crate::Result;
use crate::catalog::{Change, Edit, Extent, Replica, TargetId, Task, frames};
use crate::frame::Header;
use crate::read::{read_replica, task_of};
use crate::store::Inner;

use super::rebuild::{FrameId, replay};

/// Edits of one commit, about.
const BATCH: usize = 1024;

/// Fills the catalog where it is new, and owes again what was on targets that were emptied, as memory is by a reboot.
pub(crate) fn recover(inner: &Inner) -> Result<()> {
    let emptied: Vec<TargetId> =
        inner.tiers.devices.iter().filter(|d| d.target.is_new()).map(|device| device.id).collect();
    let is_new = inner.catalog.is_new()?;
    if !is_new && emptied.is_empty() {
        return Ok(());
    }
    let _lock = inner.wait_for_mover_lock()?;
    // Another opener may have done it while this one waited.
    let anew = inner.catalog.is_new()?;
    let doubts = if anew { replay(inner)? } else { HashSet::new() };
    if is_new && inner.catalog.tail()?.sequence == 0 {
        inner.begin_after_what_is_there()?;
    }
    if !doubts.is_empty() || held_something(inner, &emptied)? {
        inner.owe_again(|object, extent, replica| {
            emptied.contains(&replica.target)
                || doubts.contains(&(object, extent.frame())) && !inner.holds(object, extent, replica)
        })?;
    }
    if anew {
        inner.name_again()?;
    }
    Ok(())
}

fn held_something(inner: &Inner, emptied: &[TargetId]) -> Result<bool> {
    for target in emptied {
        if !inner.catalog.segments(*target)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Inner {
    pub(super) fn holds(&self, object: u64, extent: &Extent, replica: &Replica) -> bool {
        let Ok(device) = self.tiers.device(replica.target) else { return false };
        let mut raw = vec![0; extent.raw_len as usize];
        read_replica(self, device, object, extent, replica, 0, &mut raw).is_ok()
    }

    /// The same of a frame that only its header tells the length of.
    pub(super) fn holds_frame(&self, (object, (write, offset)): FrameId, replica: &Replica) -> bool {
        let Ok(device) = self.tiers.device(replica.target) else { return false };
        let mut bytes = vec![0; replica.place.length as usize];
        if device.read(replica.place, 0, &mut bytes).is_err() {
            return false;
        }
        Header::read(&bytes, self.catalog.log().store(), replica.place).is_ok_and(|header| {
            let raw_len = header.raw_len;
            let extent = Extent { offset, length: raw_len, skip: 0, raw_len, write, replicas: Default::default() };
            self.holds(object, &extent, replica)
        })
    }

    /// Takes off replicas that are gone, and owes them again. Of an extent that has no other, the record stays: it tells
    /// what is lost.
    fn owe_again(&self, gone: impl Fn(u64, &Extent, &Replica) -> bool) -> Result<()> {
        let mut edits = Vec::new();
        self.catalog.each_object(b"", |key, object, extents| {
            for extent in frames(extents) {
                let (lost, left): (Vec<&Replica>, Vec<&Replica>) =
                    extent.replicas.iter().partition(|replica| gone(object.id, extent, replica));
                let Some(first) = lost.first() else { continue };
                if left.is_empty() {
                    let task = task_of(object.id, extent, first);
                    let owed = self.catalog.owed_to(&task)?.into_iter();
                    edits.extend(owed.map(|target| Edit::Forgive { task: Task { target, ..task } }));
                    continue;
                }
                edits.extend(lost.iter().map(|replica| Edit::Lost {
                    task: task_of(object.id, extent, replica),
                    key: serde_bytes::ByteBuf::from(key),
                    place: replica.place,
                    owed: Some(replica.target),
                }));
            }
            if edits.len() >= BATCH {
                self.catalog.commit(Change { expect: Vec::new(), edits: std::mem::take(&mut edits) })?;
            }
            Ok(true)
        })?;
        if !edits.is_empty() {
            self.catalog.commit(Change { expect: Vec::new(), edits })?;
        }
        Ok(())
    }
}
