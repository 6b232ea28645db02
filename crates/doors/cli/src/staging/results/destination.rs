//! A directory that is a destination, for as long as a command runs.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::output::path_name;

/// A directory in which results are made. It may be moved, unmounted or replaced meanwhile; then nothing more is made at its path.
pub struct Destination {
    pub path: PathBuf,
    /// Open, so that no other directory gets its number.
    folder: File,
}

impl Destination {
    pub fn open(path: PathBuf) -> io::Result<Destination> {
        let folder = File::open(&path)?;
        Ok(Destination { path, folder })
    }

    pub fn folder(&self) -> &File {
        &self.folder
    }

    /// Fails if its path does not lead to it anymore.
    pub fn check(&self) -> Result<()> {
        let number = |found: fs::Metadata| (found.dev(), found.ino());
        let is_there =
            || -> io::Result<bool> { Ok(number(fs::metadata(&self.path)?) == number(self.folder.metadata()?)) };
        let why = match is_there() {
            Ok(true) => return Ok(()),
            Ok(false) => String::new(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => format!(" ({error})"),
        };
        let path = path_name(&self.path);
        bail!(
            "the destination {path} was moved, unmounted or replaced while the command ran{why}; bring it back, and run the command again"
        )
    }

    /// Makes a folder below it, and those between, but never the directory itself.
    pub fn make_folder(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        let below: Vec<&Path> = folder.ancestors().take_while(|above| *above != self.path).collect();
        for folder in below.into_iter().rev() {
            match fs::create_dir(folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
                made => made?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_moved_or_replaced_is_noticed_and_not_made_again() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("results");
        fs::create_dir(&path).unwrap();
        let destination = Destination::open(path.clone()).unwrap();
        destination.make_folder(&path.join("a/b")).unwrap();
        destination.make_folder(&path.join("a/b")).unwrap();
        assert!(path.join("a/b").is_dir() && destination.check().is_ok());
        fs::rename(&path, top.path().join("moved")).unwrap();
        assert_eq!(destination.make_folder(&path.join("a/b")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!path.exists() && destination.check().is_err());
        fs::create_dir(&path).unwrap();
        assert!(destination.check().unwrap_err().to_string().contains("was moved, unmounted or replaced"));
        fs::remove_dir(&path).unwrap();
        fs::rename(top.path().join("moved"), &path).unwrap();
        assert!(destination.check().is_ok());
    }
}
