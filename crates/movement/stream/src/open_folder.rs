//! An open directory, and the path that led to it: the directory may be moved, and another one mounted or made in its place.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Opens a directory.
pub fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Whether the path leads to the open directory. Fails if it leads to nothing.
pub fn leads_to(path: &Path, folder: impl AsFd) -> io::Result<bool> {
    // No other directory can have these numbers while this one is open.
    let (named, open) = (rustix::fs::stat(path)?, rustix::fs::fstat(folder)?);
    Ok((named.st_dev, named.st_ino) == (open.st_dev, open.st_ino))
}
