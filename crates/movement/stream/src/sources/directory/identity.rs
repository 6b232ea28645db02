//! Which file it is, and in which state.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A file's device and inode, and what tells whether somebody changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    /// Nanoseconds since 1970.
    pub modified: i128,
    /// When its bytes, its mode or its names last changed, in nanoseconds since 1970. Nobody can set it back.
    pub changed: i128,
}

impl Identity {
    pub fn of(metadata: &Metadata) -> Identity {
        let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Identity {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    pub fn is_same_file(&self, other: &Identity) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Whether it is the same file with the same bytes. Its name or its mode may have changed.
    pub fn has_same_bytes(&self, other: &Identity) -> bool {
        Identity { changed: 0, ..*self } == Identity { changed: 0, ..*other }
    }

    /// How long ago it last changed; nothing where that is in the future.
    pub fn age(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i128;
        Duration::from_nanos((now - self.changed).clamp(0, i128::from(u64::MAX)) as u64)
    }
}
