//! Carries out moves of replicas, batch by batch.

use std::collections::{BTreeSet, HashSet};
use std::mem::take;
use std::time::Duration;

use terrace_catalog::{Edit, Extent, Object, Owed, Replica, TargetId, Task, frames};

use super::beside::GoodReplicas;
use super::drops::Staying;
use super::edits::{drop_replica, owe};
use super::room::HOPELESS_WAIT;
use super::{MAX_WAIT, Mover};
use crate::report::{Lacking, Moved};
use crate::{Error, Result};

/// The approximate number of edits in a batch.
const BATCH_EDITS: usize = 1024;
/// The approximate bytes, before encoding, of the replicas that a batch makes pending.
const BATCH_BYTES: u64 = 64 << 20;

/// The moves of one request or round.
#[derive(Default)]
pub(super) struct Moves {
    /// Those that are planned and not committed yet.
    pub edits: Vec<Edit>,
    /// The extents that these leave with fewer replicas than they are to have.
    lacking: Lacking,
    /// The replicas that stay where these take others away.
    pub good: GoodReplicas,
    /// The replicas that are made again where they are.
    again: HashSet<Task>,
    /// The counts of all moves, as if the planned ones were committed.
    pub moved: Moved,
    /// Replicas that can leave once others are made.
    pub later: u64,
}

impl Moves {
    /// Plans a replica. Once it is made, the one on the target `then_drop` is dropped.
    pub fn owe(&mut self, key: &[u8], task: Task, extent: &Extent, then_drop: Option<TargetId>) {
        if extent.replicas.iter().any(|replica| replica.target == task.target) {
            self.again.insert(task);
        }
        self.edits.push(owe(key, task, extent, then_drop));
        self.moved.made += 1;
        self.moved.dropped += u64::from(then_drop.is_some());
    }

    /// Plans to drop a replica at once.
    pub fn drop(&mut self, key: &[u8], object: u64, extent: &Extent, replica: &Replica) {
        self.edits.push(drop_replica(key, object, extent, replica));
        self.moved.dropped += 1;
    }

    /// Counts an extent that had `before` replicas, made or pending, and now has `after`.
    pub fn count_thinned(&mut self, before: usize, after: usize, wanted: u8) {
        if after < before && after < usize::from(wanted) {
            self.moved.thinned += 1;
            self.lacking += Lacking::of(after, wanted.into());
        }
    }
}

impl Mover {
    /// Like [`Mover::move_each`], for replicas that leave: some of them can leave only once others are made.
    pub(super) fn move_off_each(
        &self,
        prefix: &[u8],
        mut plan: impl FnMut(&[u8], &Object, &Extent, &mut Moves) -> Result<()>,
    ) -> Result<Moved> {
        let Moves { mut moved, later, .. } = self.move_all(prefix, &mut plan)?;
        if later > 0 {
            let next = self.move_all(prefix, plan)?;
            moved.add(&next.moved);
            moved.kept += next.later;
        }
        Ok(moved)
    }

    /// Moves replicas of the objects at or below `prefix`: `plan` plans those of an extent. Fails if replicas are still pending at the end.
    pub(super) fn move_each(
        &self,
        prefix: &[u8],
        plan: impl FnMut(&[u8], &Object, &Extent, &mut Moves) -> Result<()>,
    ) -> Result<Moved> {
        Ok(self.move_all(prefix, plan)?.moved)
    }

    fn move_all(
        &self,
        prefix: &[u8],
        plan: impl FnMut(&[u8], &Object, &Extent, &mut Moves) -> Result<()>,
    ) -> Result<Moves> {
        let mut late = None;
        let moves = self.move_part(prefix, &mut late, plan)?;
        late.map_or(Ok(moves), Err)
    }

    /// Commits the moves that are planned for each extent, and waits for the replicas that they make pending. One batch holds many objects,
    /// because each batch waits for one sync. If replicas are still pending afterwards, `late` says why.
    pub(super) fn move_part(
        &self,
        prefix: &[u8],
        late: &mut Option<Error>,
        mut plan: impl FnMut(&[u8], &Object, &Extent, &mut Moves) -> Result<()>,
    ) -> Result<Moves> {
        let (mut moves, mut shared) = (Moves::default(), HashSet::new());
        self.catalog.each_object(prefix, |key, object, extents| {
            for extent in frames(extents) {
                // A shared frame moves once, with the first of its owners.
                if extent.source.is_some() && !shared.insert(extent.task(object.id, 0)) {
                    continue;
                }
                plan(key, object, extent, &mut moves)?;
            }
            // A plan does not see the room that the rest of its batch takes, so batches are limited.
            if moves.edits.len() >= BATCH_EDITS || owed_bytes(&moves.edits) >= BATCH_BYTES {
                self.carry_out(&mut moves, late)?;
            }
            Ok::<_, Error>(true)
        })?;
        self.carry_out(&mut moves, late)?;
        if !self.catalog.is_shared() {
            self.journal.mark_synced()?;
            self.reaper.reap(Duration::from_secs(30))?;
        }
        Ok(moves)
    }

