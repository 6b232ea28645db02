//! [`File`]: an open file.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use parking_lot::Mutex;

use super::ahead::Course;
use super::open::{Open, State};
use super::{FileError, FileResult, Setting, Shared, Stat};
use crate::catalog::{Change, Edit, Expect};
use crate::write::now;
use crate::{Error, key};

/// More kept back than this is written at once: bytes, and pieces.
const KEPT: usize = 16 << 20;
const PIECES: usize = 4096;
/// The same for all files together.
const ALL_KEPT: usize = 64 << 20;

/// An open file. Closed when dropped: what is kept back is written, and an error only logged; [`File::flush`]
/// tells.
pub struct File {
    pub(super) shared: Arc<Shared>,
    pub(super) open: Arc<Open>,
    /// Whether what is kept back is written when it is dropped, as it is at the latest when the last one is.
    pub(super) flushes: bool,
    /// How it is read.
    pub(super) course: Mutex<Course>,
}

impl File {
    pub(super) fn new(shared: Arc<Shared>, open: Arc<Open>) -> File {
        File { shared, open, flushes: true, course: Mutex::default() }
    }

    /// The object's number.
    pub fn id(&self) -> u64 {
        self.open.id
    }

    /// What is known about it.
    pub fn stat(&self) -> FileResult<Stat> {
        let state = self.open.state.read();
        let mut stat = self.committed(&state)?;
        state.show(&mut stat);
        Ok(stat)
    }

    /// What the store knows about it.
    pub(super) fn committed(&self, state: &State) -> FileResult<Stat> {
        let object = self.shared.object(&state.key)?.filter(|object| object.id == self.open.id);
        Ok(Stat::of(&object.ok_or_else(|| FileError::stale(&state.key))?, self.shared.owner))
    }

    /// Fills `out` from byte `offset` on; the bytes read, which are fewer only at the file's end. What was never written
    /// reads as zeros.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> FileResult<usize> {
        let state = self.open.state.read();
        let end = offset.saturating_add(out.len() as u64);
        if state.dirty.covers(offset, end) {
            state.dirty.overlay(offset, out);
            return Ok(out.len());
        }
        self.shared.ahead.note(&self.shared.store, &self.course, &state.key, offset, out.len() as u64);
        let have = match self.shared.store.read_at(&state.key, offset, out) {
            Err(Error::NotFound { .. }) => return Err(FileError::stale(&state.key)),
            have => have?,
        };
        // Numbers are never given twice: if it has the key now, it had it before.
        self.committed(&state)?;
        let kept = state.dirty.end().saturating_sub(offset).min(out.len() as u64) as usize;
        let length = have.max(kept);
        let out = &mut out[..length];
        out[have..].fill(0);
        state.dirty.overlay(offset, out);
        Ok(length)
    }

    /// Writes `bytes` at `offset`.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> FileResult<()> {
        let mut state = self.open.state.write();
        self.write(&mut state, offset, bytes)
    }

    /// Writes `bytes` behind the last byte; where that was.
    pub fn append(&self, bytes: &[u8]) -> FileResult<u64> {
        let mut state = self.open.state.write();
        let end = self.committed(&state)?.length.max(state.dirty.end());
        self.write(&mut state, end, bytes)?;
        Ok(end)
    }

    fn write(&self, state: &mut State, offset: u64, bytes: &[u8]) -> FileResult<()> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| i64::try_from(*end).is_ok());
        let end = end.ok_or_else(|| FileError::TooLarge(key::show(&state.key)))?;
        let before = state.dirty.bytes();
        if bytes.len() >= self.shared.store.inner.config.block() {
            self.shared.write_through(&self.open, state, offset, bytes)?;
            state.dirty.clear(offset, end);
        } else {
            state.dirty.write(offset, bytes);
        }
        let after = state.dirty.bytes();
        self.shared.kept.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        state.written = match (after, state.written) {
            (0, _) => None,
            (_, Some((since, _))) => Some((since, now())),
            (_, None) => Some((Instant::now(), now())),
        };
        let much = after > KEPT || state.dirty.pieces() > PIECES;
        if much || after > 0 && self.shared.kept.load(Ordering::Relaxed) > ALL_KEPT {
            self.shared.flush(&self.open, state)?;
        }
        Ok(())
    }

    /// Cuts the file to `length` bytes, or extends it with zeros.
    pub fn set_len(&self, length: u64) -> FileResult<()> {
        self.cut(&mut self.open.state.write(), length)
    }

    /// Extends the file with zeros to `length` bytes where it is shorter.
    pub fn extend(&self, length: u64) -> FileResult<()> {
        let mut state = self.open.state.write();
        match self.committed(&state)?.length.max(state.dirty.end()) < length {
            true => self.cut(&mut state, length),
            false => Ok(()),
        }
    }

    fn cut(&self, state: &mut State, length: u64) -> FileResult<()> {
        if i64::try_from(length).is_err() {
            return Err(FileError::TooLarge(key::show(&state.key)));
        }
        let mtime = now();
        self.change(state, Edit::SetLength { key: state.key.clone(), length, mtime })?;
        self.shared.drop_kept(state, length, u64::MAX);
        state.written = state.written.map(|(since, _)| (since, mtime));
        Ok(())
    }

    /// Changes the object, if it still has its key.
    pub(super) fn change(&self, state: &State, edit: Edit) -> FileResult<()> {
        let expect = vec![Expect::Names(state.key.clone(), self.open.id)];
        self.shared.of_open(state, self.shared.commit(Change { expect, edits: vec![edit] }))
    }

    /// Changes attributes.
    pub fn set(&self, setting: &Setting) -> FileResult<Stat> {
        let mut state = self.open.state.write();
        if setting.modified.is_some() {
            // Else the bytes that are kept back would change it again.
            self.shared.flush(&self.open, &mut state)?;
        }
        let mut stat = self.shared.set(&state.key, Some(self.open.id), setting)?;
        state.show(&mut stat);
        Ok(stat)
    }

    /// Writes what is kept back: then other processes see it, and it survives the end of this one.
    ///
    /// # Errors
    /// Those of writes that were tried in the background meanwhile, too, once.
    pub fn flush(&self) -> FileResult<()> {
        let mut state = self.open.state.write();
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        self.shared.flush(&self.open, &mut state)
    }

    /// Makes all that was written durable.
    pub fn sync(&self) -> FileResult<()> {
        self.flush()?;
        self.shared.store.sync_object(self.open.id)?;
        Ok(())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.course.get_mut().end(&self.shared.store);
        self.shared.close(&self.open, self.flushes);
    }
}
