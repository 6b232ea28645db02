//! Reserved space on the disk of a store's directory: a file that frees a part of its space when the disk is full. Without
//! it, a full disk could prevent a store from being opened, and objects from being removed, which is what frees space.
//!
//! No operation that adds bytes gets any of it. Otherwise it would soon be used up.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::FallocateFlags;

/// The file's name in the store's directory.
pub const RESERVE_FILE: &str = "reserve";
const RESERVE_BYTES: u64 = 1 << 20;
/// The reserve is at most one part in this many of its file system.
const MIN_RESERVES_PER_DISK: u64 = 64;
/// The number of bytes that are freed at a time.
const PART_BYTES: u64 = 128 << 10;

/// An error that may come from a full disk.
pub trait FullDisk: Sized {
    /// Returns the system's error, if this is one.
    fn io_error(&self) -> Option<&io::Error>;

    /// Creates the error for a disk that stays full. `reason` says which one, and what to do.
    fn no_space(reason: String) -> Self;
}

/// Returns whether an operation failed because there is no room for more bytes.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Makes a file at least this long, with blocks of its own, so that writing into it needs no more room. Its bytes stay.
///
/// # Errors
/// If the disk has no room. The file is then as long as before.
pub fn keep_room(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = File::options().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    let before = file.metadata()?.len();
    if before >= bytes {
        return Ok(());
    }
    let grown = match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        // Some file systems cannot allocate blocks in advance. They allocate them when bytes are written.
        Err(rustix::io::Errno::OPNOTSUPP) => file
            .seek(SeekFrom::Start(before))
            .and_then(|_| io::copy(&mut io::repeat(0).take(bytes - before), &mut file))
            .and_then(|_| file.sync_data()),
        grown => grown.map_err(io::Error::from),
    };
    if grown.is_err() {
        // A file that is longer than its blocks would promise space that it does not have.
        let _ = file.set_len(before);
    }
    grown
}

/// The reserve of one store.
pub struct Reserve {
    dir: PathBuf,
    /// Whether a part of it was freed, as far as this process knows.
    is_short: AtomicBool,
}

impl Reserve {
    /// Creates the reserve of the store in `dir`.
    pub fn new(dir: &Path) -> Reserve {
        let reserve = Reserve { dir: dir.to_owned(), is_short: AtomicBool::new(false) };
        reserve.is_short.store(reserve.length() < reserve.wanted(), Ordering::Relaxed);
        reserve
    }

    fn path(&self) -> PathBuf {
        self.dir.join(RESERVE_FILE)
    }

    fn length(&self) -> u64 {
        fs::metadata(self.path()).map_or(0, |file| file.len())
    }

    /// Returns the size of the complete reserve in bytes, or 0 if the disk's size is not known.
    fn wanted(&self) -> u64 {
        let disk = rustix::fs::statvfs(&self.dir).map_or(0, |disk| disk.f_blocks.saturating_mul(disk.f_frsize));
        RESERVE_BYTES.min(disk / MIN_RESERVES_PER_DISK)
    }

    /// Returns the number of free bytes of the disk, or a larger number if it is not known.
    fn free(&self) -> u64 {
        rustix::fs::statvfs(&self.dir).map_or(u64::MAX, |disk| {
            // Only root may use the blocks that a file system reserves for root.
            let blocks = if rustix::process::geteuid().is_root() { disk.f_bfree } else { disk.f_bavail };
            blocks.saturating_mul(disk.f_frsize)
        })
    }

    /// Fills the reserve, if the disk has room for more than that.
    pub fn fill(&self) {
        let (length, wanted) = (self.length(), self.wanted());
        if length >= wanted {
            self.is_short.store(false, Ordering::Relaxed);
        } else if self.free() >= 2 * wanted {
            match keep_room(&self.path(), wanted) {
                Ok(()) => self.is_short.store(false, Ordering::Relaxed),
                Err(error) => tracing::debug!(path = %self.path().display(), %error, "no room is kept"),
            }
        }
    }

