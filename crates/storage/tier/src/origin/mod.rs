//! Origins: places outside of a store, whose files the store shows and reads. Nothing is ever written there.

mod address;
mod directory;
#[cfg(feature = "object")]
mod service;

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use address::{OriginAddress, OriginPlace};
pub use directory::DirectoryOrigin;
#[cfg(feature = "object")]
pub use service::ServiceOrigin;

/// The kind of an entry of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginKind {
    /// A file with bytes.
    File,
    /// A directory, or the common prefix of several names.
    Folder,
    /// A symbolic link. Its bytes are the path to which it leads. It is not followed.
    Link,
}

/// An entry of an origin, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginEntry {
    /// The last component of its path.
    pub name: Vec<u8>,
    /// The kind.
    pub kind: OriginKind,
    /// Its length in bytes. 0 for a folder.
    pub length: u64,
    /// When its bytes were last changed: nanoseconds since 1970. 0 if the origin does not tell.
    pub modified: i64,
    /// Its permission bits, if the origin has some.
    pub mode: Option<u32>,
    /// A text that changes whenever its bytes do. Empty for a folder.
    pub identity: String,
}

/// Returns whether a file with this identity was being written, as far as its times tell. It has another identity a moment later, also if
/// nothing changes any more.
pub fn is_recent(identity: &str) -> bool {
    identity.starts_with(directory::RECENT_LETTER)
}

/// The reason why bytes of a file were not read.
#[derive(Debug, thiserror::Error)]
pub enum OriginReadError {
    /// The file is not the one with this identity any more.
    #[error("it was changed or removed there")]
    Changed,
    /// The origin does not answer, or refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The files of an origin. Paths are relative to its root, without a leading `/`; the empty path is the root.
pub trait Origin: Send + Sync {
    /// Returns the entry at a path, or none if nothing is there that can be shown.
    ///
    /// # Errors
    /// If the origin does not answer, or refuses.
    fn stat(&self, path: &[u8]) -> io::Result<Option<OriginEntry>>;

    /// Calls `found` with each entry directly in a folder, in any order.
    ///
    /// # Errors
    /// `NotFound` if the folder is not there, `Unsupported` if the origin cannot list.
    fn list(&self, folder: &[u8], found: &mut dyn FnMut(OriginEntry)) -> io::Result<()>;

    /// Fills `out` from the file's byte `offset` on. All these bytes are of the file with this identity.
    ///
    /// # Errors
    /// [`OriginReadError::Changed`] if the file has another identity now, or is gone.
    fn read(&self, path: &[u8], identity: &str, offset: u64, out: &mut [u8]) -> Result<(), OriginReadError>;

    /// Returns whether folders can be listed. If not, only paths that are asked for are found.
    fn can_list(&self) -> bool {
        true
    }
}

/// Waits until a later change of a file gives it another time of change than `changed`, in nanoseconds since 1970. Clocks of file systems
/// advance in steps of `step`: of two changes in one step, the second would not be seen.
fn outwait_step(changed: i64, step: Duration) {
    // A time in the future is that of another clock, about which nothing is known.
    if let Some(age) = age(changed)
        && age < step
    {
        std::thread::sleep(step - age);
    }
}

/// Returns how long ago a time was, in nanoseconds since 1970. None if it is in the future.
fn age(time: i64) -> Option<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.checked_sub(Duration::from_nanos(u64::try_from(time).unwrap_or(0)))
}
