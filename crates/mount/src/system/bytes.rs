//! Open files, and their bytes.

use std::cell::RefCell;
use std::sync::Arc;

use fuser::{Errno, FileHandle};
use terrace_tree::Open;

use super::{Answer, System, said};

impl System {
    pub fn opened(&self, handle: FileHandle) -> Answer<Arc<Open>> {
        self.open.get(handle.0).ok_or(Errno::EBADF)
    }

    /// Reads up to `size` bytes, and hands them to `answer`.
    pub fn read_bytes(&self, handle: FileHandle, offset: u64, size: u32, answer: impl FnOnce(Answer<&[u8]>)) {
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(buffer.len().max(size as usize), 0);
            let out = &mut buffer[..size as usize];
            let read = self.opened(handle).and_then(|open| said(open.read_at(offset, out)));
            answer(read.map(|length| &out[..length]));
        });
    }

    /// Writes; the bytes written.
    pub fn write_bytes(&self, handle: FileHandle, offset: u64, bytes: &[u8]) -> Answer<usize> {
        let open = self.opened(handle)?;
        let written = said(open.write_at(offset, bytes))?;
        self.stale.written(&open, &self.open);
        Ok(written)
    }
}