    /// Frees a part of the reserve. Returns false if nothing is left.
    fn lend(&self) -> bool {
        self.is_short.store(true, Ordering::Relaxed);
        let length = self.length();
        let cut = || File::options().write(true).open(self.path())?.set_len(length.saturating_sub(PART_BYTES));
        length > 0 && cut().is_ok()
    }

    /// Frees a part of the reserve if less than that is free. Called before files are created that processes map: writing to
    /// a mapped page for which the disk has no room kills the process.
    pub fn prepare(&self) {
        if self.free() < PART_BYTES {
            self.lend();
        }
    }

    /// Runs an operation that needs little space. If the disk is full, frees a part of the reserve and runs it again.
    ///
    /// # Errors
    /// [`FullDisk::no_space`] if the disk stays full.
    pub fn run_with<T, E: FullDisk + Display>(&self, mut run: impl FnMut() -> Result<T, E>) -> Result<T, E> {
        loop {
            match run() {
                Err(error) if self.is_why(&error) => {
                    if !self.lend() {
                        return Err(E::no_space(self.describe(&error)));
                    }
                }
                done => return done,
            }
        }
    }

    /// Runs an operation that adds bytes, with only the space outside of the reserve.
    ///
    /// # Errors
    /// [`FullDisk::no_space`] if the disk is full.
    pub fn run_without<T, E: FullDisk + Display>(&self, run: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        if self.is_short.load(Ordering::Relaxed) {
            self.fill();
            // The freed part of the reserve counts as free space now, but must not be used for this.
            if self.is_short.load(Ordering::Relaxed) && self.free() < 2 * self.wanted() {
                return Err(E::no_space(self.describe(&"what is left is kept for removals")));
            }
        }
        run().map_err(|error| if self.is_why(&error) { E::no_space(self.describe(&error)) } else { error })
    }

    /// Returns whether an operation failed because this disk is full.
    fn is_why(&self, error: &impl FullDisk) -> bool {
        let is_full = error.io_error().is_some_and(|cause| {
            // LMDB reports a short write on a full disk as EIO.
            is_full(cause) || cause.raw_os_error() == Some(libc::EIO)
        });
        is_full && self.free() < 2 * self.wanted()
    }

    fn describe(&self, why: &dyn Display) -> String {
        let (free, wanted) = (self.free(), self.wanted());
        let needed = (2 * wanted).saturating_sub(free);
        format!(
            "the disk of {}, where the store keeps its log and its catalog, is full ({why}); free {needed} bytes on it, or more, \
             or remove objects",
            self.dir.display()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl FullDisk for io::Error {
        fn io_error(&self) -> Option<&io::Error> {
            Some(self)
        }

        fn no_space(reason: String) -> io::Error {
            io::Error::other(reason)
        }
    }

    #[test]
    fn parts_are_given_back_until_nothing_is_left_and_it_is_filled_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let reserve = Reserve::new(dir.path());
        assert!(reserve.is_short.load(Ordering::Relaxed) && !reserve.lend());
        reserve.fill();
        assert_eq!((reserve.length(), reserve.is_short.load(Ordering::Relaxed)), (RESERVE_BYTES, false));
        let parts = (0..).take_while(|_| reserve.lend()).count() as u64;
        assert_eq!((parts, reserve.length()), (RESERVE_BYTES / PART_BYTES, 0));
        assert!(reserve.is_short.load(Ordering::Relaxed));
        reserve.run_without(|| Ok::<_, io::Error>(())).expect("this disk has room");
        assert_eq!((reserve.length(), reserve.is_short.load(Ordering::Relaxed)), (RESERVE_BYTES, false));
        // Another disk is full, but not this one.
        let full = || io::Error::from_raw_os_error(libc::ENOSPC);
        assert_eq!(reserve.run_with(|| Err::<(), _>(full())).expect_err("fails").raw_os_error(), Some(libc::ENOSPC));
        assert_eq!(reserve.length(), RESERVE_BYTES);
    }
}
