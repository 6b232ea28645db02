//! Reads the replicas that stay before others of their frame leave: the last good one must not.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use terrace_catalog::{Extent, Replica, TargetId, Task};
use terrace_format::Place;
use terrace_format::frame::with_block;

use super::Mover;
use crate::Result;
use crate::devices::Tiers;
use crate::read::{Suspect, means_bad_replica, task_of};

/// Of frames, the target of a replica that was read just now, is good, and stays.
pub(super) type GoodReplicas = HashMap<Task, TargetId>;

/// Returns the task without its target, which names a frame.
pub(super) fn frame_of(task: Task) -> Task {
    Task { target: TargetId::MAX, ..task }
}

/// Replicas that count for nothing when others leave.
#[derive(Default)]
pub(super) struct Unread {
    /// Those that were read, and are bad.
    bad: HashSet<(TargetId, Place)>,
    /// Targets that do not answer now, or that a read failed on. Nobody knows whether what they have can be read later.
    silent: Vec<TargetId>,
}

impl Unread {
    pub fn on(silent: Vec<TargetId>) -> Unread {
        Unread { bad: HashSet::new(), silent }
    }

    pub fn has(&self, replica: &Replica) -> bool {
        self.silent.contains(&replica.target) || self.bad.contains(&(replica.target, replica.place))
    }
}

/// Returns the targets that do not answer now. Asks each of them, which may take as long as its timeout.
pub(crate) fn silent_targets(tiers: &Tiers) -> Vec<TargetId> {
    tiers.devices.iter().filter(|device| device.target.check_again().is_err()).map(|device| device.id).collect()
}

impl Mover {
    /// Looks for a good replica of an extent beside those that leave, and replaces the bad ones that it finds. Returns the extent with the
    /// replicas that it has then. If a good one is found that outlives a reboot, or may be in memory, it is noted in `good`.
    pub(super) fn mend_beside<'e>(
        &self,
        key: &[u8],
        object: u64,
        extent: &'e Extent,
        leaves: impl Fn(TargetId) -> bool,
        unread: &mut Unread,
        good: &mut GoodReplicas,
    ) -> Result<Cow<'e, Extent>> {
        if !extent.replicas.iter().any(|replica| leaves(replica.target))
            || !self.read_beside(key, object, extent, &leaves, unread, good)?
        {
            return Ok(Cow::Borrowed(extent));
        }
        self.repair_suspects()?;
        let Some(now) = self.catalog.frame(&extent.task(object, 0), key)? else { return Ok(Cow::Borrowed(extent)) };
        let mended = Extent { replicas: now.replicas, ..extent.clone() };
        self.read_beside(key, object, &mended, &leaves, unread, good)?;
        Ok(Cow::Owned(mended))
    }

    /// Reads the replicas beside those that leave, up to the first good one. Returns whether it has found bad ones.
    fn read_beside(
        &self,
        key: &[u8],
        object: u64,
        extent: &Extent,
        leaves: impl Fn(TargetId) -> bool,
        unread: &mut Unread,
        good: &mut GoodReplicas,
    ) -> Result<bool> {
        let (mut is_any_bad, volatile) = (false, self.planning.rules.now().may_be_volatile(key));
        for replica in &extent.replicas {
            if leaves(replica.target) || unread.has(replica) {
                continue;
            }
            let device = self.tiers.device(replica.target)?;
            let read = with_block(|raw| {
                raw.resize(extent.raw_len as usize, 0);
                self.reader.read_replica(device, object, extent, replica, 0, raw)
            });
            let task = task_of(object, extent, replica);
            match read {
                Ok(()) if volatile || self.outlives(replica) => {
                    good.insert(frame_of(task), replica.target);
                    break;
                }
                // One in memory is not enough.
                Ok(()) => {}
                Err(error) if means_bad_replica(&error) => {
                    is_any_bad = true;
                    unread.bad.insert((replica.target, replica.place));
                    self.reader.suspects.report(Suspect { key: key.to_vec(), task, replica: *replica });
                }
                // It may be good, but nobody can tell, so it counts no more than the others there.
                Err(error) => {
                    unread.silent.push(replica.target);
                    device.failed(&error);
                }
            }
        }
        Ok(is_any_bad)
    }
}
