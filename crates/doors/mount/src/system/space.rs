//! The total and the free space.

use fuser::ReplyStatfs;
use terrace::files::FileSpace;

use super::{System, map_file_errno};

impl System {
    pub fn tell_space(&self, reply: ReplyStatfs) {
        match map_file_errno(self.tree.files().space()) {
            Ok(space) => reply.statfs(
                space.blocks,
                space.free_blocks,
                space.free_blocks,
                space.files,
                space.free_files,
                FileSpace::BLOCK_BYTES,
                FileSpace::MAX_NAME_BYTES,
                FileSpace::BLOCK_BYTES,
            ),
            Err(error) => reply.error(error),
        }
    }
}
