//! Compaction: copies live frames out of segments that are mostly garbage, and merges small extents that range writes left.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;
use terrace_catalog::{Change, Edit, Expect, Extent, Object, TargetId, frames};
use terrace_format::frame::MAX_EXTENT_BYTES;
use terrace_plan::snapshot::TierSet;

use super::Mover;
use super::edits::owe;
use crate::devices::Tiers;
use crate::place::PutOptions;
use crate::report::TierState;
use crate::write::MakeRoom;
use crate::{Error, Result};

/// Live frames are copied out of a segment if it takes more than this multiple of their size, and if that frees more than
/// [`MIN_COPIED_OUT_BYTES`].
const MIN_DEAD_FACTOR: u64 = 2;
const MIN_COPIED_OUT_BYTES: u64 = 1 << 20;
/// The number of segments whose frames are copied out in one round.
const MAX_SEGMENTS_COPIED_OUT: usize = 8;
/// The number of objects that a round of the background thread reads to find frames of these segments.
const MAX_OBJECTS_READ_PER_ROUND: usize = 1024;
/// The time after which the background thread looks for such segments again.
const COMPACTION_INTERVAL: Duration = Duration::from_secs(30);
/// Extents shorter than this are merged, if at least [`MIN_MERGED_EXTENTS`] are adjacent.
const SMALL_EXTENT_BYTES: u32 = MAX_EXTENT_BYTES / 4;
const MIN_MERGED_EXTENTS: usize = 16;
/// The number of objects with range writes that are remembered. Others are merged when they are written to again.
const MAX_REMEMBERED_OBJECTS: usize = 4096;

/// The objects that this process considers for compaction.
#[derive(Default)]
pub(super) struct Compaction {
    overlaid: Mutex<HashSet<Vec<u8>>>,
    looked: Mutex<Option<Instant>>,
    /// Only the background thread takes it.
    copying: Mutex<Option<CopyingOut>>,
}

/// Segments that are mostly garbage, while their live frames are looked for.
struct CopyingOut {
    segments: BTreeSet<(TargetId, u64)>,
    /// The last key that was read.
    after: Option<Vec<u8>>,
}

impl Compaction {
    /// Notes that a short range of an object was written.
    pub fn overlaid(&self, key: &[u8]) {
        let mut overlaid = self.overlaid.lock();
        if overlaid.len() < MAX_REMEMBERED_OBJECTS && !overlaid.contains(key) {
            overlaid.insert(key.to_vec());
        }
    }
}

/// Bytes that are stored already need not wait for room, and the holder of the mover's lock must not.
struct NoWait<'a>(&'a Tiers);

impl MakeRoom for NoWait<'_> {
    fn make_room(&self, _: usize, tiers: TierSet, _: Instant) -> Result<()> {
        Err(Error::NoSpace { tiers: self.0.describe(tiers) })
    }
}

impl Mover {
    /// Merges the many small extents that range writes left in objects, and copies live frames out of segments that are
    /// mostly garbage.
    pub fn compact(&self) -> Result<()> {
        self.merge_overlaid()?;
        let mut copying = self.begin_to_copy_out()?;
        while copying.is_some() {
            self.copy_some_out(&mut copying)?;
        }
        self.finish(None, super::MAX_WAIT, &mut |_| {})
    }

    /// Notes a write of `length` bytes into a range of an object.
    pub fn note_range(&self, key: &[u8], length: usize) {
        if length < SMALL_EXTENT_BYTES as usize {
            self.state.compaction.overlaid(key);
        }
    }

    /// Goes on with the compaction that is under way, and begins one if the last beginning was long enough ago.
    pub(super) fn compact_in_time(&self) -> Result<()> {
        let mut looked = self.state.compaction.looked.lock();
        let mut copying = self.state.compaction.copying.lock();
        if looked.get_or_insert_with(Instant::now).elapsed() > COMPACTION_INTERVAL {
            self.merge_overlaid()?;
            if copying.is_none() {
                *copying = self.begin_to_copy_out()?;
            }
            *looked = Some(Instant::now());
        }
        self.copy_some_out(&mut copying).map(drop)
    }

    fn merge_overlaid(&self) -> Result<()> {
        // Only taken for a moment, because writers of short ranges take this lock, and so does the code below.
        let overlaid = std::mem::take(&mut *self.state.compaction.overlaid.lock());
        // If one object cannot be read, the others are still merged.
        overlaid.into_iter().map(|key| self.merge_runs(&key)).fold(Ok(()), Result::and)
    }

