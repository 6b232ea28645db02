//! Fetches bytes of origins, and stores them as extents.

use std::ops::Range;
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use terrace_catalog::{Change, Edit, Expect, Extent, Object};
use terrace_format::key;
use terrace_plan::snapshot::TierSet;
use terrace_system::clock::monotonic_nanos;
use terrace_tier::OriginReadError;

use super::fetch_locks::FetchLock;
use super::{Origins, Source, unanswered};
use crate::place::{PutOptions, element_of};
use crate::write::{Draft, MakeRoom};
use crate::{Error, Result};

/// The longest time for which a reader waits until there is room for what it has fetched.
const MAX_ROOM_WAIT: Duration = Duration::from_secs(1);

/// If no room was made, readers do not ask for it again for this time, and for this multiple of the time that the attempt took: the
/// search for older bytes reads all names.
const FULL_PAUSE: Duration = Duration::from_secs(1);
const FULL_PAUSE_FACTOR: u32 = 4;

/// Makes room for fetched bytes by dropping older ones. If that takes long, they are passed on without being stored.
struct RoomOfOlder<'a>(&'a Origins);

impl MakeRoom for RoomOfOlder<'_> {
    fn make_room(&self, bytes: usize, _: TierSet, waiting_since: Instant) -> Result<()> {
        let (origins, began) = (self.0, Instant::now());
        let mover = origins.room.get().and_then(Weak::upgrade);
        let is_paused = monotonic_nanos() < origins.full_until.load(Ordering::Relaxed); // see the field
        let dropped = match mover.filter(|_| !is_paused && waiting_since.elapsed() < MAX_ROOM_WAIT) {
            Some(mover) => mover.drop_cached(bytes as u64),
            None => Ok(false),
        };
        if matches!(dropped, Ok(true)) {
            return Ok(());
        }
        if !is_paused {
            let pause = FULL_PAUSE.max(began.elapsed() * FULL_PAUSE_FACTOR).as_nanos() as u64;
            origins.full_until.store(monotonic_nanos() + pause, Ordering::Relaxed); // see the field
        }
        dropped?;
        Err(Error::NoSpace { tiers: "fetched bytes are not stored".into() })
    }
}

impl Origins {
    /// Returns the range to fetch for a read of `start..end`.
    pub fn window(&self, object: &Object, start: u64, end: u64) -> Range<u64> {
        self.courses.lock().window(object, start, end)
    }

    /// Waits until no other thread or process fetches from a range of an object.
    pub fn wait_to_fetch(&self, object: &Object, range: &Range<u64>) -> FetchLock {
        self.fetch_locks.wait_for_range(object.id, range)
    }

    /// Returns the extents of an object in a range as they are now. None if its key names another object.
    pub fn cached(&self, key: &[u8], object: &Object, range: &Range<u64>) -> Result<Vec<Extent>> {
        let found = self.catalog.locate(key, range.start, range.end)?.filter(|(now, _)| now.id == object.id);
        Ok(found.map(|(_, extents)| extents).unwrap_or_default())
    }

    /// Fetches bytes of a file from `offset` on.
    ///
    /// # Errors
    /// [`Error::ChangedAtOrigin`] if the file is another one now, [`Error::Origin`] if the origin does not answer.
    pub fn fetch(&self, source: &Source, key: &[u8], offset: u64, out: &mut [u8]) -> Result<()> {
        let Source { origin, path, identity } = source;
        terrace_system::fail::point("origin:fetch");
        match self.ask(origin, |files| files.read(path, identity, offset, out)) {
            Ok(()) => Ok(()),
            Err(OriginReadError::Changed) => {
                self.refresh_changed(origin, key);
                Err(Error::ChangedAtOrigin { key: key::show(key), origin: origin.prefix.clone() })
            }
            Err(OriginReadError::Io(cause)) => Err(unanswered(origin, "reading", key, cause)),
        }
    }

    /// Stores fetched bytes as extents of the object, if there is room, and the key still names it. If not, they are only passed on.
    /// Returns whether they are stored.
    pub fn store(&self, key: &[u8], object: &Object, offset: u64, bytes: &[u8]) -> bool {
        self.has_stored.store(true, Ordering::Relaxed); // see the field
        match self.try_store(key, object, offset, bytes) {
            Ok(()) => return true,
            Err(Error::NoSpace { .. }) => {
                self.unkept.fetch_add(bytes.len() as u64, Ordering::Relaxed); // see the field
            }
            Err(error) => tracing::debug!(key = %key::show(key), %error, "fetched bytes were not stored"),
        }
        false
    }

    fn try_store(&self, key: &[u8], object: &Object, offset: u64, bytes: &[u8]) -> Result<()> {
        let policy = self.planning.policy(key, &PutOptions::default());
        let room = RoomOfOlder(self);
        let mut draft = self.writer.draft(&room, key, object.id, &policy, element_of(key));
        let stored = self.write(&mut draft, offset, bytes).and_then(|()| {
            terrace_system::fail::point("origin:written");
            // Not `Generation`: other ranges may be stored at the same time.
            let expect = vec![Expect::Names(key.to_vec(), object.id)];
            let edit = Edit::Merge { key: key.to_vec(), object: object.id, extents: draft.extents.clone() };
            Ok(self.catalog.commit(Change { expect, edits: vec![edit] })?)
        });
        match stored {
            Ok(_) => {
                self.recency.touch(object.id, draft.extents.iter().map(|new| new.extent.offset));
                terrace_system::fail::point("origin:stored");
                Ok(())
            }
            Err(error) => {
                draft.abandon();
                Err(error)
            }
        }
    }

    /// Writes extents that end where those of a whole object would, so that they can be merged.
    fn write(&self, draft: &mut Draft<'_>, offset: u64, mut bytes: &[u8]) -> Result<()> {
        let block = self.writer.block_bytes as u64;
        draft.offset = offset;
        while !bytes.is_empty() {
            let length = (block - draft.offset % block).min(bytes.len() as u64) as usize;
            let (first, rest) = bytes.split_at(length);
            draft.write_block(first)?;
            bytes = rest;
        }
        Ok(())
    }
}
