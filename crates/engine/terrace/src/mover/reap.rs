//! Frees the space of dropped frames.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use terrace_catalog::{Catalog, Edit};
use terrace_tier::Place;

use super::plain::PlainNames;
use crate::Result;
use crate::devices::{Device, Tiers};
use crate::home::{Leases, Locks};
use crate::journal::Journal;
use crate::report::TierState;

/// The time for which a dropped frame's bytes stay, for readers that looked it up before.
pub(crate) const GRACE_PERIOD: Duration = Duration::from_secs(30);
/// The same on a target in memory, which a program that overwrites its objects would soon fill. Reads that take a second hold a lease.
const MEMORY_GRACE_PERIOD: Duration = Duration::from_secs(2);
/// The bytes of dropped frames on a target that a process may leave behind because no sync mark covers them.
const MAX_UNMARKED_GARBAGE_BYTES: u64 = 64 << 20;
/// The number of frames that one commit frees.
const PLACES_FREED_PER_COMMIT: usize = 1024;

/// Frees the space of dropped frames. Needs no other part of the mover, and no state of its own.
pub(crate) struct Reaper {
    pub catalog: Arc<Catalog>,
    pub tiers: Arc<Tiers>,
    pub journal: Arc<Journal>,
    pub locks: Arc<Locks>,
    pub leases: Arc<Leases>,
    pub names: Arc<PlainNames>,
}

impl Reaper {
    /// Returns whether this process moves and frees replicas on a target: no other node does.
    pub fn is_own(&self, device: &Device) -> bool {
        let is_common = device.node.is_none() && self.locks.may_move_all();
        !self.catalog.is_shared() || self.tiers.is_tended(device) || is_common
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
        // The last commit that no outcome of a power cut can undo.
        let settled = if is_shared { self.catalog.floor()? } else { self.catalog.synced()? };
        for device in self.tiers.devices.iter().filter(|device| self.is_own(device)) {
            match (is_shared, device.is_in_memory) {
                // Readers on other nodes are not known here.
                (true, _) => self.free_older(device, grace.max(GRACE_PERIOD), settled)?,
                (false, true) => self.free_garbage_in_memory(device, grace.min(MEMORY_GRACE_PERIOD), settled)?,
                (false, false) => self.free_older(device, grace, settled)?,
            }
            self.discard_segments(device, settled)?;
        }
        Ok(())
    }

    /// Frees the frames on a target that were dropped longer ago than `grace`.
    fn free_older(&self, device: &Device, grace: Duration, settled: u64) -> Result<()> {
        let freed_before = seconds_before_now(grace);
        loop {
            let dead = self.catalog.freeable(device.id, freed_before, PLACES_FREED_PER_COMMIT)?;
            if dead.is_empty() || !self.free_dead(device, dead, settled)? {
                return Ok(());
            }
        }
    }

    /// The same, and the oldest of the others while they take too much of a target that is half full. A reader that misses a frame looks it up again.
    fn free_garbage_in_memory(&self, device: &Device, grace: Duration, settled: u64) -> Result<()> {
        self.free_older(device, grace, settled)?;
        if !device.is_half_full() {
            return Ok(());
        }
        let garbage = self.count_garbage(device)?;
        let mut excess = if garbage > device.max_garbage() { garbage - device.max_garbage() / 2 } else { 0 };
        while excess > 0 {
            let mut dead = self.catalog.freeable(device.id, u64::MAX, PLACES_FREED_PER_COMMIT)?;
            let mut sums = dead.iter().scan(0, |sum, (_, place)| {
                *sum += u64::from(place.length);
                Some(*sum)
            });
            let enough = sums.position(|sum| sum >= excess).map_or(dead.len(), |last| last + 1);
            dead.truncate(enough);
            let freed: u64 = dead.iter().map(|(_, place)| u64::from(place.length)).sum();
            // Leases pin the rest, or no mark covers it.
            if dead.is_empty() || !self.free_dead(device, dead, settled)? {
                break;
            }
            excess = excess.saturating_sub(freed);
            // It need not wait for its next attempt.
            if device.state() == TierState::Full {
                device.try_again();
            }
        }
        Ok(())
    }

