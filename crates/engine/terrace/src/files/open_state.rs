//! [`Open`]: an open file, and its buffered bytes.

use std::time::Instant;

use rustix_futex_sync::RwLock;

use super::FileError;
use super::dirty::Dirty;
use super::stat::Stat;

/// An open file.
pub struct Open {
    /// The object's number.
    pub id: u64,
    /// The changing state. The lock orders reads and writes of the file, and is held while its bytes are written. A thread
    /// that holds it may not take the lock of names. Only a thread with the lock of names holds the locks of several files.
    pub state: RwLock<State>,
}

/// The changing state of an open file.
pub struct State {
    /// Its current key.
    pub key: Vec<u8>,
    /// Whether it was removed, so that its key is a hidden one.
    pub unlinked: bool,
    /// The buffered bytes.
    pub dirty: Dirty,
    /// Whether the buffered bytes were appended, so that their offset is decided when they are written.
    pub appends: bool,
    /// When the first of these bytes was written, and the time of modification that the last write gives the file, in
    /// nanoseconds since 1970.
    pub written: Option<(Instant, i64)>,
    /// The error of a write in the background, or of accepted bytes. The next flush returns it.
    pub failed: Option<FileError>,
}

impl State {
    /// Changes the attributes to those that the file has once the buffered bytes are written.
    pub fn show(&self, stat: &mut Stat) {
        stat.length = stat.length.max(self.dirty.end());
        if let Some((_, time)) = self.written {
            stat.modified = time;
            stat.changed = stat.changed.max(time);
        }
        stat.links = u32::from(!self.unlinked);
    }
}
