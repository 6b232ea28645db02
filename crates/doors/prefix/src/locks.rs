//! Files that stand for objects in `flock` and `fcntl`, so that the kernel keeps locks for all processes of the machine.
//!
//! A lock file is removed by its last user. Each user marks it: it shares the lock of a byte whose number is the object's, in a file for all of
//! them. Who gets a byte alone knows that nobody uses the lock file, and that nobody begins to until it is removed.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::thread;
use std::time::Duration;

use terrace_system::lock::ByteLocks;

use crate::settings;

/// The folder of the lock files in the store's directory. The files are named after the objects' numbers.
const LOCK_FOLDER: &str = "preload/locks";
/// The file beside them in which users lock bytes.
const MARKS_FILE: &str = "used";
/// Who removes a lock file has its byte alone only for some calls of the kernel.
const REMOVAL_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// The first lock file of a process removes those that ended processes have left.
static SWEPT_ONCE: Once = Once::new();

/// The lock file of an object. It is empty.
#[derive(Debug)]
pub struct LockFile {
    path: PathBuf,
    file: File,
    /// None when this is dropped.
    mark: Option<ByteLocks>,
}

impl LockFile {
    /// Opens the lock file of an object.
    pub fn open(object: u64) -> io::Result<LockFile> {
        let no_locks = || io::Error::from_raw_os_error(libc::ENOLCK);
        let store = settings::store_dir().ok_or_else(no_locks)?;
        let folder = store.join(LOCK_FOLDER);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        // A file that cannot be removed is in nobody's way.
        SWEPT_ONCE.call_once(|| drop(sweep(&store)));
        let mark = ByteLocks::open(&folder.join(MARKS_FILE))?;
        let byte = i64::try_from(object).map_err(|_| no_locks())?;
        while !mark.try_share(byte)? {
            thread::sleep(REMOVAL_POLL_INTERVAL);
        }
        let path = folder.join(object.to_string());
        let file = File::options().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path)?;
        Ok(LockFile { path, file, mark: Some(mark) })
    }
}

impl Deref for LockFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // A forked process that has the mark keeps it.
        drop(self.mark.take());
        // If it cannot be removed, the next sweep tries again.
        let _ = remove_unused(&self.path);
    }
}

/// Removes the lock files of this store that nobody uses.
pub fn sweep(store: &Path) -> io::Result<()> {
    for entry in fs::read_dir(store.join(LOCK_FOLDER))? {
        remove_unused(&entry?.path())?;
    }
    Ok(())
}

/// Removes a lock file, unless somebody uses it.
fn remove_unused(path: &Path) -> io::Result<()> {
    let number = path.file_name().and_then(|name| name.to_str()?.parse::<i64>().ok());
    if let (Some(byte), Some(folder)) = (number, path.parent()) {
        let marks = ByteLocks::open(&folder.join(MARKS_FILE))?;
        // It is kept until the file is gone. Another process may have removed it.
        if marks.try_lock(byte)? && path.exists() {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
