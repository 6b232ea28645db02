//! How much there is, and how much is free.

use fuser::ReplyStatfs;
use terrace::files::FileError;
use terrace::report::TierStatus;

use super::System;
use crate::answer::errno;

/// What is counted in, and the longest name.
const BLOCK: u32 = 4096;
const NAME: u32 = 255;

impl System {
    pub fn tell_space(&self, reply: ReplyStatfs) {
        let status = match self.files.store().status().map_err(FileError::from) {
            Ok(status) => status,
            Err(error) => return reply.error(errno(&error)),
        };
        let sum = |of: fn(&TierStatus) -> u64| status.tiers.iter().map(of).fold(0, u64::saturating_add);
        let capacity = sum(|tier| tier.capacity).min(i64::MAX as u64);
        let free = capacity.saturating_sub(sum(|tier| tier.used));
        let block = u64::from(BLOCK);
        let (capacity, free) = (capacity / block, free / block);
        reply.statfs(capacity, free, free, status.objects, u64::MAX >> 1, BLOCK, NAME, BLOCK);
    }
}
