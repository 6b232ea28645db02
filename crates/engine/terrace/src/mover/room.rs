//! Frees the space of dropped frames, and waits for room.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use terrace_catalog::Edit;
use terrace_system::fail;
use terrace_tier::Place;

use super::{Mover, OWED_PER_LOOK, REST_TIME};
use crate::report::TierState;
use crate::write::MakeRoom;
use crate::{Error, Result};

/// The time for which a dropped frame's bytes stay, for readers that looked it up before.
pub(crate) const GRACE_PERIOD: Duration = Duration::from_secs(30);
/// How long a write waits for room before it fails.
const MAX_SPACE_WAIT: Duration = Duration::from_secs(30);
/// The time that a write waits if no room can become free.
pub(super) const HOPELESS_WAIT: Duration = Duration::from_secs(1);
/// The time for which a store counts as full after a write has waited in vain.
const FULL_STORE_TIME: Duration = Duration::from_secs(10);
/// The number of frames that one commit frees.
const PLACES_FREED_PER_COMMIT: usize = 1024;

impl Mover {
    /// Frees all space that can be freed now, and lets full targets be tried again. Returns whether that changed nothing: then neither
    /// eviction nor freeing dead space makes room now.
    pub(super) fn free_space_now(&self) -> Result<bool> {
        let before = self.catalog.tail()?.sequence;
        self.journal.mark_synced()?;
        self.reap(Duration::ZERO)?;
        if let Some(_lock) = self.locks.mover_at_once()? {
            let tasks = self.catalog.owed(None, OWED_PER_LOOK)?;
            self.make(&tasks, false)?;
            self.evict()?;
        }
        for device in &self.tiers.devices {
            if device.space().is_ok_and(|s| s.used < s.capacity && !s.read_only) {
                device.try_again();
            }
        }
        Ok(self.catalog.tail()?.sequence == before)
    }

    /// Frees dropped frames whose grace period has passed, if a power cut cannot undo the drop: a sync mark covers it, or it
    /// removes a whole object and is durable in the log. Without the latter, a full disk would stay full: the mark would
    /// wait for pending replicas, which wait for the space of the removed objects.
    pub fn reap(&self, grace: Duration) -> Result<()> {
        if !self.locks.may_move() {
            return Ok(());
        }
        self.leases.drop_dead(&self.catalog)?;
        let is_shared = self.catalog.is_shared();
        // Readers on other nodes are not known here.
        let grace = if is_shared { grace.max(GRACE_PERIOD) } else { grace };
        // The last commit that no outcome of a power cut can undo.
        let settled = if is_shared { self.catalog.floor()? } else { self.catalog.synced()? };
        // The process that made the mark may not have synced it yet. A rebuild that does not find the mark would look for
        // the frames.
        let make_durable = |dead: &[(u64, Place)]| {
            if is_shared {
                return Ok(());
            }
            self.catalog.log().sync(self.catalog.tail()?)?;
            // So would a rebuild from a copy of the log that lacks a removal.
            if dead.iter().any(|(sequence, _)| *sequence > settled) { self.journal.copy_log(true) } else { Ok(()) }
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for device in self.tiers.devices.iter().filter(|device| self.is_own(device)) {
            loop {
                let freed_before = now.saturating_sub(grace).as_secs();
                let dead = self.catalog.freeable(device.id, freed_before, PLACES_FREED_PER_COMMIT)?;
                if dead.is_empty() {
                    break;
                }
                make_durable(&dead)?;
                if !self.journal.copy_before_freeing(device) {
                    // They stay queued, and are freed when the target works again.
                    break;
                }
                let places: Vec<_> = dead.iter().map(|(_, place)| *place).collect();
                if let Err(e) = device.target.free(&places) {
                    // They stay queued, and are freed when the target works again.
                    device.failed(&e);
                    break;
                }
                terrace_system::fail::point("reap:freed");
                self.catalog.commit(Edit::Freed { target: device.id, places: dead }.into())?;
            }
            let mut segments = self.catalog.segments(device.id)?;
            segments.retain(|(_, live)| live.frames == 0 && live.sequence <= settled);
            // Readers may still read dropped frames of these segments.
            let mut dying = if segments.is_empty() { HashSet::new() } else { self.catalog.dying(device.id, 0)? };
            // A file at its key is still found by its number, so it must be unnamed before it is discarded.
            if self.planning.rules.now().has_plain() {
                self.follow(device)?;
                for (_, noted) in self.catalog.unfollowed(device.id, b"", usize::MAX)? {
                    dying.extend(noted.files);
                }
            }
            for (segment, _) in segments.into_iter().filter(|(segment, _)| !dying.contains(segment)) {
                make_durable(&[])?;
                if device.target.discard(segment).unwrap_or(false) {
                    self.catalog.commit(Edit::Discarded { target: device.id, segment }.into())?;
                }
            }
        }
        Ok(())
    }
}

impl MakeRoom for Mover {
    /// Makes room, or waits for it, for a write that no target took.
    ///
    /// # Errors
    /// [`Error::NoSpace`] after 30 seconds, or after one second if no room can become free or another write of this process has just
    /// waited in vain. Otherwise each block of each writer would wait that long, and the threads of a mount with them.
    fn make_room(&self, bytes: usize, waiting_since: Instant) -> Result<()> {
        let elapsed = waiting_since.elapsed();
        self.uncache_for(bytes as u64)?;
        let is_still = self.free_space_now()?;
        let limit = fail::limit("TERRACE_NO_SPACE_MILLISECONDS", MAX_SPACE_WAIT.as_millis() as u64);
        let mut limit = Duration::from_millis(limit);
        let is_full = |at: Instant| at.elapsed() < FULL_STORE_TIME;
        // The lock is held to the end of the condition, while the tiers are checked. Nothing there takes it, or a lock that
        // is held around it.
        if self.state.found_full.lock().is_some_and(is_full) || self.is_full_for_good(bytes as u64, is_still)? {
            limit = limit.min(HOPELESS_WAIT);
        }
        if elapsed > limit {
            // Two writers may set it at the same time. Either time is right.
            *self.state.found_full.lock() = Some(Instant::now());
            let tiers = self.tiers.describe();
            let any_is = |state| self.tiers.devices.iter().any(|device| device.state() == state);
            let mut also = String::new();
            if any_is(TierState::ReadOnly) {
                also += ", or make the read-only file system writable again";
            }
            if any_is(TierState::Away) {
                also += ", or bring back what is away";
            }
            return Err(Error::NoSpace {
                tiers: format!("{tiers}; free some, add a tier, or raise a tier's capacity{also}"),
            });
        }
        std::thread::sleep(REST_TIME / 10);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;
    use std::time::Duration;

    use crate::{Ack, Config, PutOptions, Store};

    /// Bytes that no encoding makes shorter.
    fn noise(seed: u64) -> Vec<u8> {
        (0..75_000_u64)
            .flat_map(|n| xxhash_rust::xxh3::xxh3_64_with_seed(&n.to_le_bytes(), seed).to_le_bytes())
            .collect()
    }

    fn put(store: &Store, key: &[u8], seed: u64) {
        let options = PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() };
        store.put_bytes(key, &noise(seed), &options).expect("puts");
    }

