//! The file of a dataset's accesses, which all processes of a machine share. It is in the store's directory, since accesses only help to
//! advise: they need no replicas, and are lost with it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use terrace::{Locked, replace};

use super::table::Table;

/// The folder in the store's directory.
const FOLDER_NAME: &str = "datasets";
/// The end of a file's name.
const FILE_SUFFIX: &str = ".reads";
/// A longer file is damaged.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The file of a dataset.
pub struct KeptAccesses {
    folder: PathBuf,
    name: String,
}

/// Whether to wait for another process that is writing the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    AtOnce,
    Wait,
}

/// The content of the file.
#[derive(Default, Serialize, Deserialize)]
struct Content {
    /// The number of the declaration's object: another dataset with the same name has another one.
    dataset: u64,
    reads: Table,
}

impl KeptAccesses {
    /// Names the file of a dataset.
    pub fn new(store: &Path, dataset: &str) -> KeptAccesses {
        KeptAccesses { folder: store.join(FOLDER_NAME), name: format!("{dataset}{FILE_SUFFIX}") }
    }

    /// Returns the accesses of the dataset with this number.
    pub fn read(&self, dataset: u64) -> Table {
        let file = self.folder.join(&self.name);
        let small = fs::metadata(&file).is_ok_and(|found| found.len() <= MAX_FILE_BYTES);
        let bytes = if small { fs::read(&file).ok() } else { None };
        let content: Content = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        if content.dataset == dataset { content.reads } else { Table::default() }
    }

    /// Adds accesses. Returns false, and changes nothing, if another process is writing the file and is not waited for.
    pub fn add(&self, dataset: u64, added: &Table, patience: Patience) -> io::Result<bool> {
        match fs::create_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let lock = File::options().create(true).truncate(false).write(true).open(self.folder.join("lock"))?;
        let lock = match patience {
            Patience::AtOnce => Locked::at_once(lock)?,
            Patience::Wait => Some(Locked::wait(lock)?),
        };
        let Some(_lock) = lock else { return Ok(false) };
        let mut reads = self.read(dataset);
        reads.merge(added.clone());
        replace(&self.folder.join(&self.name), serde_json::to_vec(&Content { dataset, reads })?)?;
        Ok(true)
    }

    /// Removes the file.
    pub fn remove(&self) {
        // A file that stays is ignored, for its dataset's number is that of no other one.
        let _ = fs::remove_file(self.folder.join(&self.name));
    }
}
