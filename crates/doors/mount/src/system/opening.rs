//! Opens files, for the page cache or past it.

use fuser::{FileHandle, FopenFlags, OpenFlags};

use super::{Answer, System, map_tree_errno};
use crate::opened::Opened;
use crate::pages::Opening;

/// Bypass the page cache and pass whole requests.
pub const DIRECT_FLAGS: FopenFlags = FopenFlags::FOPEN_DIRECT_IO;

impl System {
    /// Opens a file or a view. The kernel caches pages only for handles that cannot write: appended bytes go to the end that the file has
    /// then, which the page cache does not know, and long writes are passed on whole.
    pub fn open_number(&self, number: u64, how: OpenFlags) -> Answer<(FileHandle, FopenFlags)> {
        let only_reads = how.0 & libc::O_ACCMODE == libc::O_RDONLY;
        let open = if only_reads { self.tree.open(number) } else { self.tree.open_to_write(number) };
        let open = map_tree_errno(open)?;
        // Read after the file was opened, so that it is not older than any change acknowledged before.
        let generation = if only_reads { map_tree_errno(open.generation())? } else { None };
        let Some(generation) = generation else {
            // The kernel drops its pages now, but handles that are open may cache bytes which never become a generation.
            self.pages.forget(number);
            return Ok((FileHandle(self.open.keep(Opened::direct(open))), DIRECT_FLAGS));
        };
        let is_of_dataset = open.dataset().is_some();
        let handle = self.open.keep(Opened::cached(open));
        let flags = match self.pages.open(number, handle, generation) {
            Opening::Keeps => FopenFlags::FOPEN_KEEP_CACHE,
            Opening::Drops { is_changed } => {
                // The page cache ends where the kernel believes that the file ends. For other files, it asked after the last change, or was
                // not allowed to trust the answer.
                if is_changed || is_of_dataset {
                    self.stale.drop_attributes(number);
                }
                FopenFlags::empty()
            }
        };
        Ok((FileHandle(handle), flags))
    }

    /// Notes that a request has arrived through an open file: its opening is over.
    pub fn note_request(&self, open: &Opened, handle: FileHandle) {
        if open.is_opening() {
            self.pages.has_opened(open.number(), handle.0);
            open.end_opening();
        }
    }
}
