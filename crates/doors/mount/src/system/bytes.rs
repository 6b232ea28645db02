//! Reads and writes of open files.

use std::cell::RefCell;
use std::sync::Arc;

use fuser::{Errno, FileHandle};

use super::{Answer, Opened, System, map_tree_errno};

impl System {
    pub fn opened(&self, handle: FileHandle) -> Answer<Arc<Opened>> {
        self.open.get(handle.0).ok_or(Errno::EBADF)
    }

    /// Reads up to `size` bytes and passes them to `answer`.
    pub fn read_bytes(&self, handle: FileHandle, offset: u64, size: u32, answer: impl FnOnce(Answer<&[u8]>)) {
        thread_local! {
            static REPLY_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        REPLY_BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(buffer.len().max(size as usize), 0);
            let out = &mut buffer[..size as usize];
            match self.opened(handle) {
                Ok(open) => {
                    self.note_request(&open, handle);
                    open.read_to(offset, out, |read| answer(map_tree_errno(read)));
                }
                Err(error) => answer(Err(error)),
            }
        });
    }

    /// Writes bytes and passes their number to `answer`, possibly before they reach the store. With `appends`, writes at the file's end,
    /// whatever offset the kernel assumes. With `syncs`, the bytes are durable by then.
    pub fn write_bytes(
        &self,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        appends: bool,
        syncs: bool,
        answer: impl FnOnce(Answer<usize>),
    ) {
        let open = match self.opened(handle) {
            Ok(open) => open,
            Err(error) => return answer(Err(error)),
        };
        let told = |written: terrace_tree::Result<usize>| {
            if written.is_ok() {
                // Before others see that nothing is buffered any more: the bytes may be lost then, and no generation tells.
                self.pages.forget(open.number());
                self.stale.queue_readers(&open, &self.open);
            }
            answer(map_tree_errno(written));
        };
        match (appends, syncs) {
            (true, false) => open.append_behind(offset, bytes, told),
            (false, false) => open.write_behind(offset, bytes, told),
            (appends, true) => {
                let written = if appends { open.append(offset, bytes) } else { open.write_at(offset, bytes) };
                told(written.and_then(|length| self.tree.sync(&open).map(|()| length)));
            }
        }
    }
}
