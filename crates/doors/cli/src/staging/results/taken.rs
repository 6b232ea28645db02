//! The places that are taken by results. On a file system that ignores case, two results may have the same place. The second one must then not
//! replace the first, which the user wants more.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};

use crate::copy::{FileNumber, SAME_NAME};
use crate::output::name;

/// The keys of the objects that are saved, by the numbers of the files in which they are.
#[derive(Default)]
pub struct TakenPlaces(Mutex<BTreeMap<FileNumber, Vec<u8>>>);

impl TakenPlaces {
    /// Notes that an object is saved at a path.
    pub fn note(&self, key: &[u8], path: &Path) {
        let Some(number) = number_at(path) else { return };
        // A map that a panicked thread has left is whole: each change is one insertion.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(number).or_insert_with(|| key.to_vec());
    }

    /// Fails if another object is saved at this path.
    pub fn check_free(&self, key: &[u8], path: &Path) -> Result<()> {
        let Some(number) = number_at(path) else { return Ok(()) };
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&number) {
            Some(other) if other != key => bail!("{} is there, {SAME_NAME}", name(other)),
            _ => Ok(()),
        }
    }
}

/// Returns the number of the file or folder at a path. None if there is none, or if it has further hard links.
fn number_at(path: &Path) -> Option<FileNumber> {
    fs::symlink_metadata(path).ok().map(|found| FileNumber::of(&found)).filter(|number| !number.has_links())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_under_each_of_its_names_but_not_under_a_hard_link() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let taken = TakenPlaces::default();
        fs::write(path("a"), "a").unwrap();
        taken.check_free(b"a", &path("a")).unwrap();
        taken.note(b"a", &path("a"));
        taken.check_free(b"a", &path("a")).unwrap();
        taken.check_free(b"b", &path("b")).unwrap();
        let error = taken.check_free(b"A", &path("./a")).unwrap_err().to_string();
        assert!(error.contains("a is there, because the destination treats their names as the same"), "{error}");
        fs::hard_link(path("a"), path("link")).unwrap();
        taken.check_free(b"link", &path("link")).unwrap();
    }
}
