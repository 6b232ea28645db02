//! [`DrivenFile`]: an open file as HDF5 uses it, with an end of its addresses and an end of its bytes.

use std::ffi::{CStr, c_ulong};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::class::{
    ACCUMULATED_METADATA_FEATURE, AGGREGATED_METADATA_FEATURE, AGGREGATED_SMALL_DATA_FEATURE, DEFAULT_FORMAT_FEATURE,
    FileAddress, SIEVED_DATA_FEATURE,
};
use crate::failure::{DriverError, DriverResult};
use crate::open_bytes::{OpenBytes, OpenFlags};
use crate::opening;

/// The features of all files.
pub const COMMON_FEATURES: c_ulong = AGGREGATED_METADATA_FEATURE
    | ACCUMULATED_METADATA_FEATURE
    | SIEVED_DATA_FEATURE
    | AGGREGATED_SMALL_DATA_FEATURE
    | DEFAULT_FORMAT_FEATURE;

/// The superblock and its extension are shorter.
const MAX_SUPERBLOCK_BYTES: u64 = 256;

/// An open file.
///
/// All accesses to its numbers are relaxed: no other memory depends on them, and HDF5 itself orders its calls on a file.
pub struct DrivenFile {
    /// The name by which the program opened it.
    pub name: String,
    /// Its bytes.
    pub bytes: Box<dyn OpenBytes>,
    /// Whether locks are left out if they are not supported.
    ignores_missing_locks: bool,
    end_of_addresses: AtomicU64,
    /// Known here because HDF5 asks for it often.
    end_of_file: AtomicU64,
    /// An upper bound of the bytes in the file: its first length, and all bytes written since. It only shows whether anything beyond the
    /// superblock was written.
    touched_bytes: AtomicU64,
}

impl DrivenFile {
    /// Opens or creates a file.
    pub fn open(name: &CStr, flags: OpenFlags, ignores_missing_locks: bool) -> DriverResult<DrivenFile> {
        let bytes = opening::open(name, flags)?;
        let length = bytes.length()?;
        Ok(DrivenFile {
            name: name.to_string_lossy().into_owned(),
            end_of_addresses: AtomicU64::new(0),
            end_of_file: AtomicU64::new(length),
            touched_bytes: AtomicU64::new(length),
            ignores_missing_locks,
            bytes,
        })
    }

    /// The first address behind those in use.
    pub fn end_of_addresses(&self) -> FileAddress {
        self.end_of_addresses.load(Ordering::Relaxed)
    }

    /// Sets the first address behind those in use.
    pub fn set_end_of_addresses(&self, address: FileAddress) {
        self.end_of_addresses.store(address, Ordering::Relaxed);
    }

    /// The length of the file.
    pub fn end_of_file(&self) -> FileAddress {
        self.end_of_file.load(Ordering::Relaxed)
    }

    /// Reads bytes. Those between the ends of file and addresses are zeros.
    pub fn read(&self, address: FileAddress, out: &mut [u8]) -> DriverResult<()> {
        let length = self.bytes.read_at(address, out)?;
        out[length..].fill(0);
        Ok(())
    }

    /// Writes bytes.
    pub fn write(&self, address: FileAddress, bytes: &[u8]) -> DriverResult<()> {
        let end = address.checked_add(bytes.len() as u64);
        let end = end.ok_or_else(|| DriverError::new(libc::EFBIG, "the bytes lie behind the highest address"))?;
        self.bytes.write_at(address, bytes)?;
        self.end_of_file.fetch_max(end, Ordering::Relaxed);
        self.touched_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Makes what was written durable, or only visible if the file is being closed. HDF5 also flushes a new file before its user gets it; there
    /// is nothing in it yet that would be worth the time.
    pub fn flush(&self, is_closing: bool) -> DriverResult<()> {
        let is_bare = self.touched_bytes.load(Ordering::Relaxed) <= MAX_SUPERBLOCK_BYTES;
        if is_closing || is_bare { self.bytes.place() } else { self.bytes.sync() }
    }

    /// Gives the file the length of its addresses.
    pub fn truncate(&self) -> DriverResult<()> {
        let end = self.end_of_addresses();
        if end != self.end_of_file() {
            self.bytes.set_length(end)?;
            self.end_of_file.store(end, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Locks the file.
    pub fn lock(&self, exclusively: bool) -> DriverResult<()> {
        self.allow_missing_lock(self.bytes.lock(exclusively))
    }

    /// Unlocks the file.
    pub fn unlock(&self) -> DriverResult<()> {
        self.allow_missing_lock(self.bytes.unlock())
    }

    /// Leaves out a lock that is not supported, if the program allows that.
    fn allow_missing_lock(&self, locked: DriverResult<()>) -> DriverResult<()> {
        match locked {
            Err(error) if error.number == libc::ENOSYS && self.ignores_missing_locks => Ok(()),
            locked => locked,
        }
    }
}
