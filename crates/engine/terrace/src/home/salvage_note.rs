//! The note that a salvage has begun and has not ended. Until it ends, frames that the catalog does not name are not garbage, and a catalog may
//! have commits that the log lacks.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use terrace_system::read_regular;

use super::write_file;
use crate::{Error, Result};

/// The file in the store's directory.
pub const SALVAGE_FILE: &str = "salvage";
/// Begins the line with the last commit of the catalog.
const CATALOG_WORD: &str = "catalog";

/// The catalog that a salvage has begun with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SalvageNote {
    /// The last commit of the catalog that the salvage goes on with. None if it makes a new one from the log.
    pub catalog: Option<u64>,
}

impl SalvageNote {
    /// Reads the note. None if no salvage has begun.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(dir: &Path) -> Result<Option<SalvageNote>> {
        let text = match read_regular(&path(dir)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(Error::io(format!("reading {}", path(dir).display())))?,
        };
        let text = String::from_utf8_lossy(&text);
        let catalog = text.trim().strip_prefix(CATALOG_WORD).and_then(|sequence| sequence.trim().parse().ok());
        Ok(Some(SalvageNote { catalog }))
    }

    /// Writes the note, durably.
    pub fn write(self, dir: &Path) -> Result<()> {
        let text = self.catalog.map_or_else(|| "log\n".to_owned(), |sequence| format!("{CATALOG_WORD} {sequence}\n"));
        write_file(&path(dir), text.as_bytes())
    }

    /// Removes the note, durably: all that was salvaged is in the log.
    pub fn remove(dir: &Path) -> Result<()> {
        let removed = match fs::remove_file(path(dir)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => removed.and_then(|()| File::open(dir)?.sync_all()),
        };
        removed.map_err(Error::io(format!("removing {}", path(dir).display())))
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join(SALVAGE_FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_a_damaged_one_relies_on_no_catalog() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(SalvageNote::read(dir.path()).expect("reads"), None);
        for catalog in [None, Some(0), Some(u64::MAX)] {
            SalvageNote { catalog }.write(dir.path()).expect("writes");
            assert_eq!(SalvageNote::read(dir.path()).expect("reads"), Some(SalvageNote { catalog }));
        }
        fs::write(path(dir.path()), [255, 0]).expect("writes");
        assert_eq!(SalvageNote::read(dir.path()).expect("reads"), Some(SalvageNote { catalog: None }));
        SalvageNote::remove(dir.path()).expect("removes");
        assert_eq!(SalvageNote::read(dir.path()).expect("reads"), None);
    }
}
