//! Repairs replicas that reads found bad.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use terrace_catalog::{Edit, Owed};

use super::Mover;
use crate::Result;
use crate::read::{Suspect, is_changed_by_owner, means_bad_replica};
use crate::report::Replaced;

/// The time between two warnings of the background thread about repairs.
const REPAIR_REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// The result of repairing a replica that a read found bad.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repair {
    /// The catalog does not name it any more, or it can be read after all.
    NotNeeded,
    /// It was replaced by a new replica, made from a good one.
    Replaced,
    /// The same, but it was not damaged: it was in an adopted file that its owner had changed.
    Detached,
    /// It was removed from its extent, and a new one is pending: another thread or node makes that, or its target takes none now.
    Owed,
    /// No good replica is left, or its target is away.
    Impossible,
}

impl Mover {
    /// Removes the replicas that reads found bad from their extents, and replaces them. Returns the number of replicas that
    /// were checked.
    pub fn repair_suspects(&self) -> Result<usize> {
        // When this returns, the repairs that another thread has begun are done as well.
        let _one_at_a_time = self.state.repairing.lock();
        let suspects = self.reader.suspects.take();
        let (mut done, mut failed) = (0, Ok(()));
        for suspect in suspects {
            match self.repair(&suspect) {
                Ok(Repair::Replaced) => {
                    done += 1;
                    self.state.repaired.fetch_add(1, Ordering::Relaxed); // a mere count
                }
                Ok(Repair::Detached) => {
                    done += 1;
                    self.state.detached.fetch_add(1, Ordering::Relaxed); // as above
                }
                Ok(Repair::NotNeeded) => done += 1,
                Ok(Repair::Owed | Repair::Impossible) => {}
                Err(error) => {
                    self.reader.suspects.report(suspect);
                    failed = Err(error);
                }
            }
        }
        failed.map(|()| done)
    }

    /// Returns the numbers of replaced replicas that were not reported yet, and sets them to 0.
    pub fn take_repaired(&self) -> Replaced {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        Replaced { damaged: take(&self.state.repaired), changed: take(&self.state.detached) }
    }

    /// Logs one warning for all replicas that were repaired in the background and not reported yet.
    pub fn tell_repaired(&self) {
        let Replaced { damaged, changed } = self.take_repaired();
        if damaged > 0 {
            tracing::warn!(replicas = damaged, "bad replicas were found and replaced; `terrace scrub` looks for more");
        }
        if changed > 0 {
            tracing::warn!(
                replicas = changed,
                "the owners of adopted files have changed them; the objects keep what was adopted, in files of the store"
            );
        }
    }

    /// Like [`Mover::tell_repaired`], every 30 seconds at most.
    pub(super) fn tell_repaired_in_time(&self) {
        let mut told = self.state.told.lock();
        if told.get_or_insert_with(Instant::now).elapsed() > REPAIR_REPORT_INTERVAL {
            *told = Some(Instant::now());
            self.tell_repaired();
        }
    }

    /// Reads a bad replica again. If it is still bad and the catalog still names it, replaces it from a good one.
    pub fn repair(&self, suspect: &Suspect) -> Result<Repair> {
        let Suspect { key, task, replica } = suspect;
        let Some(extent) = self.catalog.frame(task, key)? else { return Ok(Repair::NotNeeded) };
        if !extent.replicas.contains(replica) {
            return Ok(Repair::NotNeeded);
        }
        let mut raw = vec![0; extent.raw_len as usize];
        let device = self.tiers.device(replica.target)?;
        let is_changed = match self.reader.read_replica(device, task.object, &extent, replica, 0, &mut raw) {
            Ok(()) => return Ok(Repair::NotNeeded),
            Err(error) if !means_bad_replica(&error) => return Ok(Repair::Impossible),
            Err(error) => is_changed_by_owner(&error),
        };
        let mut others = extent.clone();
        others.replicas.retain(|r| r != replica);
        if self.reader.read_frame(task.object, &others).is_none() {
            let is_dropped = self.uncache_bad(key, task.object, &extent)?;
            return Ok(if is_dropped { Repair::Replaced } else { Repair::Impossible });
        }
        tracing::info!(key = %terrace_format::key::show(key), offset = task.frame_offset, target = %device.path.display(), "replacing a bad replica");
        let key = serde_bytes::ByteBuf::from(key.clone());
        self.catalog.commit(
            Edit::Lost { task: *task, key: key.clone(), place: replica.place, owed: Some(task.target) }.into(),
        )?;
        let owed = Owed { key: key.into_vec(), raw_len: extent.raw_len, then_drop: None, since: 0 };
        let made = self.make(&[(*task, owed)], true)?;
        Ok(match is_changed {
            // None was made here, and another thread has not made it meanwhile either.
            _ if made == 0 && self.catalog.is_owed(task)? => Repair::Owed,
            false => Repair::Replaced,
            true => Repair::Detached,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::mover::claimed::Claimed;
    use crate::report::FindingCode;
    use crate::{Ack, PutOptions, Store};

    /// Another thread, such as the background's, made the new replica, and the repair called the one that the object no longer had bad.
    #[test]
    fn a_replica_that_another_thread_makes_again_is_pending_and_not_bad() {
        let dir = tempfile::tempdir().expect("a folder");
        let d = dir.path().display();
        let text = format!(
            "[store]\nreplicas = {{ default = 2 }}\n\
             [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{d}/a', '{d}/b']\n"
        );
        let config = Config::parse(&text, "test").expect("a configuration");
        let store = Store::init(&dir.path().join("store"), &config).expect("a store");
        let engine = &store.engine;
        let _background = engine.locks.wait_for_mover().expect("the lock");
        let options = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
        store.put_bytes(b"k", &[7; 5000], &options).expect("puts");
        engine.mover.make_all(None, true).expect("makes");
        let (object, extents) = engine.catalog.locate(b"k", 0, u64::MAX).expect("looks").expect("an object");
        let file = store.locate(b"k").expect("a place").extents[0].replicas[1].file.clone().expect("a file");
        let length = std::fs::metadata(&file).expect("a file").len();
        std::fs::write(&file, vec![0xff; length as usize]).expect("writes");
        let mut other = Claimed::none(&engine.mover);
        assert!(other.claim(extents[0].task(object.id, extents[0].replicas[1].target)));
        let found = store.scrub(b"", true, None, |_| {}).expect("scrubs");
        assert_eq!((found.checked, found.bad, found.repaired, found.owed), (2, 0, 0, 1), "{found:?}");
        let findings = store.health().expect("health").findings;
        assert!(findings.iter().all(|finding| finding.code != FindingCode::BadReplicas), "{findings:?}");
        drop(other);
        assert_eq!(engine.mover.make_all(None, true).expect("makes"), 1);
        let found = store.scrub(b"", false, None, |_| {}).expect("scrubs");
        assert_eq!((found.checked, found.bad), (2, 0), "{found:?}");
    }
}
