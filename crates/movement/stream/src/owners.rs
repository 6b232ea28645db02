//! Ownership of destinations, for streams that pull several directories: files with the same name in two directories would overwrite each
//! other.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use rustix_futex_sync::Mutex;
use terrace::{Attributes, Batch, Store};

use crate::Result;
use crate::ledger::Ledger;
use crate::request::{Name, escape};

/// The record's attribute that names the directory.
const ATTRIBUTE_DIRECTORY: &str = "directory";

/// The owners of a stream's destinations. A destination belongs to the first directory that delivers to it, across all runs, until it is
/// forgotten.
pub struct Owners {
    store: Store,
    stream: String,
    folder: Vec<u8>,
    /// The number of directories that the stream pulls.
    directories: AtomicUsize,
    /// The owners of files that are being delivered.
    claimed: Mutex<HashMap<Name, PathBuf>>,
}

/// Encodes a path as text. Different paths have different encodings.
fn text(directory: &Path) -> String {
    directory.as_os_str().as_bytes().escape_ascii().to_string()
}

impl Owners {
    /// Opens the owners of the named stream, whose records lie below `folder`.
    pub fn new(store: &Store, stream: &str, folder: &str) -> Owners {
        let folder = format!("{folder}/owners").into_bytes();
        Owners {
            store: store.internal(),
            stream: stream.to_owned(),
            folder,
            directories: AtomicUsize::new(0),
            claimed: Mutex::default(),
        }
    }

    /// Counts one more pulled directory. Call it before any directory is pulled.
    pub fn add_directory(&self) {
        self.directories.fetch_add(1, Relaxed);
    }

    fn key(&self, name: &[u8]) -> Vec<u8> {
        [&self.folder, b"/".as_slice(), &escape(name)].concat()
    }

    /// Whether the destination has an owner.
    pub fn knows(&self, name: &[u8]) -> Result<bool> {
        self.recorded(name).map(|owner| owner.is_some())
    }

    fn recorded(&self, name: &[u8]) -> Result<Option<String>> {
        match self.store.stat(&self.key(name)) {
            Ok(object) => Ok(object.attributes.user.get(ATTRIBUTE_DIRECTORY).cloned()),
            Err(terrace::Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Removes the owner of a destination; the next directory that delivers to it owns it.
    pub fn forget(&self, name: &[u8]) -> Result<()> {
        match self.recorded(name)? {
            Some(_) => Ok(self.store.remove(&self.key(name))?),
            None => Ok(()),
        }
    }
}

/// The ownership of one directory's files.
pub struct Claims {
    path: PathBuf,
    root: PathBuf,
    owners: Arc<Owners>,
    ledger: Arc<Ledger>,
}

impl Claims {
    /// Creates the claims of the files below `root`, to which `path` leads.
    pub fn new(path: PathBuf, root: PathBuf, owners: &Arc<Owners>, ledger: &Arc<Ledger>) -> Claims {
        Claims { path, root, owners: owners.clone(), ledger: ledger.clone() }
    }

    /// The path of the directory as it was given. It may lead to another directory some day.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory, without symbolic links. It is recorded as the owner.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Claims a destination for the directory. If it belongs to another directory or to requests, returns the reason why the file of this
    /// name is not taken.
    pub fn claim(&self, name: &Name) -> Result<Option<String>> {
        // Hold one lock over both the check and the claim, so that two directories cannot claim the same name at once.
        let mut claimed = self.owners.claimed.lock();
        let shown = String::from_utf8_lossy(name);
        let reason = |other: &str| {
            format!(
                "{other} the same name and would be written over; rename this file, or have it replace the other: `terrace flush --stream {} --forget {shown}`",
                self.owners.stream
            )
        };
        let owner = match claimed.get(name) {
            Some(other) => Some(text(other)),
            None => self.owners.recorded(name)?,
        };
        if let Some(owner) = owner.filter(|owner| *owner != text(&self.root)) {
            return Ok(Some(reason(&format!("{owner}/{shown} goes to"))));
        }
        if self.ledger.mark(name)?.is_some_and(|mark| mark.takes_requests()) {
            return Ok(Some(reason("what was appended by requests lies under")));
        }
        claimed.insert(name.clone(), self.root.clone());
        Ok(None)
    }

    /// Adds the ownership to the commit that records a delivered file. A stream that pulls only one directory records nothing.
    pub fn record(&self, name: &Name, batch: &mut Batch<'_>) -> Result<()> {
        if self.owners.directories.load(Relaxed) > 1 && self.owners.recorded(name)?.is_none() {
            let mut attributes = Attributes::now();
            attributes.user.insert(ATTRIBUTE_DIRECTORY.into(), text(&self.root));
            batch.replace(&self.owners.key(name), 0, attributes)?;
        }
        Ok(())
    }

    /// Does the same as [`Claims::record`] in a commit of its own.
    pub fn record_now(&self, name: &Name) -> Result<()> {
        let mut batch = self.owners.store.batch();
        self.record(name, &mut batch)?;
        batch.commit()?;
        Ok(())
    }

    /// Releases the claim of a name without a file in delivery. A recorded ownership stays.
    pub fn release(&self, name: &Name) {
        self.owners.claimed.lock().remove(name);
    }
}
