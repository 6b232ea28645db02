//! Repairing what reads found bad.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use terrace_catalog::{Edit, Extent, Owed};

use crate::Result;
use crate::read::{Suspect, read_replica};
use crate::store::{Inner, Store};

/// How often the background thread warns of what it repaired.
const TELL_REPAIRED_EVERY: Duration = Duration::from_secs(30);

impl Store {
    /// Repairs what reads of this process found bad. Returns how many replicas were replaced since the last call.
    pub fn repair_suspects(&self) -> Result<u64> {
        self.inner.repair_suspects()?;
        Ok(self.inner.mover.repaired.swap(0, Ordering::Relaxed))
    }
}

/// What became of a replica that a read found bad.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repair {
    /// The catalog does not name it any more, or it can be read after all.
    NotNeeded,
    /// A new replica was made from a good one.
    Replaced,
    /// No good replica is left, or its target takes none now.
    Impossible,
}

impl Inner {
    /// The whole frame's raw bytes, from any good replica.
    pub(crate) fn read_frame(&self, object: u64, extent: &Extent) -> Option<Vec<u8>> {
        let mut raw = vec![0; extent.raw_len as usize];
        extent
            .replicas
            .iter()
            .any(|replica| {
                let Ok(device) = self.tiers.device(replica.target) else { return false };
                read_replica(self, device, object, extent, replica, 0, &mut raw).is_ok()
            })
            .then_some(raw)
    }

    /// Takes the replicas that reads found bad off their extents, and replaces them. Returns how many were looked at.
    pub(crate) fn repair_suspects(&self) -> Result<usize> {
        // When this returns, what another thread is just repairing is repaired, too.
        let _one_at_a_time = self.mover.repairing.lock();
        let suspects = std::mem::take(&mut *self.mover.suspects.lock());
        let (mut done, mut failed) = (0, Ok(()));
        for suspect in suspects {
            match self.repair(&suspect) {
                Ok(Repair::Replaced) => {
                    done += 1;
                    self.mover.repaired.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Repair::NotNeeded) => done += 1,
                Ok(Repair::Impossible) => {}
                Err(error) => {
                    self.mover.suspect(suspect);
                    failed = Err(error);
                }
            }
        }
        failed.map(|()| done)
    }

    /// Warns of replicas that were repaired in the background and that no caller was told of: one line for all of them.
    pub(crate) fn tell_repaired(&self) {
        let replicas = self.mover.repaired.swap(0, Ordering::Relaxed);
        if replicas > 0 {
            tracing::warn!(replicas, "replaced replicas that were bad; `terrace scrub` looks for more");
        }
    }

    /// The same, every 30 seconds at most.
    pub(super) fn tell_repaired_in_time(&self) {
        let mut told = self.mover.told.lock();
        if told.get_or_insert_with(Instant::now).elapsed() > TELL_REPAIRED_EVERY {
            *told = Some(Instant::now());
            self.tell_repaired();
        }
    }

    /// Looks again at a bad replica; if it still is one and the catalog still names it, replaces it from a good one.
    pub(crate) fn repair(&self, suspect: &Suspect) -> Result<Repair> {
        let Suspect { key, task, replica } = suspect;
        let Some(extent) = self.catalog.frame(task, key)? else { return Ok(Repair::NotNeeded) };
        if !extent.replicas.contains(replica) {
            return Ok(Repair::NotNeeded);
        }
        let mut raw = vec![0; extent.raw_len as usize];
        let device = self.tiers.device(replica.target)?;
        if read_replica(self, device, task.object, &extent, replica, 0, &mut raw).is_ok() {
            return Ok(Repair::NotNeeded);
        }
        let mut others = extent.clone();
        others.replicas.retain(|r| r != replica);
        if self.read_frame(task.object, &others).is_none() {
            return Ok(Repair::Impossible);
        }
        tracing::info!(key = %terrace_format::key::show(key), offset = task.frame_offset, target = %device.path.display(), "replacing a bad replica");
        let key = serde_bytes::ByteBuf::from(key.clone());
        self.catalog.commit(
            Edit::Lost { task: *task, key: key.clone(), place: replica.place, owed: Some(task.target) }.into(),
        )?;
        let owed = Owed { key: key.into_vec(), raw_len: extent.raw_len, then_drop: None, since: 0 };
        let made = self.make(&[(*task, owed)], true)?;
        Ok(if made > 0 { Repair::Replaced } else { Repair::Impossible })
    }
}
