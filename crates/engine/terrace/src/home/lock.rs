//! The lock of a store's directory.

use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use terrace_system::Locked;

use super::machine::MachineLock;
use super::place_check::check_place;
use super::{boot, refuse};
use crate::{Error, Result};

/// The lock of a store's directory for this process, and for its machine.
pub struct StoreLock {
    lock: Locked,
    // Dropped last, because another machine may open the store from then on.
    _machine: MachineLock,
}

impl Deref for StoreLock {
    type Target = Locked;

    fn deref(&self) -> &Locked {
        &self.lock
    }
}

/// Takes the lock under which one process creates a store.
pub fn lock_new_store(dir: &Path) -> Result<Locked> {
    let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(dir.join("lock"));
    let file = file.map_err(Error::io(format!("locking {}", dir.join("lock").display())))?;
    // Processes that use the store hold the lock shared.
    let Ok(Some(lock)) = Locked::at_once(file) else {
        return Err(refuse(dir, "a store is here already, or is just being made; open it, or name another directory"));
    };
    boot::shared(dir, &lock)?;
    Ok(lock)
}

/// Takes the store's lock, which all processes that have it open share. Fails if another machine may have it open.
pub fn lock_store(dir: &Path) -> Result<StoreLock> {
    check_files(dir)?;
    let _machine = MachineLock::take(dir, &check_place(dir)?)?;
    let path = dir.join("lock");
    let context = || format!("locking {}", path.display());
    let file = File::options().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path);
    let lock = file.and_then(Locked::share).map_err(Error::io(context()))?;
    Ok(StoreLock { lock, _machine })
}

/// Checks that nothing in the store's directory is a pipe or a device. Opening one in the place of a file could wait for ever.
fn check_files(dir: &Path) -> Result<()> {
    let find_special = || -> io::Result<Option<fs::DirEntry>> {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_fifo() || kind.is_char_device() || kind.is_block_device() {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    };
    match find_special().map_err(Error::io(format!("reading {}", dir.display())))? {
        Some(entry) => {
            Err(refuse(dir, &format!("{} in it is a pipe or a device; remove it", entry.file_name().display())))
        }
        None => Ok(()),
    }
}
