//! Repairing what reads found bad.

use crate::Result;
use crate::catalog::{Edit, Extent, Owed};
use crate::read::{Suspect, read_replica};
use crate::store::{Inner, Store};

impl Store {
    /// Repairs what reads of this process found bad; the number of replicas made anew.
    pub fn repair_suspects(&self) -> Result<u64> {
        self.inner.repair_suspects()
    }
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

    /// Takes the replicas that reads found bad off their extents, and makes them anew.
    pub(crate) fn repair_suspects(&self) -> Result<u64> {
        // When this returns, what another thread is just repairing is repaired, too.
        let _one_at_a_time = self.mover.repairing.lock();
        let suspects = std::mem::take(&mut *self.mover.suspects.lock());
        let (mut repaired, mut failed) = (0, Ok(()));
        for suspect in suspects {
            match self.repair(&suspect) {
                Ok(done) => repaired += u64::from(done),
                Err(error) => {
                    self.mover.suspect(suspect);
                    failed = Err(error);
                }
            }
        }
        failed.map(|()| repaired)
    }

    /// Looks again at a bad replica; if it still is one and the catalog still names it, replaces it from a good one.
    /// False where there is none to replace it from.
    pub(crate) fn repair(&self, suspect: &Suspect) -> Result<bool> {
        let Suspect { key, task, replica } = suspect;
        let Some(extent) = self.catalog.frame(task, key)? else { return Ok(true) };
        if !extent.replicas.contains(replica) {
            return Ok(true);
        }
        let mut raw = vec![0; extent.raw_len as usize];
        let device = self.tiers.device(replica.target)?;
        if read_replica(self, device, task.object, &extent, replica, 0, &mut raw).is_ok() {
            return Ok(true);
        }
        let mut others = extent.clone();
        others.replicas.retain(|r| r != replica);
        if self.read_frame(task.object, &others).is_none() {
            return Ok(false);
        }
        tracing::warn!(key = %crate::key::show(key), offset = task.frame_offset, target = %device.path.display(), "a bad replica is made anew");
        let key = serde_bytes::ByteBuf::from(key.clone());
        self.catalog.commit(
            Edit::Lost { task: *task, key: key.clone(), place: replica.place, owed: Some(task.target) }.into(),
        )?;
        let owed = Owed { key: key.into_vec(), raw_len: extent.raw_len, then_drop: None, since: 0 };
        Ok(self.make(&[(*task, owed)], true)? > 0)
    }
}
