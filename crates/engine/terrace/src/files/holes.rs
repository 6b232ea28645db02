//! Makes and finds holes.

use terrace_catalog::{Edit, Extent};
use terrace_format::key;
use terrace_system::clock::unix_nanos;

use super::open::State;
use super::{File, FileError, FileResult};
use crate::origins::is_at_origin;

/// The length of the range that is searched first. It doubles after each range without a result.
const FIRST_SEARCHED_BYTES: u64 = 64 << 20;

impl File {
    /// Makes a hole of the file's bytes in the `length` bytes from `offset` on: they read as zeros, and their space is
    /// freed. The file's length does not change.
    pub fn clear(&self, offset: u64, length: u64) -> FileResult<()> {
        let mut state = self.open.state.write();
        self.shared.flush(&self.open, &mut state)?;
        let end = key::check_end(&state.key, offset, length).map_err(|_| FileError::TooLarge(key::show(&state.key)))?;
        let end = end.min(self.committed(&state)?.length);
        if offset >= end {
            return Ok(());
        }
        self.change(&state, Edit::Clear { key: state.key.clone(), start: offset, end, mtime: unix_nanos() })?;
        self.shared.store.engine.mover.follow_cut();
        Ok(())
    }

    /// Returns the offset of the first byte from `offset` on that is in no hole, if any. Writes buffered bytes first.
    pub fn next_data(&self, offset: u64) -> FileResult<Option<u64>> {
        if self.is_at_origin()? {
            return Ok((offset < self.stat()?.length).then_some(offset));
        }
        self.search_extents(offset, |at, _, extents| extents.first().map(|first| first.offset.max(at)))
    }

    /// Returns the offset of the first byte from `offset` on that is in a hole. The end of the file counts as one. None if
    /// `offset` is at or beyond the end. Writes buffered bytes first.
    pub fn next_hole(&self, offset: u64) -> FileResult<Option<u64>> {
        if self.is_at_origin()? {
            let length = self.stat()?.length;
            return Ok((offset < length).then_some(length));
        }
        let hole = self.search_extents(offset, |mut at, end, extents| {
            for extent in extents {
                if extent.offset > at {
                    return Some(at);
                }
                at = extent.end();
            }
            (at < end).then_some(at)
        })?;
        let length = self.stat()?.length;
        Ok((offset < length).then(|| hole.unwrap_or(length).min(length)))
    }

    /// Returns whether the bytes in holes are at an origin. Where its file has holes is not known.
    fn is_at_origin(&self) -> FileResult<bool> {
        let object = self.shared.object(&self.open.state.read().key)?.filter(|object| object.id == self.open.id);
        Ok(object.is_some_and(|object| is_at_origin(&object)))
    }

    /// Passes ranges from `offset` to the end, with their extents, to `found` until it returns an offset.
    fn search_extents(
        &self,
        offset: u64,
        found: impl Fn(u64, u64, &[Extent]) -> Option<u64>,
    ) -> FileResult<Option<u64>> {
        let mut state = self.open.state.write();
        self.shared.flush(&self.open, &mut state)?;
        let length = self.committed(&state)?.length;
        let (mut at, mut step) = (offset, FIRST_SEARCHED_BYTES);
        while at < length {
            let end = at.saturating_add(step).min(length);
            let extents = self.extents(&state, at, end)?;
            if let Some(found) = found(at, end, &extents) {
                return Ok(Some(found));
            }
            (at, step) = (end, step.saturating_mul(2));
        }
        Ok(None)
    }

    fn extents(&self, state: &State, start: u64, end: u64) -> FileResult<Vec<Extent>> {
        let located = self.shared.store.engine.catalog.locate(&state.key, start, end)?;
        let ours = located.filter(|(object, _)| object.id == self.open.id);
        ours.map(|(_, extents)| extents).ok_or_else(|| FileError::stale(&state.key))
    }
}
