//! Directories of the store as directories of the kernel's, for programs that list them.
//!
//! Each opening makes a directory with empty entries of the right names and types. It is removed when the program has ended.

use std::collections::BTreeMap;
use std::ffi::{OsStr, c_int};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use terrace::{Files, Kind};
use terrace_prefix::folders;

/// The number of names that one page of a listing holds.
const PAGE_NAME_COUNT: usize = 1024;

/// The directories that were listed.
pub struct ShownDirectories {
    /// A folder of this process alone.
    folder: PathBuf,
    /// The folder's lock: no other process removes it.
    _lock: File,
    /// The path in the store of each listing, by the listing's number.
    shown: BTreeMap<u64, Vec<u8>>,
}

impl ShownDirectories {
    /// Directories are made in a folder of their own below this one, which is removed at the end. Those that ended processes have left
    /// are removed now.
    pub fn new(listings: &Path) -> io::Result<ShownDirectories> {
        fs::create_dir_all(listings)?;
        for left in fs::read_dir(listings)? {
            let left = left?.path();
            if let Ok(_locked) = folders::lock_unused(&left) {
                // What stays is empty, and the next supervisor tries again.
                let _ = fs::remove_dir_all(&left);
            }
        }
        let folder = listings.join(std::process::id().to_string());
        Ok(ShownDirectories { _lock: folders::make(&folder)?, folder, shown: BTreeMap::new() })
    }

    /// The folder in which directories are made.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path in the store of a directory of the kernel's, or of one below it, if it is a listing.
    pub fn shown(&self, directory: &[u8]) -> Option<Vec<u8>> {
        let rest = directory.strip_prefix(self.folder.as_os_str().as_bytes())?.strip_prefix(b"/")?;
        let (number, below) = match rest.iter().position(|&byte| byte == b'/') {
            Some(at) => (&rest[..at], &rest[at..]),
            None => (rest, &b""[..]),
        };
        let path = self.shown.get(&std::str::from_utf8(number).ok()?.parse().ok()?)?;
        Some([path.as_slice(), below].concat())
    }

    /// Opens a directory of the store.
    ///
    /// # Errors
    /// The number of the kernel's error.
    pub fn open(&mut self, files: &Files, path: &[u8], flags: c_int) -> Result<OwnedFd, c_int> {
        let number = self.shown.len() as u64;
        let listing = self.folder.join(number.to_string());
        fill(files, path, &listing)?;
        self.shown.insert(number, path.to_vec());
        let kept = OFlags::from_bits_retain((flags & (libc::O_PATH | libc::O_NONBLOCK)) as u32);
        open(&listing, kept | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(|error| error.raw_os_error())
    }
}

impl Drop for ShownDirectories {
    fn drop(&mut self) {
        // What stays is empty, and the next supervisor removes it.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn fill(files: &Files, path: &[u8], listing: &Path) -> Result<(), c_int> {
    let number = |error: io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    fs::create_dir(listing).map_err(number)?;
    let mut from = Vec::new();
    loop {
        let (page, next) = files.list(path, &from, PAGE_NAME_COUNT).map_err(|error| error.errno())?;
        for entry in page {
            let at = listing.join(OsStr::from_bytes(&entry.name));
            match entry.kind {
                Kind::File => File::create(at).map(drop),
                Kind::Directory => fs::create_dir(at),
                Kind::Symlink => symlink(".", at),
            }
            .map_err(number)?;
        }
        match next {
            Some(next) => from = next,
            None => return Ok(()),
        }
    }
}