    /// Commits the planned moves. Those of frames that must be left as they are do not count. Returns the number of these frames.
    pub(super) fn commit_planned(&self, moves: &mut Moves) -> Result<u64> {
        let (good, again) = (take(&mut moves.good), take(&mut moves.again));
        let staying = Staying::Read { good: &good, again: &again };
        let left = self.commit_moves(take(&mut moves.edits), take(&mut moves.lacking), staying)?;
        moves.moved.kept += left;
        moves.moved.kept_busy += left;
        moves.moved.dropped = moves.moved.dropped.saturating_sub(left);
        Ok(left)
    }

    /// Commits the planned moves, and makes their pending replicas.
    /// No sync is needed before a replaced replica is dropped: its space is not freed before a sync mark covers the change,
    /// and recovery checks that the new replica exists.
    fn carry_out(&self, moves: &mut Moves, late: &mut Option<Error>) -> Result<()> {
        let owed: Vec<(Task, Owed)> = moves.edits.iter().filter_map(owed_by).collect();
        self.commit_planned(moves)?;
        terrace_system::fail::point("move:committed");
        let objects: BTreeSet<u64> = owed.iter().map(|(task, _)| task.object).collect();
        self.make_given(owed.clone())?;
        for object in objects {
            if self.catalog.owed_count(Some(object))? > 0 {
                let limit = match late {
                    // An earlier object has waited in vain, for example for room. This one does not wait, but it is tried: a smaller
                    // replica may fit.
                    Some(_) => Duration::ZERO,
                    // Other nodes free a full shared target in their own time, so the wait is short. It is not zero, because not every
                    // kind of target knows how much fits.
                    None if self.catalog.is_shared() && self.is_owed_to_full(Some(object))? => HOPELESS_WAIT,
                    None => MAX_WAIT,
                };
                match self.finish(Some(object), limit, &mut |_| {}) {
                    Err(Error::StillOwed { seconds, is_full, read_only, lost, .. }) => {
                        let owed = self.catalog.owed_count(None)?;
                        late.get_or_insert(Error::StillOwed { owed, seconds, is_full, read_only, lost });
                    }
                    done => done?,
                }
            }
        }
        self.names.update_all()?;
        for (task, owed) in &owed {
            if self.is_given_up(task, owed)? {
                moves.moved.count_changed(&owed.key, owed.then_drop.is_some());
            }
        }
        Ok(())
    }

    /// Returns whether a replica is neither made nor pending because the owner of an adopted file has changed it.
    fn is_given_up(&self, task: &Task, owed: &Owed) -> Result<bool> {
        let Some(extent) = self.catalog.frame(task, &owed.key)? else { return Ok(false) };
        let is_made = extent.replicas.iter().any(|replica| replica.target == task.target);
        Ok(!is_made && !self.catalog.is_owed(task)? && self.reader.is_changed_by_owner(task.object, &extent))
    }
}

/// Returns the pending replica that an edit adds.
fn owed_by(edit: &Edit) -> Option<(Task, Owed)> {
    match edit {
        Edit::Owe { task, key, raw_len, then_drop } => {
            let owed = Owed { key: key.to_vec(), raw_len: *raw_len, then_drop: *then_drop, since: 0 };
            Some((*task, owed))
        }
        _ => None,
    }
}

/// Returns the bytes of the replicas that edits make pending, before encoding.
fn owed_bytes(edits: &[Edit]) -> u64 {
    let owed = edits.iter().map(|edit| if let Edit::Owe { raw_len, .. } = edit { u64::from(*raw_len) } else { 0 });
    owed.sum()
}

#[cfg(test)]
mod tests {
    use terrace_catalog::Change;

    use super::*;
    use crate::mover::edits::task_at;
    use crate::{Ack, Config, PutOptions, Store};

    /// Another process had dropped the replica that was to be encoded again, and the frame got one more than the rules wanted.
    #[test]
    fn a_move_replaces_only_what_is_still_there() {
        let dir = tempfile::tempdir().expect("a folder");
        let targets: Vec<String> = ["a", "b"].map(|name| format!("'{}'", dir.path().join(name).display())).into();
        let config = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = [{}]\n", targets.join(", "));
        let config = Config::parse(&config, "test").expect("a configuration");
        let store = Store::init(&dir.path().join("store"), &config).expect("a store");
        let options = PutOptions { replicas: Some(2), ack: Some(Ack::Replicated), ..PutOptions::default() };
        store.put_bytes(b"k", &terrace_testkit::noise(100_000, 1), &options).expect("puts");
        let mover = &store.engine.mover;
        let (object, extents) = store.catalog().locate(b"k", 0, u64::MAX).expect("reads").expect("the object");
        let extent = &extents[0];
        let replica = extent.replicas[1];
        let mut moves = Moves::default();
        moves.owe(b"k", task_at(object.id, extent, replica.target), extent, None);
        let edits = vec![drop_replica(b"k", object.id, extent, &replica)];
        store.catalog().commit(Change { expect: Vec::new(), edits }).expect("drops it");
        assert_eq!(mover.commit_planned(&mut moves).expect("commits what still holds"), 1);
        assert_eq!(store.catalog().owed_count(None).expect("counts"), 0);
    }
}
