//! Preallocation and holes.

use fuser::{Errno, FileHandle, INodeNo};
use libc::{FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE};

use super::{Answer, System, map_file_errno, map_tree_errno};

impl System {
    /// Extends a file or punches a hole in it. Does not reserve space: it only checks that enough is free now.
    pub fn allocate(&self, handle: FileHandle, offset: u64, length: u64, mode: i32) -> Answer<()> {
        let open = self.opened(handle)?;
        let file = open.as_file().ok_or(Errno::EOPNOTSUPP)?;
        let end = offset.checked_add(length).filter(|end| i64::try_from(*end).is_ok()).ok_or(Errno::EFBIG)?;
        let keeps_size = mode & FALLOC_FL_KEEP_SIZE != 0;
        match mode & !FALLOC_FL_KEEP_SIZE {
            0 if self.tree.files().store().room().free < length => return Err(Errno::ENOSPC),
            0 => {}
            FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE => map_file_errno(file.clear(offset, length))?,
            _ => return Err(Errno::EOPNOTSUPP),
        }
        if keeps_size { Ok(()) } else { map_file_errno(file.extend(end)) }
    }

    /// Finds the next hole or the next data.
    pub fn seek(&self, number: INodeNo, handle: FileHandle, offset: i64, whence: i32) -> Answer<i64> {
        let at = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        let open = self.opened(handle)?;
        let found = match (open.as_file(), whence) {
            (None, libc::SEEK_DATA | libc::SEEK_HOLE) => {
                let length = map_tree_errno(self.tree.node(number.0, None))?.stat.length;
                (at < length).then_some(if whence == libc::SEEK_DATA { at } else { length })
            }
            (Some(file), libc::SEEK_DATA) => map_file_errno(file.next_data(at))?,
            (Some(file), libc::SEEK_HOLE) => map_file_errno(file.next_hole(at))?,
            _ => return Err(Errno::EINVAL),
        };
        found.and_then(|at| i64::try_from(at).ok()).ok_or(Errno::ENXIO)
    }
}
