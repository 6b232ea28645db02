//! [`OpenBytes`]: the bytes of an open file, wherever they are.

use std::ffi::{c_int, c_uint, c_ulong};

use crate::class::{CREATE_FLAG, NEW_FLAG, TRUNCATE_FLAG, WRITE_FLAG};
use crate::failure::DriverResult;

/// The way in which a file is opened.
#[derive(Clone, Copy)]
pub struct OpenFlags {
    /// Whether it is written, too.
    pub writes: bool,
    /// Whether existing bytes are dropped.
    pub truncates: bool,
    /// Whether a missing file is created.
    pub creates: bool,
    /// Whether an existing file is an error.
    pub is_new: bool,
}

impl From<c_uint> for OpenFlags {
    fn from(flags: c_uint) -> Self {
        OpenFlags {
            writes: flags & WRITE_FLAG != 0,
            truncates: flags & TRUNCATE_FLAG != 0,
            creates: flags & CREATE_FLAG != 0,
            is_new: flags & NEW_FLAG != 0,
        }
    }
}

/// Tells files apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileIdentity {
    /// Device and inode.
    Ordinary(u64, u64),
    /// The number of an object in the store.
    Stored(u64),
}

/// The bytes of an open file.
pub trait OpenBytes: Send + Sync {
    /// Returns the file's identity.
    fn identity(&self) -> FileIdentity;
    /// Returns the features, beside those of all files.
    fn features(&self) -> c_ulong;
    /// Returns the number of bytes.
    fn length(&self) -> DriverResult<u64>;
    /// Fills `out`. Returns the number of bytes read, which is smaller only at the file's end.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> DriverResult<usize>;
    /// Writes all bytes.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> DriverResult<()>;
    /// Truncates the file, or extends it with zeros.
    fn set_length(&self, length: u64) -> DriverResult<()>;
    /// Makes what was written visible to other processes.
    fn place(&self) -> DriverResult<()>;
    /// Makes what was written durable.
    fn sync(&self) -> DriverResult<()>;
    /// Locks the file, or fails at once.
    fn lock(&self, exclusively: bool) -> DriverResult<()>;
    /// Unlocks the file.
    fn unlock(&self) -> DriverResult<()>;
    /// Returns the descriptor, if there is one.
    fn descriptor(&self) -> Option<&c_int>;
}
