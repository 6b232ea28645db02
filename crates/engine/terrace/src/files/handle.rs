//! [`File`]: an open file.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use rustix_futex_sync::Mutex;
use terrace_catalog::{Change, Edit, Expect};
use terrace_format::key;
use terrace_system::clock::unix_nanos;

use super::ahead::Course;
use super::open::{Open, State};
use super::{FileError, FileResult, Setting, Shared, Stat};
use crate::read::{HeldChunk, Lent};
use crate::report::TierState;

/// A file with more buffered bytes, or more pieces, than this is written at once.
const MAX_KEPT_BYTES: usize = 16 << 20;
const MAX_PIECES: usize = 4096;
/// If all files together have more buffered bytes than this, the file that is being written is written at once.
const MAX_KEPT_BYTES_OF_ALL_FILES: usize = 64 << 20;

/// An open file. Dropping it closes it: its buffered bytes are written, and an error is only logged. [`File::flush`] returns
/// the error.
pub struct File {
    pub(super) shared: Arc<Shared>,
    pub(super) open: Arc<Open>,
    /// Whether buffered bytes are written when this handle is dropped. They are always written when the last handle is.
    pub(super) flushes: bool,
    /// How this handle reads the file.
    pub(super) course: Mutex<Course>,
    /// The chunk around the last small read. A leaf: nothing but the catalog's moment is asked for under it.
    pub(super) held: Mutex<Option<HeldChunk>>,
}

impl File {
    pub(super) fn new(shared: Arc<Shared>, open: Arc<Open>) -> File {
        File { shared, open, flushes: true, course: Mutex::default(), held: Mutex::default() }
    }

    /// Returns the object's number.
    pub fn id(&self) -> u64 {
        self.open.id
    }

    /// Returns the file's attributes.
    pub fn stat(&self) -> FileResult<Stat> {
        let state = self.open.state.read();
        let mut stat = self.committed(&state)?;
        state.show(&mut stat);
        Ok(stat)
    }

    /// Returns the file's attributes in the store, without buffered bytes.
    pub(super) fn committed(&self, state: &State) -> FileResult<Stat> {
        let object = self.shared.object(&state.key)?.filter(|object| object.id == self.open.id);
        Ok(Stat::of(&object.ok_or_else(|| FileError::stale(&state.key))?, self.shared.owner))
    }

    /// Reads up to as many bytes from `offset` on as `out` has room for, and passes them to `answer`. They are in `out`, or
    /// in a buffer into which they were fetched ahead.
    pub fn read_to<T>(&self, offset: u64, out: &mut [u8], answer: impl FnOnce(FileResult<&[u8]>) -> T) -> T {
        match self.lent(offset, out.len() as u64) {
            Err(error) => answer(Err(error)),
            Ok(Some(lent)) => answer(Ok(lent.bytes())),
            Ok(None) => answer(self.read_at(offset, out).map(|length| &out[..length])),
        }
    }

