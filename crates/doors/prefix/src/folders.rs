//! Directories in the store's own directory that stand for those below the prefix, as the current directories of processes.
//!
//! A process that is in one shares its lock. Who gets the lock alone knows that nobody is there, and removes it. A process that enters it
//! meanwhile notices that its path has another directory by then.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The folder in the store's directory whose directories stand for those below the prefix.
pub const SHADOW_FOLDER: &str = "preload/folders";
/// The number of attempts to make a directory that others remove.
const MAX_TRIES: usize = 100;

/// A directory that stands for one below the prefix, while a process is there. It is removed with its last user.
#[derive(Debug)]
pub struct ShadowFolder {
    path: PathBuf,
    /// None when this is dropped.
    folder: Option<File>,
}

impl ShadowFolder {
    /// Makes the directory at `path`, and locks it.
    pub fn enter(path: PathBuf) -> io::Result<ShadowFolder> {
        let folder = Some(make(&path)?);
        Ok(ShadowFolder { path, folder })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ShadowFolder {
    fn drop(&mut self) {
        // A forked process that has it open keeps the lock.
        drop(self.folder.take());
        for path in self.path.ancestors().take_while(|path| !path.ends_with(SHADOW_FOLDER)) {
            // It is in use, or has others in it. If it cannot be removed, the next sweep tries again.
            if remove_unused(path).is_err() {
                return;
            }
        }
    }
}

/// Makes a directory with its parents, and shares its lock: nobody removes it meanwhile who asks for the lock.
pub fn make(path: &Path) -> io::Result<File> {
    for _ in 0..MAX_TRIES {
        match try_make(path) {
            Ok(Some(folder)) => return Ok(folder),
            // Somebody has removed a part of the path meanwhile.
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ENOENT))
}

/// None if the path has another directory by the time that this one is locked.
fn try_make(path: &Path) -> io::Result<Option<File>> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let folder = File::open(path)?;
    folder.lock_shared()?;
    let (locked, named) = (folder.metadata()?, fs::metadata(path)?);
    Ok(((locked.dev(), locked.ino()) == (named.dev(), named.ino())).then_some(folder))
}

/// Locks a directory, to remove it.
///
/// # Errors
/// If somebody uses it.
pub fn lock_unused(path: &Path) -> io::Result<File> {
    let folder = File::open(path)?;
    folder.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => io::Error::from(io::ErrorKind::ResourceBusy),
        TryLockError::Error(error) => error,
    })?;
    Ok(folder)
}

/// Removes the directories of this store in which nobody is.
pub fn sweep(store: &Path) -> io::Result<()> {
    sweep_below(&store.join(SHADOW_FOLDER))
}

fn sweep_below(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        sweep_below(&path)?;
        // One that is in use, or has such a one in it, stays.
        let _ = remove_unused(&path);
    }
    Ok(())
}

/// Removes a directory.
///
/// # Errors
/// If somebody is there, or if it is not empty.
fn remove_unused(path: &Path) -> io::Result<()> {
    // Kept until the directory is gone.
    let _locked = lock_unused(path)?;
    fs::remove_dir(path)
}
