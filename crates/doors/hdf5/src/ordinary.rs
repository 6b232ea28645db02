//! Files outside the store, treated as by HDF5's own driver `sec2`.

use std::ffi::{c_int, c_ulong};
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::class::{DESCRIPTOR_FEATURE, FOLLOWING_READERS_FEATURE};
use crate::failure::DriverResult;
use crate::locking;
use crate::open_bytes::{FileIdentity, OpenBytes, OpenFlags};

/// The features of ordinary files, beside those of all files.
pub const ORDINARY_FEATURES: c_ulong = DESCRIPTOR_FEATURE | FOLLOWING_READERS_FEATURE;

/// A file outside the store.
pub struct OrdinaryFile {
    file: File,
    descriptor: c_int,
    identity: FileIdentity,
}

impl OrdinaryFile {
    /// Opens or creates a file.
    pub fn open(path: &Path, flags: OpenFlags) -> DriverResult<OrdinaryFile> {
        let flag = |set: bool, flag: c_int| if set { flag } else { 0 };
        let others = flag(flags.truncates, libc::O_TRUNC) | flag(flags.creates, libc::O_CREAT);
        let others = others | flag(flags.is_new, libc::O_EXCL);
        let file = File::options().read(true).write(flags.writes).mode(0o666).custom_flags(others).open(path)?;
        let metadata = file.metadata()?;
        let identity = FileIdentity::Ordinary(metadata.dev(), metadata.ino());
        Ok(OrdinaryFile { descriptor: file.as_raw_fd(), file, identity })
    }
}

impl OpenBytes for OrdinaryFile {
    fn identity(&self) -> FileIdentity {
        self.identity
    }

    fn features(&self) -> c_ulong {
        ORDINARY_FEATURES
    }

    fn length(&self) -> DriverResult<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> DriverResult<usize> {
        let mut have = 0;
        while have < out.len() {
            match self.file.read_at(&mut out[have..], offset.saturating_add(have as u64)) {
                Ok(0) => break,
                Ok(length) => have += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(have)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> DriverResult<()> {
        Ok(self.file.write_all_at(bytes, offset)?)
    }

    fn set_length(&self, length: u64) -> DriverResult<()> {
        Ok(self.file.set_len(length)?)
    }

    /// Other processes have seen all bytes when they were written.
    fn place(&self) -> DriverResult<()> {
        Ok(())
    }

    /// `sec2` leaves it to the program, and to the system, when bytes reach the disk.
    fn sync(&self) -> DriverResult<()> {
        Ok(())
    }

    fn lock(&self, exclusively: bool) -> DriverResult<()> {
        locking::lock(&self.file, exclusively)
    }

    fn unlock(&self) -> DriverResult<()> {
        Ok(self.file.unlock()?)
    }

    fn descriptor(&self) -> Option<&c_int> {
        Some(&self.descriptor)
    }
}
