//! The note on a target on a service: the last commit all of whose frames are there.

use std::fs;
use std::io;
use std::path::PathBuf;

use terrace_format::Reach;

/// The last note on a target, as the store's directory knows it. If the target's own note is older or missing, the target is an
/// older copy.
pub struct SyncedNote(PathBuf);

impl SyncedNote {
    /// The note at `path`. The file may be missing.
    pub fn new(path: PathBuf) -> SyncedNote {
        SyncedNote(path)
    }

    /// Returns the text of a note for all commits up to `reach.sequence`, of the log that has `reach.record`.
    pub fn text(reach: Reach) -> String {
        let Reach { sequence, record: (commit, checksum) } = reach;
        format!("synced {sequence:016x}\nrecord {commit:016x} {checksum:016x}\n")
    }

    /// Reads a note. `None` if it is damaged. Notes of older versions name no record.
    pub fn parse(text: &[u8]) -> Option<Reach> {
        let text = std::str::from_utf8(text).ok()?;
        let mut words = text.split_ascii_whitespace();
        let sequence = words.next().filter(|word| *word == "synced").and_then(|_| parse_number(words.next()?))?;
        let record = match words.next() {
            None => (0, 0),
            Some(_) => (parse_number(words.next()?)?, parse_number(words.next()?)?),
        };
        let reach = Reach { sequence, record };
        let is_short = record == (0, 0) && text == format!("synced {sequence:016x}\n");
        (is_short || text == SyncedNote::text(reach)).then_some(reach)
    }

    /// Returns the last note. `None` if nothing is known.
    pub fn known(&self) -> Option<Reach> {
        fs::read(&self.0).ok().and_then(|text| SyncedNote::parse(&text))
    }

    /// Writes what was noted on the target. It is not synced: after a power cut, an older or cut note only makes the check weaker.
    pub fn write(&self, reach: Reach) -> io::Result<()> {
        fs::write(&self.0, SyncedNote::text(reach))
    }

    /// Removes the note: the target begins as an empty one.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.0) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}

fn parse_number(word: &str) -> Option<u64> {
    u64::from_str_radix(word, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_note_is_read() {
        let reach = Reach { sequence: 17, record: (18, 0xabc) };
        let text = SyncedNote::text(reach);
        assert_eq!(SyncedNote::parse(text.as_bytes()), Some(reach));
        let short = Reach { sequence: 17, record: (0, 0) };
        assert_eq!(SyncedNote::parse(b"synced 0000000000000011\n"), Some(short), "of an older version");
        for length in 0..text.len() {
            let cut = SyncedNote::parse(&text.as_bytes()[..length]);
            assert!(cut.is_none() || cut == Some(short), "{length}: {cut:?}");
        }
        for bad in ["synced 0000000000000012", "synced +000000000000012\n", "synced 12\n", ""] {
            assert_eq!(SyncedNote::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn what_was_noted_is_known_until_it_is_forgotten() {
        let dir = tempfile::tempdir().expect("a folder");
        let note = SyncedNote::new(dir.path().join("synced"));
        assert_eq!(note.known(), None);
        let reach = Reach { sequence: 17, record: (18, 9) };
        note.write(reach).expect("writes");
        assert_eq!(note.known(), Some(reach));
        note.remove().and_then(|()| note.remove()).expect("forgets");
        assert_eq!(note.known(), None);
    }
}
