//! Which directory a destination belongs to, where a stream pulls several: files of one name in two directories would be written
//! over each other.

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

/// The attribute of a record that names the directory.
const DIRECTORY: &str = "directory";

/// The directories that destinations of a stream belong to. A destination belongs to the first directory that delivers to it, in all
/// runs, until it is forgotten.
pub struct Owners {
    store: Store,
    stream: String,
    folder: Vec<u8>,
    /// How many directories the stream pulls.
    directories: AtomicUsize,
    /// Directories whose files are on their way.
    claimed: Mutex<HashMap<Name, PathBuf>>,
}

/// A path as text, so that no two paths are the same text.
fn text(directory: &Path) -> String {
    directory.as_os_str().as_bytes().escape_ascii().to_string()
}

impl Owners {
    /// Of the stream of this name, whose records lie below `folder`.
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

    /// The stream pulls another directory. Called before any of them is pulled.
    pub fn add_directory(&self) {
        self.directories.fetch_add(1, Relaxed);
    }

    fn key(&self, name: &[u8]) -> Vec<u8> {
        [&self.folder, b"/".as_slice(), &escape(name)].concat()
    }

    /// Whether the destination belongs to a directory.
    pub fn knows(&self, name: &[u8]) -> Result<bool> {
        self.recorded(name).map(|owner| owner.is_some())
    }

    fn recorded(&self, name: &[u8]) -> Result<Option<String>> {
        match self.store.stat(&self.key(name)) {
            Ok(object) => Ok(object.attributes.user.get(DIRECTORY).cloned()),
            Err(terrace::Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Gives a destination to whoever delivers to it next.
    pub fn forget(&self, name: &[u8]) -> Result<()> {
        match self.recorded(name)? {
            Some(_) => Ok(self.store.remove(&self.key(name))?),
            None => Ok(()),
        }
    }
}

/// The destinations of one directory's files.
pub struct Claims {
    root: PathBuf,
    owners: Arc<Owners>,
    ledger: Arc<Ledger>,
}

impl Claims {
    /// Of the files below `root`.
    pub fn new(root: &Path, owners: &Arc<Owners>, ledger: &Arc<Ledger>) -> Claims {
        Claims { root: root.to_owned(), owners: owners.clone(), ledger: ledger.clone() }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Gives a destination to the directory. Where it belongs to another one, or to requests, the answer is the reason why the file of
    /// this name is not taken.
    pub fn claim(&self, name: &Name) -> Result<Option<String>> {
        // One lock over the look and the claim, so that of two directories that claim at once one sees the other.
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

    /// Records that the destination is the directory's, in the commit that records that a file of it is delivered. Where a stream pulls
    /// one directory only, nothing is recorded.
    pub fn record(&self, name: &Name, batch: &mut Batch<'_>) -> Result<()> {
        if self.owners.directories.load(Relaxed) > 1 && self.owners.recorded(name)?.is_none() {
            let mut attributes = Attributes::now();
            attributes.user.insert(DIRECTORY.into(), text(&self.root));
            batch.replace(&self.owners.key(name), 0, attributes)?;
        }
        Ok(())
    }

    /// As [`Claims::record`], in a commit of its own.
    pub fn record_now(&self, name: &Name) -> Result<()> {
        let mut batch = self.owners.store.batch();
        self.record(name, &mut batch)?;
        batch.commit()?;
        Ok(())
    }

    /// No file of this name is under way any more. What is recorded stays.
    pub fn release(&self, name: &Name) {
        self.owners.claimed.lock().remove(name);
    }
}
