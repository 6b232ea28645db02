//! The note that a target is empty.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A file that says that a target was made, or found empty, and that its replicas in the catalog are not owed again yet. If the
/// process that made the target dies, the note remains, so the next one does not count on replicas that are gone.
#[derive(Debug)]
pub struct EmptiedNote(PathBuf);

impl EmptiedNote {
    /// The note at `path`. The file may be missing.
    pub fn new(path: PathBuf) -> EmptiedNote {
        EmptiedNote(path)
    }

    /// Returns whether the target is noted as empty.
    pub fn exists(&self) -> bool {
        self.0.exists()
    }

    /// Writes the note, durably. Call it before the marker is written: as long as there is no marker, the next opener writes the
    /// note again. In the other order, a crash between the two would leave an empty target without a note.
    pub fn write(&self) -> io::Result<()> {
        File::create(&self.0)?.sync_all()?;
        File::open(self.0.parent().unwrap_or(Path::new(".")))?.sync_all()
    }

    /// Removes the note, without a sync: if a power cut brings it back, some replicas are only made once more.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.0) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}
