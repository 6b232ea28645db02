//! The identity and state of a file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A file's device and inode, and the attributes that reveal a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    /// Nanoseconds since 1970.
    pub modified: i128,
    /// The last change of the file's bytes, mode or names, in nanoseconds since 1970. No process can set it back.
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

    /// Whether a file is this one, maybe with other bytes, and not a later one that got the inode of this one.
    pub fn is_earlier_state_of(&self, metadata: &Metadata) -> bool {
        let nanos = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as i128);
        // Without a time of creation, it passes for this one. It is then delivered, and only the count may lack one.
        let existed = metadata.created().map_or(true, |created| nanos(created) <= self.changed);
        existed && Identity::of(metadata).is_same_file(self)
    }

    /// Whether it is the same file with the same bytes. Its name or its mode may differ.
    pub fn has_same_bytes(&self, other: &Identity) -> bool {
        Identity { changed: 0, ..*self } == Identity { changed: 0, ..*other }
    }

    /// The time since the last change; zero if the change lies in the future.
    pub fn age(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i128;
        Duration::from_nanos((now - self.changed).clamp(0, i128::from(u64::MAX)) as u64)
    }
}
