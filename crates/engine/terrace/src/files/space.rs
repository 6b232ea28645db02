//! The space of a file system that shows these files.

use super::{FileResult, Files};

/// The least space of an object of one byte: its frame and its catalog records.
const OBJECT_BYTES: u64 = 512;
/// The largest number that programs with signed counters can read.
const MAX_SIGNED_COUNT: u64 = i64::MAX as u64;

/// The total and the free space, as programs ask a file system for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSpace {
    /// The total blocks of [`FileSpace::BLOCK_BYTES`].
    pub blocks: u64,
    /// The free blocks.
    pub free_blocks: u64,
    /// The number of objects, and of further ones that fit if each has the smallest size.
    pub files: u64,
    /// The number of those further objects.
    pub free_files: u64,
}

impl FileSpace {
    /// The block size.
    pub const BLOCK_BYTES: u32 = 4096;
    /// The longest name.
    pub const MAX_NAME_BYTES: u32 = 255;
}

impl Files {
    /// Returns the total and the free space.
    pub fn space(&self) -> FileResult<FileSpace> {
        let objects = self.shared.store.engine.catalog.count()?;
        let room = self.shared.store.room();
        let blocks = |bytes: u64| bytes.min(MAX_SIGNED_COUNT) / u64::from(FileSpace::BLOCK_BYTES);
        let free_files = room.free.min(MAX_SIGNED_COUNT) / OBJECT_BYTES;
        Ok(FileSpace {
            blocks: blocks(room.capacity),
            free_blocks: blocks(room.free),
            files: objects.saturating_add(free_files),
            free_files,
        })
    }
}
