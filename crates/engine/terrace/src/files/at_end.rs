//! Appending to files.
//!
//! Appended bytes have no place of their own before they reach the store: the commit decides it, as other processes append, too.
//! Until then they are kept back behind the file's last byte as it was, and what is kept back of a file is either all appended
//! or not at all. While other processes have the store open nothing appended is kept back.

use terrace_format::key;
use terrace_system::clock::unix_nanos;

use super::open::{Open, State};
use super::{File, FileError, FileResult, Shared};

impl File {
    /// Writes `bytes` behind the last byte, wherever that is when they reach the store; where that is as far as is known now.
    /// Bytes of one call stay together, and none are lost, even if others append at the same time.
    pub fn append(&self, bytes: &[u8]) -> FileResult<u64> {
        let mut state = self.open.state.write();
        let end = self.tail(&mut state)?;
        self.end_of(&state, end, bytes)?;
        let appended = self.append_at(&mut state, end, bytes);
        if matches!(&appended, Err(error) if !matches!(error, FileError::Stale(_))) {
            // The caller was told that they are not written.
            self.shared.drop_kept(&mut state, end, end + bytes.len() as u64);
        }
        appended
    }

    /// The same, but `accepted` is told first, as by [`File::write_behind`].
    pub fn append_behind(&self, bytes: &[u8], accepted: impl FnOnce(FileResult<()>)) {
        let mut state = self.open.state.write();
        let accept = |state: &mut State| {
            self.retry_failed(state)?;
            let end = self.tail(state)?;
            self.end_of(state, end, bytes).map(|_| end)
        };
        let end = match accept(&mut state) {
            Ok(end) => end,
            Err(error) => return accepted(Err(error)),
        };
        accepted(Ok(()));
        if let Err(error) = self.append_at(&mut state, end, bytes) {
            tracing::warn!(key = %key::show(&state.key), %error, "accepted bytes could not be appended; the next flush of the file returns this error, and they are written later unless the file was removed");
            state.failed = Some(error);
        }
    }

    /// Sees that nothing is kept back but what was appended; where the next byte goes, as far as is known now.
    fn tail(&self, state: &mut State) -> FileResult<u64> {
        if !state.appends {
            self.shared.flush(&self.open, state)?;
        }
        Ok(if state.appends { state.dirty.end() } else { self.committed(state)?.length })
    }

    /// Appends bytes whose place is thought to be `end`: they are kept back, and written with what was kept back before where they
    /// must not wait. Where they are.
    fn append_at(&self, state: &mut State, end: u64, bytes: &[u8]) -> FileResult<u64> {
        if bytes.is_empty() {
            return Ok(end);
        }
        self.keep(state, end, bytes);
        state.appends = true;
        let store = &self.shared.store;
        let waits = state.dirty.bytes() < store.engine.writer.block && store.is_alone() && !self.shared.keeps_much();
        if waits {
            return Ok(end);
        }
        let behind = self.shared.flush_appended(&self.open, state)?;
        Ok(behind.saturating_sub(bytes.len() as u64))
    }
}

impl Shared {
    /// Writes what was appended and kept back, by one commit; where it ends.
    pub fn flush_appended(&self, open: &Open, state: &mut State) -> FileResult<u64> {
        let mtime = state.written.map_or_else(unix_nanos, |(_, mtime)| mtime);
        let runs = state.dirty.runs(self.store.engine.writer.block as u64);
        let pieces: Vec<&[u8]> = runs.iter().map(|(_, run)| run.as_ref()).collect();
        let length: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        let element = self.element_of(&state.key);
        let asked = |kept: crate::PutOptions| kept.over(&self.options);
        let appended = self.store.append_pieces(&state.key, Some(open.id), &pieces, mtime, asked, element);
        let appended = self.of_open(state, appended.map_err(FileError::from));
        if matches!(appended, Ok(_) | Err(FileError::Stale(_))) {
            // Appended, or nobody can ever have it any more.
            self.drop_kept(state, 0, u64::MAX);
        }
        let (offset, receipt) = appended?;
        // The bytes are there, whatever they have not reached yet.
        receipt?;
        Ok(offset + length)
    }
}
