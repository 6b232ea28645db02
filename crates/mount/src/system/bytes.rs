//! Open files, and their bytes.

use std::cell::RefCell;
use std::sync::Arc;

use fuser::{Errno, FileHandle, INodeNo};
use terrace::files::File;

use super::{Answer, System, said};
use crate::views;

impl System {
    pub fn file(&self, handle: FileHandle) -> Answer<Arc<File>> {
        self.open.get(handle.0).ok_or(Errno::EBADF)
    }

    /// Opens a number; the handle.
    pub fn open_file(&self, number: INodeNo) -> Answer<u64> {
        if views::is(number.0) {
            return self.views.open(number.0);
        }
        let nodes = self.nodes.read();
        let path = nodes.path(number.0).ok_or(Errno::ESTALE)?;
        Ok(self.open.keep(said(self.files.open(&path))?))
    }

    /// Reads up to `size` bytes, and hands them to `answer`.
    pub fn read_bytes(
        &self,
        (number, handle): (INodeNo, FileHandle),
        offset: u64,
        size: u32,
        answer: impl FnOnce(Answer<&[u8]>),
    ) {
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(buffer.len().max(size as usize), 0);
            let out = &mut buffer[..size as usize];
            let read = match views::is(number.0) {
                true => self.views.read(handle.0, offset, out),
                false => self.file(handle).and_then(|file| said(file.read_at(offset, out))),
            };
            answer(read.map(|length| &out[..length]));
        });
    }

    /// Writes; the bytes written.
    pub fn write_bytes(&self, number: INodeNo, handle: FileHandle, offset: u64, bytes: &[u8]) -> Answer<usize> {
        match views::is(number.0) {
            true => self.views.write(handle.0, offset, bytes),
            false => self.file(handle).and_then(|file| said(file.write_at(offset, bytes))).map(|()| bytes.len()),
        }
    }

    /// A descriptor is closed.
    pub fn close(&self, number: INodeNo, handle: FileHandle) -> Answer<()> {
        match views::is(number.0) {
            true => self.views.flush(handle.0),
            false => self.file(handle).and_then(|file| said(file.flush())),
        }
    }

    /// Makes what was written durable.
    pub fn sync(&self, number: INodeNo, handle: FileHandle) -> Answer<()> {
        match views::is(number.0) {
            true => self.views.sync(handle.0),
            false => self.file(handle).and_then(|file| said(file.sync())),
        }
    }

    /// A handle is no longer used.
    pub fn give_up(&self, number: INodeNo, handle: FileHandle) {
        match views::is(number.0) {
            true => self.views.release(handle.0),
            false => drop(self.open.give_up(handle.0)),
        }
    }
}
