//! Separates calls that may concern the store from others, without asking the store.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix_futex_sync::Mutex;

use crate::calls::{CallTask, PathCall};
use crate::descriptors::CallersFile;
use crate::memory::Caller;
use crate::paths::StorePrefix;

/// The devices and numbers of the spools and copies that programs may have open. A leaf, held for a look or a change.
#[derive(Clone, Default)]
pub struct OpenedInodes(Arc<Mutex<BTreeSet<(u64, u64)>>>);

impl OpenedInodes {
    /// Adds a file before a program gets it.
    pub fn add(&self, inode: (u64, u64)) {
        self.0.lock().insert(inode);
    }

    /// Removes a file that no program has open any more.
    pub fn remove(&self, inode: (u64, u64)) {
        self.0.lock().remove(&inode);
    }

    fn has(&self, file: &Metadata) -> bool {
        self.0.lock().contains(&(file.dev(), file.ino()))
    }
}

/// The sieve. It may hold back a call that does not concern the store, but never lets one through that does.
pub struct CallSieve {
    /// Where programs see the store.
    pub prefix: Arc<StorePrefix>,
    /// The folder of the listings.
    pub listings: Box<Path>,
    /// The files that programs have open.
    pub opened: OpenedInodes,
}

impl CallSieve {
    /// Returns whether a call may concern the store. False if its path cannot be read: then the kernel reports the error.
    pub fn holds(&self, caller: Caller, call: &PathCall) -> bool {
        let path = match call.path {
            0 => Ok(Vec::new()),
            address => caller.text(address),
        };
        let to = match call.task {
            CallTask::Rename { to_dir, to, .. } => {
                caller.text(to).is_ok_and(|path| self.is_below(caller, to_dir, &path))
            }
            _ => false,
        };
        to || path.is_ok_and(|path| match path.as_slice() {
            b"" => call.dir >= 0 && self.has_open(&CallersFile::new(caller, call.dir)),
            path => {
                self.is_below(caller, call.dir, path)
                    || CallersFile::named(caller, call.dir, path).is_some_and(|file| self.has_open(&file))
            }
        })
    }

    fn is_below(&self, caller: Caller, dir: i32, path: &[u8]) -> bool {
        let shown = |directory: &[u8]| self.is_listing(directory).then(Vec::new);
        self.prefix.below(caller, dir, path, shown).is_some()
    }

    fn has_open(&self, file: &CallersFile) -> bool {
        file.metadata().is_some_and(|metadata| self.opened.has(&metadata))
            || file.link().is_some_and(|link| self.is_listing(&link))
    }

    fn is_listing(&self, directory: &[u8]) -> bool {
        directory.starts_with(self.listings.as_os_str().as_bytes())
    }
}
