//! The total and the free space.

use fuser::ReplyStatfs;
use terrace::files::FileError;

use super::{Answer, System, map_file_errno};

/// The block size, and the longest name.
const BLOCK_BYTES: u32 = 4096;
const MAX_NAME_BYTES: u32 = 255;
/// The least space of an object of one byte: its frame and its catalog records.
const OBJECT_BYTES: u64 = 512;
/// The largest number that programs with signed counters can read.
const MAX_SIGNED_COUNT: u64 = i64::MAX as u64;

impl System {
    pub fn tell_space(&self, reply: ReplyStatfs) {
        match self.space() {
            Ok((capacity, free, objects)) => {
                let blocks = |bytes: u64| bytes.min(MAX_SIGNED_COUNT) / u64::from(BLOCK_BYTES);
                // The number of further objects that fit if each has the smallest size.
                let more = free.min(MAX_SIGNED_COUNT) / OBJECT_BYTES;
                let (capacity, free) = (blocks(capacity), blocks(free));
                reply.statfs(
                    capacity,
                    free,
                    free,
                    objects.saturating_add(more),
                    more,
                    BLOCK_BYTES,
                    MAX_NAME_BYTES,
                    BLOCK_BYTES,
                );
            }
            Err(error) => reply.error(error),
        }
    }

    /// Returns the total bytes, the free bytes and the number of objects.
    fn space(&self) -> Answer<(u64, u64, u64)> {
        let store = self.tree.files().store();
        let objects = map_file_errno(store.catalog().count().map_err(FileError::from))?;
        let room = store.room();
        Ok((room.capacity, room.free, objects))
    }
}
