//! Small files that are only ever a help, replaced as a whole: who reads one sees what was there before, or all that is new. A
//! loss of power may take either.

use std::path::{Path, PathBuf};
use std::{fs, io, process};

/// Replaces a file.
pub fn replace(file: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut new = file.as_os_str().to_owned();
    new.push(format!(".new-{}", process::id()));
    let new = PathBuf::from(new);
    fs::write(&new, bytes).and_then(|()| fs::rename(&new, file))
}
