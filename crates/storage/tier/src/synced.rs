//! The notes of how far the frames of a target on a service were complete.

use std::fs;
use std::io;
use std::path::PathBuf;

/// The last note on a target, as the store's directory knows it. An older one there, or none, is that of an older copy of the target.
pub struct SyncedNote(PathBuf);

impl SyncedNote {
    /// The note at `path`. The file may be missing.
    pub fn new(path: PathBuf) -> SyncedNote {
        SyncedNote(path)
    }

    /// Returns the text of a note for all commits up to `sequence`.
    pub fn text(sequence: u64) -> String {
        format!("synced {sequence:016x}\n")
    }

    /// Returns the commit that a note names. `None` if it is damaged.
    pub fn parse(text: &[u8]) -> Option<u64> {
        let digits = std::str::from_utf8(text).ok()?.strip_prefix("synced ")?.strip_suffix('\n')?;
        // A sign would be read, too.
        let is_whole = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if is_whole { u64::from_str_radix(digits, 16).ok() } else { None }
    }

    /// The commit up to which the target was complete. `None` if none is known.
    pub fn known(&self) -> Option<u64> {
        fs::read(&self.0).ok().and_then(|text| SyncedNote::parse(&text))
    }

    /// Returns whether a target whose note names this commit is an older copy of itself.
    pub fn is_newer_than(&self, theirs: Option<u64>) -> bool {
        self.known().is_some_and(|known| theirs.is_none_or(|theirs| theirs < known))
    }

    /// Notes what was noted on the target. It is not synced: an older text, or half of one, asks for less.
    pub fn write(&self, sequence: u64) -> io::Result<()> {
        fs::write(&self.0, SyncedNote::text(sequence))
    }

    /// Forgets what was noted: the target begins as an empty one.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.0) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_missing_or_damaged_note_is_that_of_an_older_copy() {
        let dir = tempfile::tempdir().expect("a folder");
        let note = SyncedNote::new(dir.path().join("synced"));
        assert!(!note.is_newer_than(None), "nothing is known");
        note.write(17).expect("writes");
        for theirs in ["synced 0000000000000011\n", "synced 0000000000000012\n"] {
            assert!(!note.is_newer_than(SyncedNote::parse(theirs.as_bytes())), "{theirs}");
        }
        for theirs in ["synced 0000000000000010\n", "synced 0000000000000012", "synced +000000000000012\n", ""] {
            assert!(note.is_newer_than(SyncedNote::parse(theirs.as_bytes())), "{theirs}");
        }
        assert!(note.is_newer_than(None));
        note.remove().and_then(|()| note.remove()).expect("forgets");
        assert!(!note.is_newer_than(None));
    }
}
