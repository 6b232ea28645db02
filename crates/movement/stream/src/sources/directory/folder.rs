//! Access to the watched directory's files by their names below it. It follows no symbolic link, so no name leads out.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use crate::open_folder::{leads_to, open_folder};

/// The longest file name that file systems accept.
const MAX_NAME_BYTES: usize = 255;
/// The suffix of a file's hidden name while it is being removed.
const HIDDEN_SUFFIX: &[u8] = b".terrace-flush";

/// An open directory.
pub struct Folder(OwnedFd);

impl Folder {
    pub fn open(root: &Path) -> io::Result<Folder> {
        open_folder(root).map(Folder)
    }

    /// Whether the path leads to it. Fails if the path leads to nothing.
    pub fn is_at(&self, root: &Path) -> io::Result<bool> {
        leads_to(root, &self.0)
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

/// Returns the hidden name, in the same folder, that a file gets while it is being removed. It contains the file's inode, by which a
/// run without a record knows that the name was not given by somebody else.
pub fn hidden_name(name: &[u8], inode: u64) -> Vec<u8> {
    hide(name, format!(".{inode:x}").as_bytes(), inode)
}

/// Returns the hidden name that version 0.1 gave to a file.
pub fn older_hidden_name(name: &[u8], inode: u64) -> Vec<u8> {
    hide(name, b"", inode)
}

fn hide(name: &[u8], mark: &[u8], inode: u64) -> Vec<u8> {
    let start = name.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (folder, last) = name.split_at(start);
    let mut hidden = [folder, b".", last, mark, HIDDEN_SUFFIX].concat();
    if hidden.len() - start > MAX_NAME_BYTES {
        hidden = [folder, format!(".{inode:x}").as_bytes(), HIDDEN_SUFFIX].concat();
    }
    hidden
}

/// The origin of a name like that of a hidden file.
#[derive(Debug, PartialEq, Eq)]
pub enum Hidden {
    /// A stream gave it to the file, which had this name before.
    Of(OsString),
    /// It may be a user's file, or one of version 0.1.
    Doubtful,
}

/// Reads the name of a file with this inode. `None` if it is not like that of a hidden file.
pub fn read_hidden(hidden: &OsStr, inode: u64) -> Option<Hidden> {
    let inner = hidden.as_bytes().strip_prefix(b".")?.strip_suffix(HIDDEN_SUFFIX)?;
    let name = inner.strip_suffix(format!(".{inode:x}").as_bytes()).filter(|name| !name.is_empty());
    Some(name.map_or(Hidden::Doubtful, |name| Hidden::Of(OsString::from_vec(name.to_vec()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_that_got_a_hidden_name_has_it() {
        let read = |name: &[u8], inode| read_hidden(OsStr::from_bytes(name), inode);
        let hidden = hidden_name(b"q", 0x2a);
        assert_eq!(hidden, b".q.2a.terrace-flush");
        assert_eq!(read(&hidden, 0x2a), Some(Hidden::Of("q".into())));
        assert_eq!(read(&hidden, 0x2b), Some(Hidden::Doubtful));
        assert_eq!(hidden_name(b"d/e/q.2a", 7), b"d/e/.q.2a.7.terrace-flush");
        let (users, long) = (older_hidden_name(b"q", 0x2a), hidden_name(&[b'n'; 250], 0x2a));
        assert_eq!((&*users, &*long), (&b".q.terrace-flush"[..], &b".2a.terrace-flush"[..]));
        assert!([users, long].iter().all(|name| read(name, 0x2a) == Some(Hidden::Doubtful)));
        assert_eq!(read(b".q", 1), None);
    }
}
