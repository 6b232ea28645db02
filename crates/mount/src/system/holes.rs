//! Space that is asked for beforehand, and holes.

use fuser::{Errno, FileHandle, INodeNo};
use libc::{FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE};

use super::{Answer, System, said};
use crate::views;

impl System {
    /// Extends a file, or makes a hole in it. No space is kept for it: there must be as much now, that is all.
    pub fn allocate(&self, number: INodeNo, handle: FileHandle, offset: u64, length: u64, mode: i32) -> Answer<()> {
        if views::is(number.0) {
            return Err(Errno::EOPNOTSUPP);
        }
        let file = self.file(handle)?;
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        let keeps_size = mode & FALLOC_FL_KEEP_SIZE != 0;
        match mode & !FALLOC_FL_KEEP_SIZE {
            0 if self.files.store().room().free < length => return Err(Errno::ENOSPC),
            0 => {}
            FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE => said(file.clear(offset, length))?,
            _ => return Err(Errno::EOPNOTSUPP),
        }
        if keeps_size { Ok(()) } else { said(file.extend(end)) }
    }

    /// Where the next hole is, or what is in none.
    pub fn seek(&self, number: INodeNo, handle: FileHandle, offset: i64, whence: i32) -> Answer<i64> {
        let at = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        let found = match (views::is(number.0), whence) {
            (true, libc::SEEK_DATA | libc::SEEK_HOLE) => {
                let length = self.views.attributes(number.0)?.size;
                (at < length).then_some(if whence == libc::SEEK_DATA { at } else { length })
            }
            (false, libc::SEEK_DATA) => said(self.file(handle)?.next_data(at))?,
            (false, libc::SEEK_HOLE) => said(self.file(handle)?.next_hole(at))?,
            _ => return Err(Errno::EINVAL),
        };
        found.and_then(|at| i64::try_from(at).ok()).ok_or(Errno::ENXIO)
    }
}
