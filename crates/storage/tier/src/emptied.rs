//! The note that a target was made empty.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A file that says that a target was made, or found empty, and that what the catalog says is on it was not owed again since.
/// It outlives whoever made the target: its death would otherwise leave replicas that count as there and are not.
#[derive(Debug)]
pub struct EmptiedNote(PathBuf);

impl EmptiedNote {
    /// The note at `path`, which need not be there.
    pub fn new(path: PathBuf) -> EmptiedNote {
        EmptiedNote(path)
    }

    /// Whether the target is noted as empty.
    pub fn exists(&self) -> bool {
        self.0.exists()
    }

    /// Notes it. Before the target is marked as made: without the marker whoever comes next notes it again.
    pub fn write(&self) -> io::Result<()> {
        File::create(&self.0)?.sync_all()?;
        File::open(self.0.parent().unwrap_or(Path::new(".")))?.sync_all()
    }

    /// Takes the note away. It is not synced: one that is there again costs replicas that are made once more.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.0) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}