    /// Merges the short extents of one object.
    fn merge_runs(&self, key: &[u8]) -> Result<()> {
        let Some((object, extents)) = self.catalog.locate(key, 0, u64::MAX)? else { return Ok(()) };
        for run in runs(&extents, self.writer.block_bytes as u64) {
            match self.merge(key, &object, run) {
                Ok(true) => {}
                // It is being written to, or there is no room. A later round tries again.
                Ok(false) | Err(Error::NoSpace { .. }) => {
                    self.state.compaction.overlaid(key);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Merges adjacent extents into one. Returns false if the object has changed meanwhile.
    ///
    /// # Errors
    /// [`Error::NoSpace`] at once if no target takes the new extent.
    pub(super) fn merge(&self, key: &[u8], object: &Object, run: &[Extent]) -> Result<bool> {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(true) };
        let mut raw = vec![0; (last.end() - first.offset) as usize];
        self.reader.read_extents(key, object, run, first.offset, &mut raw)?;
        let kept = self.planning.kept.of_replicas(key, Some(object));
        let policy = self.planning.policy(key, &PutOptions { replicas: Some(object.want), ..PutOptions::clone(&kept) });
        let room = NoWait(&self.tiers);
        let mut draft = self.writer.draft(&room, key, object.id, &policy, None);
        draft.offset = first.offset;
        if let Err(error) = draft.stays_plain(true).and_then(|()| draft.write_block(&raw)) {
            draft.abandon();
            return Err(error);
        }
        let edit = Edit::Merge { key: key.to_vec(), object: object.id, extents: draft.extents.clone() };
        let expect = vec![Expect::Generation(key.to_vec(), object.generation)];
        match self.catalog.commit(Change { expect, edits: vec![edit] }) {
            Ok(_) => Ok(true),
            Err(terrace_catalog::Error::Conflict { .. } | terrace_catalog::Error::NotFound { .. }) => {
                draft.abandon();
                Ok(false)
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Looks for segments that are mostly garbage.
    fn begin_to_copy_out(&self) -> Result<Option<CopyingOut>> {
        let mut victims: BTreeSet<(TargetId, u64)> = BTreeSet::new();
        for device in self.tiers.devices.iter().filter(|d| d.state() == TierState::Ok) {
            for (segment, live) in self.catalog.segments(device.id)? {
                let takes = device.target.allocated(segment);
                if live.frames > 0 && takes > MIN_DEAD_FACTOR * live.bytes && takes - live.bytes > MIN_COPIED_OUT_BYTES
                {
                    victims.insert((device.id, segment));
                }
            }
        }
        while victims.len() > MAX_SEGMENTS_COPIED_OUT {
            victims.pop_last();
        }
        Ok((!victims.is_empty()).then_some(CopyingOut { segments: victims, after: None }))
    }

    /// Marks live replicas in such segments as pending on their own targets, which writes them to other segments. Reads some objects,
    /// and returns how many; after the last one, `copying` is empty. A replica that a rename has moved back meanwhile is found
    /// when such segments are looked for again.
    fn copy_some_out(&self, copying: &mut Option<CopyingOut>) -> Result<usize> {
        let Some(CopyingOut { segments, after }) = copying else { return Ok(0) };
        let mut read = 0;
        self.catalog.each_object_after(b"", after.clone(), |key, object, extents| {
            let mut edits = Vec::new();
            for extent in frames(extents) {
                for replica in extent.replicas.iter().filter(|r| segments.contains(&(r.target, r.place.segment))) {
                    edits.push(owe(key, extent.task(object.id, replica.target), extent, None));
                }
            }
            if !edits.is_empty() {
                self.catalog.commit(Change { expect: Vec::new(), edits })?;
            }
            *after = Some(key.to_vec());
            read += 1;
            Ok::<_, Error>(read < MAX_OBJECTS_READ_PER_ROUND)
        })?;
        if read < MAX_OBJECTS_READ_PER_ROUND {
            *copying = None;
        }
        Ok(read)
    }
}

/// Returns runs of many small, adjacent extents, none longer than `block`.
fn runs(extents: &[Extent], block: u64) -> Vec<&[Extent]> {
    let mut runs = Vec::new();
    let mut start = 0;
    for at in 0..=extents.len() {
        let joins = at > start && at < extents.len() && {
            let (before, next) = (&extents[at - 1], &extents[at]);
            let whole = next.end() - extents[start].offset;
            // A shared frame is left alone, because a merge would store its bytes a second time for this object.
            next.source.is_none()
                && before.source.is_none()
                && next.length < SMALL_EXTENT_BYTES
                && before.length < SMALL_EXTENT_BYTES
                && before.end() == next.offset
                && whole <= block
        };
        if at > start && !joins {
            if at - start >= MIN_MERGED_EXTENTS {
                runs.push(&extents[start..at]);
            }
            start = at;
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use crate::{Config, Store};

    /// Each round read all objects of the store, as long as any segment was mostly garbage.
    #[test]
    fn a_round_reads_some_objects_and_all_rounds_find_each_frame() {
        const OBJECT_COUNT: usize = 20_000;
        let dir = tempfile::tempdir().expect("a folder");
        let (home, target) = (dir.path().join("store"), dir.path().join("t"));
        let text = format!("[[tier]]\nname = 't'\nkind = 'directory'\ntargets = ['{}']\n", target.display());
        let store = Store::init(&home, &Config::parse(&text, "test").expect("a configuration")).expect("a store");
        // The background thread moves nothing.
        let lock = std::fs::File::options().write(true).open(home.join("mover")).expect("a lock");
        lock.lock().expect("locks");
        let options = PutOptions { replicas: Some(1), ..PutOptions::default() };
        let keys: Vec<String> = (0..OBJECT_COUNT).map(|n| format!("small/{n}")).collect();
        for keys in keys.chunks(1000) {
            let mut batch = store.batch();
            for key in keys {
                batch.put(key.as_bytes(), &terrace_testkit::noise(100, 1), &options).expect("puts");
            }
            batch.commit().expect("commits");
        }
        store.put_bytes(b"large", &terrace_testkit::noise(32 << 20, 2), &options).expect("puts");
        store.remove(b"large").expect("removes");
        let mover = &store.engine.mover;
        let mut copying = mover.begin_to_copy_out().expect("looks");
        let (mut rounds, mut read) = (0, 0);
        while copying.is_some() {
            let now = mover.copy_some_out(&mut copying).expect("marks");
            assert!(now <= MAX_OBJECTS_READ_PER_ROUND, "{now} objects in a round");
            (rounds, read) = (rounds + 1, read + now);
        }
        assert_eq!((rounds, read), (OBJECT_COUNT.div_ceil(MAX_OBJECTS_READ_PER_ROUND), OBJECT_COUNT));
        assert_eq!(mover.catalog.owed_count(None).expect("counts"), OBJECT_COUNT as u64);
    }

    fn extent(offset: u64, length: u32) -> Extent {
        let replicas = Default::default();
        Extent { offset, length, skip: 0, raw_len: length, write: offset, replicas, source: None }
    }

    proptest! {
        #[test]
        fn runs_are_small_side_by_side_and_as_long_as_can_be(
            pieces in prop::collection::vec((prop_oneof![5 => Just(0u64), 1 => 1u64..9], prop_oneof![9 => 1u32..40_000, 1 => SMALL_EXTENT_BYTES..MAX_EXTENT_BYTES]), 0..200)
        ) {
            let mut at = 0;
            let extents: Vec<Extent> = pieces.iter().map(|(gap, length)| {
                let here = extent(at + gap, *length);
                at = here.end();
                here
            }).collect();
            for run in runs(&extents, u64::from(MAX_EXTENT_BYTES)) {
                prop_assert!(run.len() >= MIN_MERGED_EXTENTS && run.iter().all(|e| e.length < SMALL_EXTENT_BYTES));
                prop_assert!(run.windows(2).all(|pair| pair[0].end() == pair[1].offset));
                prop_assert!(run[run.len() - 1].end() - run[0].offset <= u64::from(MAX_EXTENT_BYTES));
            }
            // The extents that are left form no further run.
            let merged: HashSet<u64> = runs(&extents, u64::from(MAX_EXTENT_BYTES)).into_iter().flatten().map(|e| e.offset).collect();
            let left: Vec<Extent> = extents.iter().filter(|e| !merged.contains(&e.offset)).cloned().collect();
            let again: usize = runs(&left, u64::from(MAX_EXTENT_BYTES)).len();
            prop_assert_eq!(again, 0);
        }
    }
}
