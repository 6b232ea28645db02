//! Regular files, where somebody may have put something else by their name.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file for reading. Opening a pipe in the usual way would wait for its writer, and reading it for bytes.
///
/// # Errors
/// `InvalidData` if the name is that of anything but a regular file or a link to one.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} is not a file", path.display()))),
    }
}

/// Reads a whole regular file.
///
/// # Errors
/// As [`open_regular`].
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open_regular(path)?;
    let mut bytes = Vec::with_capacity(file.metadata()?.len() as usize);
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