    /// Cuts every segment below `root` to its first page.
    fn cut_segments(root: &Path) {
        for entry in fs::read_dir(root.join("segments")).expect("segments") {
            let file = File::options().write(true).open(entry.expect("an entry").path()).expect("opens");
            file.set_len(4096).expect("cuts");
        }
    }

    /// A segment was truncated. The next frame was appended behind the cut, at a place where the catalog still named
    /// another frame; when that was freed, it was punched out of the new one, which was acknowledged.
    #[test]
    fn what_is_freed_in_a_segment_that_was_cut_takes_no_newer_frame_with_it() {
        for is_dead in [false, true] {
            let dir = tempfile::tempdir().expect("a folder");
            let root = dir.path().join("disk");
            let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", root.display());
            let home = dir.path().join("store");
            let store = Store::init(&home, &Config::parse(&text, "test").expect("a configuration")).expect("a store");
            put(&store, b"old", 1);
            if is_dead {
                store.remove(b"old").expect("removes");
            }
            store.close().expect("closes");
            cut_segments(&root);
            let store = Store::open(&home).expect("opens");
            put(&store, b"new", 2);
            if !is_dead {
                store.remove(b"old").expect("removes");
            }
            store.sync().expect("syncs");
            store.engine.mover.reap(Duration::ZERO).expect("gives back");
            assert!(store.get(b"new").is_ok_and(|bytes| bytes == noise(2)), "the old frame was dead: {is_dead}");
            assert_eq!(store.scrub(b"", false, None, |_| {}).expect("scrubs").bad, 0);
        }
    }

    /// Replicas of a shared frame were made, and freed when all objects that shared it were removed. A rebuild took them for lost.
    #[test]
    fn a_rebuild_misses_no_replica_of_a_shared_frame_that_was_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let tier = |name: &str, more: &str| {
            let path = dir.path().join(name);
            format!("[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = ['{}']\n{more}\n", path.display())
        };
        let text = format!("{}{}", tier("ram", "persistent = false"), tier("disk", ""));
        let home = dir.path().join("store");
        let store = Store::init(&home, &Config::parse(&text, "test").expect("a configuration")).expect("a store");
        let options = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
        store.put_bytes(b"source", &noise(1), &options).expect("puts");
        store.copy(b"source", b"copy").expect("copies");
        while store.status().expect("a status").owed > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        store.remove(b"source").expect("removes");
        store.remove(b"copy").expect("removes");
        store.engine.mover.reap(Duration::ZERO).expect("frees");
        let end = store.catalog().tail().expect("an end");
        drop(store);
        let store = Store::rebuild(&home).expect("rebuilds");
        let mut more = Vec::new();
        let note = |record: terrace_catalog::log::Record| {
            // The background thread may have made a mark before the store was closed.
            more.extend(
                record
                    .commits
                    .into_iter()
                    .flatten()
                    .filter(|edit| !matches!(edit, terrace_catalog::Edit::Synced { .. })),
            );
            Ok::<_, crate::Error>(())
        };
        store.catalog().log().replay(end, note).expect("reads");
        assert!(more.is_empty(), "{more:?}");
    }

    /// A segment of a version that did not note where its frames end is not added to.
    #[test]
    fn a_record_without_an_end_may_end_anywhere() {
        let old = postcard::to_stdvec(&(3_u64, 5_000_u64, 9_u64)).expect("encodes");
        let read = terrace_catalog::Live::read(&old).expect("reads");
        assert_eq!((read.frames, read.bytes, read.sequence, read.end), (3, 5_000, 9, u64::MAX));
    }
}