    /// Returns the bytes of this range, if all of them were fetched ahead.
    fn lent(&self, offset: u64, length: u64) -> FileResult<Option<Lent<'_>>> {
        let state = self.open.state.read();
        let store = &self.shared.store;
        if !store.engine.reader.fetched.has_any() || state.dirty.touches(offset, offset.saturating_add(length)) {
            return Ok(None);
        }
        let lent = store.lend(&state.key, self.open.id, offset, length)?;
        if lent.is_some() {
            self.shared.ahead.note(store, &self.course, &state.key, offset, length);
        }
        Ok(lent)
    }

    /// Fills `out` from byte `offset` on. Returns the number of bytes read, which is smaller than `out` only at the file's
    /// end. Ranges that were never written read as zeros.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> FileResult<usize> {
        let state = self.open.state.read();
        let end = self.end_of(&state, offset, out)?;
        if state.dirty.covers(offset, end) {
            state.dirty.overlay(offset, out);
            return Ok(out.len());
        }
        self.shared.ahead.note(&self.shared.store, &self.course, &state.key, offset, out.len() as u64);
        let have = match self.read_held(&state, offset, out)? {
            true => out.len(),
            false => self.read_and_hold(&state, offset, out)?,
        };
        let kept = state.dirty.end().saturating_sub(offset).min(out.len() as u64) as usize;
        let length = have.max(kept);
        let out = &mut out[..length];
        out[have..].fill(0);
        state.dirty.overlay(offset, out);
        Ok(length)
    }

    /// Fills `out` from the chunk that this handle holds. Returns false if it has not all of these bytes, or the catalog has changed since the
    /// chunk was taken: somebody may have changed the file.
    fn read_held(&self, state: &State, offset: u64, out: &mut [u8]) -> FileResult<bool> {
        let store = &self.shared.store;
        let mut held = self.held.lock();
        let Some(chunk) = held.as_mut() else { return Ok(false) };
        let Some((bytes, range)) = chunk.lend(store.engine.catalog.moment()?, offset, out.len()) else {
            return Ok(false);
        };
        let counted = chunk.count(out.len());
        drop(held);
        out.copy_from_slice(&bytes[range]);
        if let Some(read) = counted {
            store.engine.hotness.touch(&state.key, read.start, read.end - read.start);
        }
        Ok(true)
    }

    /// Reads from the store, and holds the chunk that the cache has of these bytes.
    fn read_and_hold(&self, state: &State, offset: u64, out: &mut [u8]) -> FileResult<usize> {
        let read = self.shared.store.read_numbered(&state.key, self.open.id, offset, out)?;
        let (length, chunk) = read.ok_or_else(|| FileError::stale(&state.key))?;
        let before = std::mem::replace(&mut *self.held.lock(), chunk);
        if let Some(before) = before {
            self.let_go(state, &before);
        }
        Ok(length)
    }

    /// Counts the last reads from a chunk that is not held any more.
    fn let_go(&self, state: &State, chunk: &HeldChunk) {
        let read = chunk.count_rest();
        self.shared.store.engine.hotness.touch(&state.key, read.start, read.end - read.start);
    }

    /// Writes `bytes` at `offset`.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> FileResult<()> {
        let mut state = self.open.state.write();
        self.write(&mut state, offset, bytes)
    }

    /// Like [`File::write_at`], but calls `accepted` as soon as all users of these `Files` see the bytes, before they are
    /// written to the store. If writing them fails, they stay buffered, the next flush returns the error, too, and no more
    /// bytes are accepted until they are written.
    pub fn write_behind(&self, offset: u64, bytes: &[u8], accepted: impl FnOnce(FileResult<()>)) {
        let mut state = self.open.state.write();
        if let Err(error) = self.accepts(&mut state, offset, bytes) {
            return accepted(Err(error));
        }
        if !self.shared.has_room(bytes.len()) {
            return accepted(self.write(&mut state, offset, bytes));
        }
        accepted(Ok(()));
        if let Err(error) = self.write(&mut state, offset, bytes) {
            tracing::warn!(key = %key::show(&state.key), %error, "accepted bytes could not be written; the next flush of the file returns this error, and they are written later unless the file was removed");
            if bytes.len() >= self.shared.store.engine.writer.block_bytes && !matches!(error, FileError::Stale(_)) {
                self.keep(&mut state, offset, bytes);
            }
            state.failed = Some(error);
        }
    }

    /// Checks that bytes can be accepted before they are written. Writes what could not be written before, because nothing
    /// is accepted until that succeeds.
    fn accepts(&self, state: &mut State, offset: u64, bytes: &[u8]) -> FileResult<()> {
        self.end_of_write(state, offset, bytes)?;
        self.retry_failed(state)?;
        self.place_appended(state)
    }

    /// Writes bytes that could not be written before. If that fails again, the next flush still returns the first error.
    pub(super) fn retry_failed(&self, state: &mut State) -> FileResult<()> {
        match state.failed.take() {
            None => Ok(()),
            Some(error @ FileError::Stale(_)) => Err(error),
            Some(error) => {
                let written = self.shared.flush(&self.open, state);
                state.failed = written.is_err().then_some(error);
                written
            }
        }
    }

    /// Writes buffered appended bytes, because their offset must be decided before other bytes are written.
    fn place_appended(&self, state: &mut State) -> FileResult<()> {
        if state.appends { self.shared.flush(&self.open, state) } else { Ok(()) }
    }

    fn write(&self, state: &mut State, offset: u64, bytes: &[u8]) -> FileResult<()> {
        let end = self.end_of_write(state, offset, bytes)?;
        self.place_appended(state)?;
        if bytes.len() >= self.shared.store.engine.writer.block_bytes {
            self.shared.write_through(&self.open, state, offset, bytes)?;
            self.shared.drop_kept(&self.open, state, offset, end);
            state.written = state.written.map(|(since, _)| (since, unix_nanos()));
        } else {
            self.keep(state, offset, bytes);
            self.shared.flush_whole(&self.open, state, offset, end)?;
        }
        let after = state.dirty.bytes();
        let much = after > MAX_KEPT_BYTES || state.dirty.pieces() > MAX_PIECES;
        if much || after > 0 && !self.shared.may_keep(self.open.id) {
            self.shared.flush(&self.open, state)?;
        }
        Ok(())
    }

    /// Returns the offset behind a read or write.
    pub(super) fn end_of(&self, state: &State, offset: u64, bytes: &[u8]) -> FileResult<u64> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| i64::try_from(*end).is_ok());
        end.ok_or_else(|| FileError::TooLarge(key::show(&state.key)))
    }

    /// Like `end_of`, for a file that may be written to.
    pub(super) fn end_of_write(&self, state: &State, offset: u64, bytes: &[u8]) -> FileResult<u64> {
        self.shared.check_writable(&state.key)?;
        self.end_of(state, offset, bytes)
    }

    /// Buffers bytes.
    pub(super) fn keep(&self, state: &mut State, offset: u64, bytes: &[u8]) {
        let before = state.dirty.bytes();
        if before == 0 {
            self.shared.open.others.buffer(self.open.id, true);
        }
        state.dirty.write(offset, bytes);
        self.shared.kept.fetch_add(state.dirty.bytes() - before, Ordering::Relaxed);
        if state.dirty.bytes() > 0 {
            state.written = Some((state.written.map_or_else(Instant::now, |(since, _)| since), unix_nanos()));
        }
    }

    /// Truncates the file to `length` bytes, or extends it with zeros.
    pub fn set_len(&self, length: u64) -> FileResult<()> {
        self.cut(&mut self.open.state.write(), length)
    }

    /// Extends the file with zeros to `length` bytes, if it is shorter.
    pub fn extend(&self, length: u64) -> FileResult<()> {
        let mut state = self.open.state.write();
        self.place_appended(&mut state)?;
        match self.committed(&state)?.length.max(state.dirty.end()) < length {
            true => self.cut(&mut state, length),
            false => Ok(()),
        }
    }

    fn cut(&self, state: &mut State, length: u64) -> FileResult<()> {
        if i64::try_from(length).is_err() {
            return Err(FileError::TooLarge(key::show(&state.key)));
        }
        self.place_appended(state)?;
        let mtime = unix_nanos();
        self.change(state, Edit::SetLength { key: state.key.clone(), length, mtime })?;
        self.shared.drop_kept(&self.open, state, length, u64::MAX);
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
        let mut stat = self.shared.set(&state.key, Some(self.open.id), setting)?;
        if let (Some((since, _)), Some(modified)) = (state.written, setting.modified) {
            // The buffered bytes are written later, and must not change the time again.
            state.written = Some((since, modified));
        }
        state.show(&mut stat);
        Ok(stat)
    }

    /// Writes buffered bytes to the store. Then other processes see them, and they survive the end of this process.
    ///
    /// # Errors
    /// Also returns, once, the error of a write that failed in the background.
    pub fn flush(&self) -> FileResult<()> {
        let mut state = self.open.state.write();
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        self.shared.flush(&self.open, &mut state)
    }

    /// Makes all written bytes durable.
    pub fn sync(&self) -> FileResult<()> {
        self.flush()?;
        self.shared.store.sync_object(self.open.id)?;
        Ok(())
    }
}

impl Shared {
    /// Returns whether bytes of a file may stay buffered.
    pub(super) fn may_keep(&self, id: u64) -> bool {
        let kept = self.kept.load(Ordering::Relaxed);
        kept <= MAX_KEPT_BYTES_OF_ALL_FILES && !self.open.others.have(id) && self.has_room(kept)
    }

    /// Returns whether there is room for `kept` buffered bytes, and for as many as one file may buffer besides. Where a tier is nearly full, the
    /// write itself is to fail, and not the close, whose error many programs overlook.
    pub(super) fn has_room(&self, kept: usize) -> bool {
        let mut left = (kept + MAX_KEPT_BYTES) as u64;
        self.store.engine.tiers.devices.iter().any(|device| {
            let free = if device.state() == TierState::Ok { device.free() } else { 0 };
            left = left.saturating_sub(free);
            left == 0
        })
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.course.get_mut().end(&self.shared.store);
        // A forked process has only a copy of its parent's counts.
        if let Some(chunk) = self.held.get_mut().take().filter(|_| !self.shared.store.engine.catalog.inherited()) {
            self.let_go(&self.open.state.read(), &chunk);
        }
        self.shared.close(&self.open, self.flushes);
    }
}
