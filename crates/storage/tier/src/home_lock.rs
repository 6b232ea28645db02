//! Only one copy of a store's directory uses a target at a time.
//!
//! A copied directory (`cp -a`) names the same targets and the same segments. Two copies in use at the same time would write
//! frames to the same places, and free each other's. So each process locks one byte of a file on the target, shared with all
//! processes of its own directory, and then checks that no other byte is locked. Of two copies that lock at the same time, at
//! least one sees the other.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix_futex_sync::Mutex;
use terrace_system::lock::{lock_byte, other_byte_held};
use terrace_system::{boot, fork};
use xxhash_rust::xxh3::xxh3_64;

use super::owner_mark::{check_owner, take_owner};

/// The file whose bytes are locked. It has no content.
pub(crate) const HOME_FILE: &str = "terrace-home";

/// The lock of a target for one store's directory.
pub(crate) struct HomeLock {
    /// The store's directory.
    home: PathBuf,
    /// Held while the file is opened and locked, so that threads do it once. No other lock is taken under it.
    held: Mutex<Option<Held>>,
}

/// A locked byte.
struct Held {
    file: File,
    byte: i64,
    /// Device and inode of the file.
    id: (u64, u64),
    forks: u32,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Closing the file does not unlock it as long as a fork has it open. If this fails, other copies have to wait for the fork.
        if self.forks == fork::count() {
            let _ = lock_byte(&self.file, libc::F_UNLCK, self.byte);
        }
    }
}

impl HomeLock {
    /// Makes the lock for the store in the directory `home`, without taking it.
    pub fn new(home: &Path) -> HomeLock {
        HomeLock { home: home.to_owned(), held: Mutex::default() }
    }

    /// Checks that no other copy of the store's directory has the target at `root` in use now, or has replaced this one, without taking it.
    ///
    /// # Errors
    /// As [`HomeLock::take`].
    pub fn check(&self, root: &Path) -> io::Result<()> {
        check_owner(&self.home, root)?;
        let byte = home_byte(&self.home)?;
        // Without the file, or where bytes cannot be locked, nobody is noticed.
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(root.join(HOME_FILE));
        let is_taken = file.and_then(|file| other_byte_held(&file, byte));
        if is_taken.unwrap_or(false) { Err(busy(root)) } else { Ok(()) }
    }

    /// Takes the target at `root`, unless it is taken already. Without locks on its file system, or a place for the file, copies
    /// are not kept apart.
    ///
    /// # Errors
    /// `ResourceBusy` if another copy of the store's directory has the target in use, `NotConnected` if it has taken the target for good.
    pub fn take(&self, root: &Path) -> io::Result<()> {
        let path = root.join(HOME_FILE);
        let mut held = self.held.lock();
        if held.as_ref().is_some_and(|held| id_at(&path).is_some_and(|id| id == held.id)) {
            return Ok(());
        }
        let byte = home_byte(&self.home)?;
        loop {
            let Some(file) = open(&path)? else { return check_owner(&self.home, root) };
            // First the own byte, then the others: see above.
            match lock_byte(&file, libc::F_RDLCK, byte).and_then(|()| other_byte_held(&file, byte)) {
                Ok(false) => {}
                Ok(true) => return Err(busy(root)),
                Err(error) => tracing::debug!(path = %path.display(), %error, "copies of the store are not kept apart"),
            }
            let id = (file.metadata()?.dev(), file.metadata()?.ino());
            // A lock on a removed file keeps nobody away.
            if id_at(&path).is_none_or(|now| now == id) {
                // Under the lock: no other directory does the same now.
                take_owner(&self.home, root)?;
                *held = Some(Held { file, byte, id, forks: fork::count() });
                return Ok(());
            }
        }
    }
}

fn busy(root: &Path) -> io::Error {
    let reason = format!(
        "{} is in use by another copy of this store's directory; two copies would overwrite each other's data: close that one, and \
         keep only one of the two",
        root.display()
    );
    io::Error::new(io::ErrorKind::ResourceBusy, reason)
}

fn id_at(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Opens the file for reading: one that is open for writing would keep its file system from being mounted read-only. None if it
/// is missing and cannot be made, as on a full or read-only file system.
fn open(path: &Path) -> io::Result<Option<File>> {
    // Something else may have the name: opening a pipe, for example, would wait for its writer.
    let read = || File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    match read() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(io::Error::new(e.kind(), format!("opening {}: {e}", path.display()))),
        opened => return opened.map(Some),
    }
    match File::options().create(true).truncate(false).write(true).mode(0o600).open(path) {
        Ok(_) => read().map(Some),
        Err(error) => {
            tracing::debug!(path = %path.display(), %error, "copies of the store are not kept apart");
            Ok(None)
        }
    }
}

/// The byte of a directory, above 0. The boot id tells directories of two machines apart that share a target.
fn home_byte(home: &Path) -> io::Result<i64> {
    // Never `NotFound`, which would speak of a frame.
    let missing = |e: io::Error| io::Error::new(io::ErrorKind::NotConnected, format!("{}: {e}", home.display()));
    let metadata = fs::metadata(home).map_err(missing)?;
    // Without an id, directories of two machines are told apart by their numbers alone.
    let boot = boot::read_id().unwrap_or_default();
    let hash = xxh3_64(format!("{} {} {}", boot, metadata.dev(), metadata.ino()).as_bytes());
    Ok((hash >> 2) as i64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder")
    }

    #[test]
    fn a_target_is_taken_by_one_directory_at_a_time() {
        let (target, home, copy) = (folder(), folder(), folder());
        let take = |home: &Path| {
            let lock = HomeLock::new(home);
            lock.take(target.path()).map(|()| lock)
        };
        let refusal = |home: &Path| take(home).map(drop).expect_err("another directory has it").kind();
        let locks = [take(home.path()), take(home.path())].map(|taken| taken.expect("takes"));
        locks[0].take(target.path()).expect("it has it");
        assert_eq!(refusal(copy.path()), io::ErrorKind::ResourceBusy);
        let [first, second] = locks;
        drop(first);
        assert_eq!(refusal(copy.path()), io::ErrorKind::ResourceBusy);
        drop(second);
        let other = take(copy.path()).expect("nobody has it");
        assert_eq!(refusal(home.path()), io::ErrorKind::ResourceBusy);
        drop(other);
        take(home.path()).map(drop).expect("nobody has it");
    }

    #[test]
    fn a_file_that_was_removed_is_made_and_locked_again() {
        let (target, home, copy) = (folder(), folder(), folder());
        let (lock, other) = (HomeLock::new(home.path()), HomeLock::new(copy.path()));
        lock.take(target.path()).expect("takes");
        fs::remove_file(target.path().join(HOME_FILE)).expect("removes");
        lock.take(target.path()).expect("takes it again");
        assert_eq!(other.take(target.path()).expect_err("it is taken").kind(), io::ErrorKind::ResourceBusy);
    }
}
