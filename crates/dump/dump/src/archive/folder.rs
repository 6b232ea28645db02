//! An archive in a directory.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};
use terrace::NewFile;

use super::ArchivePlace;

/// The files below a directory.
pub struct ArchiveFolder(PathBuf);

impl ArchiveFolder {
    pub fn new(path: &Path) -> io::Result<ArchiveFolder> {
        let path = std::path::absolute(path)?;
        match path.metadata() {
            Ok(found) if !found.is_dir() => Err(io::Error::new(ErrorKind::NotADirectory, "it is no directory")),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(ArchiveFolder(path)),
        }
    }

    fn write_by(&self, begin: fn(&Path, u64) -> io::Result<NewFile>, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.0.join(name);
        let folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.0));
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        clear_directory(&path)?;
        let mut file = begin(&path, bytes.len() as u64)?;
        file.write_all(bytes)?;
        file.finish()?;
        // Also those that were there: their names may come from a process that died before it synced them.
        folders.chain(self.0.parent()).try_for_each(|folder| File::open(folder)?.sync_all())
    }

    fn list_into(&self, folder: &Path, names: &mut Vec<String>) -> io::Result<()> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            match path.is_dir() {
                true => self.list_into(&path, names)?,
                false => names.extend(path.strip_prefix(&self.0).ok().map(|name| name.to_string_lossy().into_owned())),
            }
        }
        Ok(())
    }
}

/// Removes an empty directory that is in the place of a file, and moves one with files aside. The next drop of old versions deletes these,
/// as all that no version names.
fn clear_directory(place: &Path) -> io::Result<()> {
    match fs::remove_dir(place) {
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Err(error),
        _ => return Ok(()),
    }
    let (name, number) = (place.file_name().unwrap_or_default(), RandomState::new().hash_one(place));
    let aside = place.with_file_name(format!(".{}.{number:016x}", name.to_string_lossy()));
    // The slash at the end lets it fail if a file has taken the place meanwhile, which stays.
    match fs::rename(place.join(""), &aside) {
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Ok(()),
        moved => moved?,
    }
    tracing::warn!("a directory was in the place of {}, and is now {}", place.display(), aside.display());
    Ok(())
}

impl ArchivePlace for ArchiveFolder {
    fn check_exists(&self) -> io::Result<()> {
        self.0.metadata().map(drop)
    }

    fn length(&self, name: &str) -> io::Result<Option<u64>> {
        match self.0.join(name).metadata() {
            Ok(found) => Ok(found.is_file().then_some(found.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.0.join(name))?;
        // So that the bytes come from the device, not from memory. Some file systems cannot, which is no error.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut file, &mut bytes)?;
        Ok(bytes)
    }

    fn read_at(&self, name: &str, start: u64, out: &mut [u8]) -> io::Result<()> {
        File::open(self.0.join(name))?.read_exact_at(out, start)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.write_by(NewFile::replace, name, bytes)
    }

    fn write_new(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        match self.write_by(NewFile::create_new, name, bytes) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            done => done.map(|()| true),
        }
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        self.list_into(&self.0.join(folder), &mut names)?;
        Ok(names)
    }

    fn delete(&self, names: Vec<String>) -> io::Result<()> {
        for name in names {
            let path = self.0.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            // Ignoring the error is safe: a folder that is not empty stays.
            let _ = path.parent().map(fs::remove_dir);
        }
        Ok(())
    }
}
