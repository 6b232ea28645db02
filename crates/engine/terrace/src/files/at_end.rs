//! Appending to files.
//!
//! Appended bytes have no offset until they reach the store: the commit decides it, because other processes append, too.
//! Until then they are buffered behind the last known byte of the file. The buffered bytes of a file are either all appended
//! or all written at an offset. While other processes have the store open, appended bytes are not buffered.

use terrace_format::key;
use terrace_system::clock::unix_nanos;

use super::open::{Open, State};
use super::{File, FileError, FileResult, Shared};

impl File {
    /// Appends `bytes` at the end that the file has when they reach the store. Returns their offset as far as it is known
    /// now. The bytes of one call stay together, and none are lost, even if others append at the same time.
    pub fn append(&self, bytes: &[u8]) -> FileResult<u64> {
        let mut state = self.open.state.write();
        let end = self.tail(&mut state)?;
        self.end_of_write(&state, end, bytes)?;
        let appended = self.append_at(&mut state, end, bytes);
        if matches!(&appended, Err(error) if !matches!(error, FileError::Stale(_))) {
            // The caller gets an error, so the bytes must not be written later.
            self.shared.drop_kept(&self.open, &mut state, end, end + bytes.len() as u64);
        }
        appended
    }

    /// Like [`File::append`], but calls `accepted` before the bytes are written, as [`File::write_behind`] does.
    pub fn append_behind(&self, bytes: &[u8], accepted: impl FnOnce(FileResult<()>)) {
        let mut state = self.open.state.write();
        let accept = |state: &mut State| {
            self.retry_failed(state)?;
            let end = self.tail(state)?;
            self.end_of_write(state, end, bytes).map(|_| end)
        };
        let end = match accept(&mut state) {
            Ok(end) => end,
            Err(error) => return accepted(Err(error)),
        };
        if !self.shared.has_room(bytes.len()) {
            return accepted(self.append_at(&mut state, end, bytes).map(drop));
        }
        accepted(Ok(()));
        if let Err(error) = self.append_at(&mut state, end, bytes) {
            tracing::warn!(key = %key::show(&state.key), %error, "accepted bytes could not be appended; the next flush of the file returns this error, and they are written later unless the file was removed");
            state.failed = Some(error);
        }
    }

    /// Flushes bytes that were buffered for an offset, so that appended ones can be buffered. Returns the offset at which the next appended byte is expected.
    fn tail(&self, state: &mut State) -> FileResult<u64> {
        if !state.appends {
            self.shared.flush(&self.open, state)?;
        }
        Ok(if state.appends { state.dirty.end() } else { self.committed(state)?.length })
    }

    /// Appends bytes at the expected end `end`: buffers them, and writes all buffered bytes if they may not wait. Returns
    /// the offset of the bytes.
    fn append_at(&self, state: &mut State, end: u64, bytes: &[u8]) -> FileResult<u64> {
        if bytes.is_empty() {
            return Ok(end);
        }
        self.keep(state, end, bytes);
        state.appends = true;
        let store = &self.shared.store;
        let waits = state.dirty.bytes() < store.engine.writer.block_bytes
            && store.is_alone()
            && self.shared.may_keep(self.open.id);
        if waits {
            return Ok(end);
        }
        let behind = self.shared.flush_appended(&self.open, state)?;
        Ok(behind.saturating_sub(bytes.len() as u64))
    }
}

impl Shared {
    /// Writes all buffered appended bytes by one commit. Returns the offset behind them.
    pub fn flush_appended(&self, open: &Open, state: &mut State) -> FileResult<u64> {
        let mtime = state.written.map_or_else(unix_nanos, |(_, mtime)| mtime);
        let runs = state.dirty.runs(self.store.engine.writer.block_bytes as u64);
        let pieces: Vec<&[u8]> = runs.iter().map(|(_, run)| run.as_ref()).collect();
        let length: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        let element = self.element_of(&state.key);
        let asked = |kept: &crate::PutOptions| kept.clone().over(&self.options);
        let appended = self.store.append_pieces(&state.key, Some(open.id), &pieces, mtime, asked, element);
        let appended = self.of_open(state, appended.map_err(FileError::from));
        if matches!(appended, Ok(_) | Err(FileError::Stale(_))) {
            // Either they are appended, or the file is gone and nobody can read them.
            self.drop_kept(open, state, 0, u64::MAX);
        }
        let (offset, receipt) = appended?;
        // The bytes are appended even if the acknowledgement that was asked for is not reached.
        receipt?;
        Ok(offset + length)
    }
}
