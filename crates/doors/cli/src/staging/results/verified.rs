//! The files of the results that were compared: another program may replace or change one while the others are copied.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The state of a file, which a change or another file in its place changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    device: u64,
    inode: u64,
    length: u64,
    time: (i64, i64),
}

impl FileState {
    pub fn of(found: &Metadata) -> FileState {
        let time = (found.mtime(), found.mtime_nsec());
        FileState { device: found.dev(), inode: found.ino(), length: found.len(), time }
    }
}

/// The states of compared files, by the keys of their objects.
#[derive(Default)]
pub struct VerifiedFiles(Mutex<BTreeMap<Vec<u8>, FileState>>);

impl VerifiedFiles {
    /// Notes that the file of an object is equal to it, in this state.
    pub fn note(&self, key: &[u8], state: FileState) {
        self.states().insert(key.to_vec(), state);
    }

    /// Returns whether the file of an object is not the one that was compared. False if none was.
    pub fn is_changed(&self, key: &[u8], found: &Metadata) -> bool {
        self.states().get(key).is_some_and(|state| *state != FileState::of(found))
    }

    fn states(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, FileState>> {
        // A map that a panicked thread has left is whole: each change is one insertion.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_was_replaced_or_written_is_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let found = || path("a").symlink_metadata().unwrap();
        let verified = VerifiedFiles::default();
        fs::write(path("a"), "a").unwrap();
        assert!(!verified.is_changed(b"a", &found()));
        verified.note(b"a", FileState::of(&found()));
        assert!(!verified.is_changed(b"a", &found()));
        let time = found().modified().unwrap();
        let set_time = |time| fs::File::options().write(true).open(path("a")).unwrap().set_modified(time).unwrap();
        set_time(std::time::UNIX_EPOCH);
        assert!(verified.is_changed(b"a", &found()));
        set_time(time);
        assert!(!verified.is_changed(b"a", &found()));
        fs::write(path("b"), "b").unwrap();
        fs::rename(path("b"), path("a")).unwrap();
        set_time(time);
        assert!(verified.is_changed(b"a", &found()));
    }
}