    /// Returns whether any of these targets in memory has more garbage than may stay.
    pub fn any_has_much_garbage(&self, devices: &[&Device]) -> Result<bool> {
        for device in devices {
            if self.count_garbage(device)? > device.max_garbage() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether any target has so much garbage that it is worth a sync mark, which lets it be freed.
    pub fn find_much_garbage(&self) -> Result<bool> {
        for device in self.tiers.devices.iter().filter(|device| self.is_own(device)) {
            if self.count_garbage(device)? > MAX_UNMARKED_GARBAGE_BYTES {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the bytes of dropped frames on a target.
    fn count_garbage(&self, device: &Device) -> Result<u64> {
        Ok(self.catalog.dead_places(device.id)?.bytes())
    }

    /// Frees dead places of a target. Returns false if it does not work: they stay queued, and are freed when it works again.
    fn free_dead(&self, device: &Device, dead: Vec<(u64, Place)>, settled: u64) -> Result<bool> {
        self.make_drops_durable(&dead, settled)?;
        if !self.journal.copy_before_freeing(device) {
            return Ok(false);
        }
        let places: Vec<_> = dead.iter().map(|(_, place)| *place).collect();
        if let Err(e) = device.target.free(&places) {
            device.failed(&e);
            return Ok(false);
        }
        terrace_system::fail::point("reap:freed");
        self.catalog.commit(Edit::Freed { target: device.id, places: dead }.into())?;
        Ok(true)
    }

    /// Syncs the log. The process that made the last mark may not have synced it yet, and a rebuild that does not find the mark would look
    /// for the frames. So would one from a copy of the log that lacks a removal.
    fn make_drops_durable(&self, dead: &[(u64, Place)], settled: u64) -> Result<()> {
        if self.catalog.is_shared() {
            return Ok(());
        }
        self.catalog.log().sync(self.catalog.tail()?)?;
        if dead.iter().any(|(sequence, _)| *sequence > settled) { self.journal.copy_log(true) } else { Ok(()) }
    }

    /// Deletes a target's segments that have no frames, and that no commit after `settled` has changed.
    fn discard_segments(&self, device: &Device, settled: u64) -> Result<()> {
        let mut segments = self.catalog.segments(device.id)?;
        segments.retain(|(_, live)| live.frames == 0 && live.sequence <= settled);
        // Readers may still read dropped frames of these segments.
        let mut dying = if segments.is_empty() { HashSet::new() } else { self.catalog.dying(device.id, 0)? };
        // A file at its key is still found by its number, so it must be unnamed before it is discarded.
        if self.names.is_any() {
            self.names.update_target(device)?;
            for (_, noted) in self.catalog.unfollowed(device.id, b"", usize::MAX)? {
                dying.extend(noted.files);
            }
        }
        for (segment, _) in segments.into_iter().filter(|(segment, _)| !dying.contains(segment)) {
            self.make_drops_durable(&[], settled)?;
            if device.target.discard(segment).unwrap_or(false) {
                self.catalog.commit(Edit::Discarded { target: device.id, segment }.into())?;
            }
        }
        Ok(())
    }
}

/// Returns the seconds since 1970 of that time before now.
fn seconds_before_now(time: Duration) -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(time).as_secs()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;
    use std::time::Duration;

    use super::GRACE_PERIOD;
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
            store.engine.reaper.reap(Duration::ZERO).expect("gives back");
            assert!(store.get(b"new").is_ok_and(|bytes| bytes == noise(2)), "the old frame was dead: {is_dead}");
            assert_eq!(store.scrub(b"", false, None, |_| {}).expect("scrubs").bad, 0);
        }
    }

    /// A program that overwrote its objects filled memory with garbage, which stayed for 30 seconds and a sync mark, and its next objects went
    /// to other tiers.
    #[test]
    fn garbage_in_memory_takes_an_eighth_of_what_is_half_full() {
        let dir = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
        let disk = tempfile::tempdir().expect("a folder");
        let text = format!(
            "[[tier]]\nname = 'ram'\nkind = 'directory'\npersistent = false\ncapacity = '8MiB'\ntargets = ['{}']\n\
             [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n",
            dir.path().display(),
            disk.path().join("disk").display()
        );
        let home = disk.path().join("store");
        let store = Store::init(&home, &Config::parse(&text, "test").expect("a configuration")).expect("a store");
        let put = |seed: u64| {
            let options = PutOptions { ack: Some(Ack::Replicated), replicas: Some(2), ..PutOptions::default() };
            store.put_bytes(format!("{}", seed % 4).as_bytes(), &noise(seed), &options).expect("puts");
        };
        (0..4).for_each(put);
        let handle = store.handle(b"1").expect("opens");
        (4..100).for_each(|seed| {
            put(seed);
            store.engine.journal.mark_synced().expect("makes a mark");
            store.engine.reaper.reap(GRACE_PERIOD).expect("frees");
            let ram = &store.engine.tiers.devices[0];
            // Four objects, one that is read, and the garbage.
            assert!(ram.space().expect("its space").used <= 5 * 650_000 + (2 << 20), "after {seed} puts");
        });
        let mut old = noise(0);
        assert_eq!(handle.read_at(0, &mut old).expect("reads"), old.len());
        assert!(old == noise(1));
        for key in 0..4 {
            assert!(store.get(format!("{key}").as_bytes()).is_ok_and(|bytes| bytes == noise(96 + key)));
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
        store.engine.reaper.reap(Duration::ZERO).expect("frees");
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
