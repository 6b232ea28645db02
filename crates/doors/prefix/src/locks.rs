//! Files that stand for objects in `flock` and `fcntl`, so that the kernel keeps locks for all processes of the machine.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

use crate::settings;

/// The folder of the lock files in the store's directory. The files are named after the objects' numbers, and stay.
const LOCK_FOLDER: &str = "preload/locks";

/// Opens the lock file of an object. It is empty.
pub fn open(object: u64) -> io::Result<File> {
    let dir = settings::store_dir().ok_or_else(|| io::Error::from_raw_os_error(libc::ENOLCK))?;
    let folder = dir.join(LOCK_FOLDER);
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    let path = folder.join(object.to_string());
    File::options().create(true).truncate(false).read(true).write(true).mode(0o600).open(path)
}
