//! How much there is, and how much is free.

use fuser::ReplyStatfs;
use terrace::files::FileError;

use super::{Answer, System, filed};

/// What is counted in, and the longest name.
const BLOCK: u32 = 4096;
const NAME: u32 = 255;
/// What an object of one byte takes at least: its frame, and its records in the catalog.
const OBJECT_BYTES: u64 = 512;
/// Programs count in signed numbers.
const MOST: u64 = i64::MAX as u64;

impl System {
    pub fn tell_space(&self, reply: ReplyStatfs) {
        match self.space() {
            Ok((capacity, free, objects)) => {
                let blocks = |bytes: u64| bytes.min(MOST) / u64::from(BLOCK);
                // As many more as there is room for, were they all as small as can be.
                let more = free.min(MOST) / OBJECT_BYTES;
                let (capacity, free) = (blocks(capacity), blocks(free));
                reply.statfs(capacity, free, free, objects.saturating_add(more), more, BLOCK, NAME, BLOCK);
            }
            Err(error) => reply.error(error),
        }
    }

    /// Bytes that there are, those that are free, and the number of objects.
    fn space(&self) -> Answer<(u64, u64, u64)> {
        let store = self.tree.files().store();
        let objects = filed(store.catalog().count().map_err(FileError::from))?;
        let room = store.room();
        Ok((room.capacity, room.free, objects))
    }
}
