//! Access to the watched directory's files by their names below it. It follows no symbolic link, so no name leads out.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

/// The longest file name that file systems accept.
const MAX_NAME_BYTES: usize = 255;
/// The suffix of a file's hidden name while it is being removed.
const HIDDEN_SUFFIX: &[u8] = b".terrace-flush";

/// An open directory.
pub struct Folder(OwnedFd);

impl Folder {
    pub fn open(root: &Path) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Folder(rustix::fs::open(root, flags, Mode::empty())?))
    }

    fn at(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let open = || rustix::fs::openat2(&self.0, path, flags | OFlags::CLOEXEC, Mode::empty(), within);
        Ok(rustix::io::retry_on_intr(open)?)
    }

    /// Opens the file for reading, without waiting for a pipe's writer or another process's lease.
    pub fn file(&self, name: &[u8]) -> io::Result<File> {
        self.at(Path::new(OsStr::from_bytes(name)), OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK)
            .map(File::from)
    }

    /// Returns the folder that holds a file, and the file's name there.
    fn above<'a>(&self, name: &'a [u8]) -> io::Result<(OwnedFd, &'a OsStr)> {
        let path = Path::new(OsStr::from_bytes(name));
        let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let last = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.at(above, OFlags::PATH | OFlags::DIRECTORY)?, last))
    }

    /// Renames a file within its folder. Never replaces another file.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        let (folder, from) = self.above(from)?;
        let (_, to) = self.above(to)?;
        match rustix::fs::renameat_with(&folder, from, &folder, to, RenameFlags::NOREPLACE) {
            // Some network file systems do not support the flag against replacement. Checking first is safe, because only this module
            // creates such names.
            Err(Errno::INVAL | Errno::NOSYS) => match rustix::fs::statat(&folder, to, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => Ok(rustix::fs::renameat(&folder, from, &folder, to)?),
                Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                Err(e) => Err(e.into()),
            },
            renamed => Ok(renamed?),
        }
    }

    pub fn unlink(&self, name: &[u8]) -> io::Result<()> {
        let (folder, last) = self.above(name)?;
        Ok(rustix::fs::unlinkat(&folder, last, AtFlags::empty())?)
    }
}

/// Returns the hidden name, in the same folder, that a file gets while it is being removed.
pub fn hidden_name(name: &[u8], inode: u64) -> Vec<u8> {
    let start = name.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (folder, last) = name.split_at(start);
    let mut hidden = [folder, b".", last, HIDDEN_SUFFIX].concat();
    if hidden.len() - start > MAX_NAME_BYTES {
        hidden = [folder, format!(".{inode:x}").as_bytes(), HIDDEN_SUFFIX].concat();
    }
    hidden
}

/// Returns the name that a file had before it got the hidden one.
pub fn name_of_hidden(hidden: &OsStr) -> Option<OsString> {
    let name = hidden.as_bytes().strip_prefix(b".")?.strip_suffix(HIDDEN_SUFFIX)?;
    (!name.is_empty()).then(|| OsString::from_vec(name.to_vec()))
}
