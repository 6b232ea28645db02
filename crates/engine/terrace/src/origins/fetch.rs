//! Fetches bytes of origins, and stores them as extents.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

use terrace_catalog::{Change, Edit, Expect, Extent, Object};
use terrace_format::key;
use terrace_tier::OriginReadError;

use super::turns::Turn;
use super::{Origins, Source, unanswered};
use crate::place::{PutOptions, element_of};
use crate::write::{Draft, MakeRoom};
use crate::{Error, Result};

/// Room is not made for fetched bytes while a reader waits: they are passed on without being stored.
struct NoRoom;

impl MakeRoom for NoRoom {
    fn make_room(&self, _: usize, _: Instant) -> Result<()> {
        Err(Error::NoSpace { tiers: "fetched bytes are not stored".into() })
    }
}

impl Origins {
    /// Returns the range to fetch for a read of `start..end`.
    pub fn window(&self, object: &Object, start: u64, end: u64) -> Range<u64> {
        self.courses.lock().window(object, start, end)
    }

    /// Waits for the turn to fetch a range of an object.
    pub fn take_turn(&self, object: &Object, range: &Range<u64>) -> Turn {
        self.turns.take_range(object.id, range)
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
                self.look_again(origin, key);
                Err(Error::ChangedAtOrigin { key: key::show(key), origin: origin.prefix.clone() })
            }
            Err(OriginReadError::Io(cause)) => Err(unanswered(origin, "reading", key, cause)),
        }
    }

    /// Stores fetched bytes as extents of the object, if there is room, and the key still names it. If not, they are only passed on.
    pub fn store(&self, key: &[u8], object: &Object, offset: u64, bytes: &[u8]) {
        self.has_stored.store(true, Ordering::Relaxed); // see the field
        match self.try_store(key, object, offset, bytes) {
            Ok(()) => {}
            Err(Error::NoSpace { .. }) => {
                self.unkept.fetch_add(bytes.len() as u64, Ordering::Relaxed); // see the field
            }
            Err(error) => tracing::debug!(key = %key::show(key), %error, "fetched bytes were not stored"),
        }
    }

    fn try_store(&self, key: &[u8], object: &Object, offset: u64, bytes: &[u8]) -> Result<()> {
        let policy = self.planning.policy(key, &PutOptions::default());
        let mut draft = self.writer.draft(&NoRoom, key, object.id, &policy, element_of(key));
        let stored = self.write(&mut draft, offset, bytes).and_then(|()| {
            terrace_system::fail::point("origin:written");
            // Not `Generation`: other ranges may be stored at the same time.
            let expect = vec![Expect::Names(key.to_vec(), object.id)];
            let edit = Edit::Merge { key: key.to_vec(), object: object.id, extents: draft.extents.clone() };
            Ok(self.catalog.commit(Change { expect, edits: vec![edit] })?)
        });
        match stored {
            Ok(_) => {
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
        let block = self.writer.block as u64;
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
