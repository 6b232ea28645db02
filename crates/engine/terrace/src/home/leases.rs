//! Leases: the frames that an open handle pins are not freed while its process lives.
//!
//! A lease is a record of the catalog that names its holder. Each holder has a file, which its process keeps locked. If the
//! file is gone, or another process can lock it, the holder is dead.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix_futex_sync::Mutex;
use terrace_catalog::Catalog;
use terrace_system::Locked;

use crate::{Error, Result};

/// The leases that this process holds.
pub struct Leases {
    folder: PathBuf,
    /// This process's number as a holder, and its locked file, made for its first lease.
    holder: Mutex<Option<(u64, Locked)>>,
}

impl Leases {
    /// Creates the leases of the store in `dir`.
    pub fn new(dir: &Path) -> Leases {
        Leases { folder: dir.join("leases"), holder: Mutex::default() }
    }

    fn path(&self, holder: u64) -> PathBuf {
        self.folder.join(format!("{holder:016x}"))
    }

    /// Returns this process's number as a holder. `new` returns a number that no holder ever had.
    pub fn holder(&self, new: impl FnOnce() -> Result<u64>) -> Result<u64> {
        let mut held = self.holder.lock();
        if let Some((holder, _)) = &*held {
            return Ok(*holder);
        }
        let holder = new()?;
        let path = self.path(holder);
        let make = || -> io::Result<Locked> {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
            let file = File::options().create_new(true).write(true).mode(0o600).open(&path)?;
            Locked::at_once(file)?.ok_or(io::ErrorKind::WouldBlock.into())
        };
        let file = make().map_err(Error::io(format!("making {}", path.display())))?;
        *held = Some((holder, file));
        Ok(holder)
    }

    /// Returns whether a holder's process is dead, and removes its file if so.
    fn is_dead(&self, holder: u64) -> bool {
        let path = self.path(holder);
        let file = match File::options().write(true).open(&path) {
            Ok(file) => file,
            Err(e) => return e.kind() == io::ErrorKind::NotFound,
        };
        let dead = matches!(Locked::at_once(file), Ok(Some(_)));
        if dead {
            // If this fails, the holder is found dead again.
            let _ = fs::remove_file(&path);
        }
        dead
    }

    /// Drops the leases of dead processes.
    pub fn drop_dead(&self, catalog: &Catalog) -> Result<()> {
        let mut leases = catalog.leases()?;
        leases.retain(|(holder, _)| self.is_dead(*holder));
        Ok(leases.into_iter().try_for_each(|id| catalog.unlease(id))?)
    }

    /// Releases the holder's file when the store is closed.
    pub fn close(&self) {
        if let Some((holder, _)) = self.holder.lock().take() {
            // If this fails, other processes find the holder dead.
            let _ = fs::remove_file(self.path(holder));
        }
    }

    /// Removes the files of dead holders. No other process may have the store open.
    pub fn clear(&self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
