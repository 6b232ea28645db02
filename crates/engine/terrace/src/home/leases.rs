//! Leases: what an open handle pins is not given back as long as its process lives.
//!
//! A lease is a record of the catalog that names its holder: a file that the holder's process keeps locked, as a writer
//! does its segment. Whose file can be locked, or is gone, is dead.

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
    /// This process's number among holders, and its locked file; made for its first lease.
    holder: Mutex<Option<(u64, Locked)>>,
}

impl Leases {
    /// For the store in `dir`.
    pub fn new(dir: &Path) -> Leases {
        Leases { folder: dir.join("leases"), holder: Mutex::default() }
    }

    fn path(&self, holder: u64) -> PathBuf {
        self.folder.join(format!("{holder:016x}"))
    }

    /// This process's number as a holder; `new` gives one that no holder ever had.
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

    /// Whether the process of a holder is gone; its file then is, too.
    fn is_dead(&self, holder: u64) -> bool {
        let path = self.path(holder);
        let file = match File::options().write(true).open(&path) {
            Ok(file) => file,
            Err(e) => return e.kind() == io::ErrorKind::NotFound,
        };
        let dead = matches!(Locked::at_once(file), Ok(Some(_)));
        if dead {
            // Where this fails it is found dead again.
            let _ = fs::remove_file(&path);
        }
        dead
    }

    /// Drops the leases of processes that are gone.
    pub fn drop_dead(&self, catalog: &Catalog) -> Result<()> {
        let mut leases = catalog.leases()?;
        leases.retain(|(holder, _)| self.is_dead(*holder));
        Ok(leases.into_iter().try_for_each(|id| catalog.unlease(id))?)
    }

    /// Lets go, when the store is closed.
    pub fn close(&self) {
        if let Some((holder, _)) = self.holder.lock().take() {
            // What is left is found dead by others.
            let _ = fs::remove_file(self.path(holder));
        }
    }

    /// Removes what dead processes left, where no other has the store open.
    pub fn clear(&self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
