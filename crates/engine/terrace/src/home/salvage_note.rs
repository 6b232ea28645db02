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
/// Begins the note of a salvage that goes on with the existing catalog. That of one that makes a new catalog begins with `log`.
const CATALOG_WORD: &str = "catalog";

/// The state in which a salvage has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SalvageNote {
    /// The last commit that is known to have existed.
    pub needed: u64,
    /// The last commit that the log or the catalog had.
    pub known: u64,
    /// Whether the salvage goes on with the existing catalog, which had more commits than the log.
    pub has_catalog: bool,
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
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
        // A damaged note relies on no catalog.
        let (needed, known) = number(1).zip(number(2)).unwrap_or_default();
        let has_catalog = words.first() == Some(&CATALOG_WORD) && number(2).is_some();
        Ok(Some(SalvageNote { needed, known, has_catalog }))
    }

    /// Writes the note, durably.
    pub fn write(self, dir: &Path) -> Result<()> {
        let SalvageNote { needed, known, has_catalog } = self;
        let word = if has_catalog { CATALOG_WORD } else { "log" };
        write_file(&path(dir), format!("{word} {needed} {known}\n").as_bytes())
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
        for has_catalog in [false, true] {
            let note = SalvageNote { needed: u64::MAX, known: 7, has_catalog };
            note.write(dir.path()).expect("writes");
            assert_eq!(SalvageNote::read(dir.path()).expect("reads"), Some(note));
        }
        for damaged in [&[255, 0][..], b"catalog", b"catalog 3", b""] {
            fs::write(path(dir.path()), damaged).expect("writes");
            let note = SalvageNote::read(dir.path()).expect("reads").expect("a note");
            assert!(!note.has_catalog, "{damaged:?}");
        }
        SalvageNote::remove(dir.path()).expect("removes");
        assert_eq!(SalvageNote::read(dir.path()).expect("reads"), None);
    }
}
