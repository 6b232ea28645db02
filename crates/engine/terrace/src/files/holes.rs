//! Holes: made, and looked for.

use terrace_catalog::{Edit, Extent};
use terrace_format::key;
use terrace_system::clock::unix_nanos;

use super::open::State;
use super::{File, FileError, FileResult};

/// How far is looked at first; twice as far each time that tells nothing.
const LOOKED_AT_BYTES: u64 = 64 << 20;

impl File {
    /// Makes a hole of what the file has of `length` bytes from `offset` on: they read as zeros, and their space is given back.
    /// The file stays as long as it is.
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

    /// The first byte from `offset` on that is in no hole; none where there is none. What is kept back is written first.
    pub fn next_data(&self, offset: u64) -> FileResult<Option<u64>> {
        self.look(offset, |at, _, extents| extents.first().map(|first| first.offset.max(at)))
    }

    /// The first byte from `offset` on that is in a hole, such as the one behind the last byte; none where `offset` is there or
    /// beyond it. What is kept back is written first.
    pub fn next_hole(&self, offset: u64) -> FileResult<Option<u64>> {
        let hole = self.look(offset, |mut at, end, extents| {
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

    /// Goes through the extents from `offset` to the end until `found` says something of a range and those in it.
    fn look(&self, offset: u64, found: impl Fn(u64, u64, &[Extent]) -> Option<u64>) -> FileResult<Option<u64>> {
        let mut state = self.open.state.write();
        self.shared.flush(&self.open, &mut state)?;
        let length = self.committed(&state)?.length;
        let (mut at, mut step) = (offset, LOOKED_AT_BYTES);
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
