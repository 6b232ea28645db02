//! A directory as an origin, such as one of a parallel file system.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, Dir, Mode, OFlags, Stat, openat, readlinkat};

use super::{Origin, OriginEntry, OriginKind, OriginReadError, age, outwait_step};

/// The longest step of a local file system's clock: a tick of the kernel, of at least 100 each second.
const CLOCK_STEP: Duration = Duration::from_millis(20);
/// A file whose times are older than this has the bytes of its times: a single write takes less.
const LONGEST_WRITE: Duration = Duration::from_secs(10);
/// The same as `CLOCK_STEP` for file systems that record whole seconds.
const COARSE_CLOCK_STEP: Duration = Duration::from_millis(1020);

/// A directory and what is below it. Symbolic links below it are shown and never followed.
#[derive(Debug)]
pub struct DirectoryOrigin {
    root: PathBuf,
    /// The inode of the directory, if it is known: another one is at its place while its file system is not mounted.
    inode: Option<u64>,
}

impl DirectoryOrigin {
    /// Returns the origin in a directory, which has this inode.
    pub fn new(root: &Path, inode: Option<u64>) -> DirectoryOrigin {
        DirectoryOrigin { root: root.to_owned(), inode }
    }

    /// Returns the inode of the directory.
    ///
    /// # Errors
    /// If it is no directory, or cannot be looked at.
    pub fn find_inode(&self) -> io::Result<u64> {
        Ok(File::from(self.open_root()?).metadata()?.ino())
    }

    fn open_root(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // Without it, nothing is known of the files: they may be there, and the file system not mounted.
        let root = openat(CWD, &self.root, flags, Mode::empty()).map_err(|errno| {
            io::Error::new(
                io::ErrorKind::NotConnected,
                format!("the directory cannot be opened: {}", io::Error::from(errno)),
            )
        })?;
        let inode = rustix::fs::fstat(&root)?.st_ino;
        match self.inode {
            Some(known) if known != inode => {
                let reason = "another directory is at its place; mount the file system, or add the origin again";
                Err(io::Error::new(io::ErrorKind::NotConnected, reason))
            }
            _ => Ok(root),
        }
    }

    /// Opens the folder above a path, and returns the last component. No symbolic link is followed on the way: it could lead out of the
    /// directory.
    fn open_above<'p>(&self, path: &'p [u8]) -> io::Result<(OwnedFd, &'p OsStr)> {
        let mut folder = self.open_root()?;
        let mut rest = path;
        while let Some(at) = rest.iter().position(|byte| *byte == b'/') {
            folder = open_folder(&folder, &rest[..at])?;
            rest = &rest[at + 1..];
        }
        Ok((folder, OsStr::from_bytes(rest)))
    }

    /// Reads a part of the path to which a link leads. A link itself never changes: another one takes its place.
    fn read_link(&self, path: &[u8], identity: &str, offset: u64, out: &mut [u8]) -> Result<(), OriginReadError> {
        let (above, name) = self.open_above(path)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let link = openat(&above, name, flags, Mode::empty()).map_err(io::Error::from)?;
        let stat = rustix::fs::fstat(&link).map_err(io::Error::from)?;
        if OriginEntry::of_stat(Vec::new(), &stat).is_none_or(|entry| entry.identity != identity) {
            return Err(OriginReadError::Changed);
        }
        let leads_to = readlinkat(&link, "", Vec::new()).map_err(io::Error::from)?.into_bytes();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = leads_to.get(start..start.saturating_add(out.len()));
        out.copy_from_slice(bytes.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn read_file(&self, path: &[u8], identity: &str, offset: u64, out: &mut [u8]) -> Result<(), OriginReadError> {
        let (above, name) = self.open_above(path)?;
        // It may have become a pipe, whose opening would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&above, name, flags, Mode::empty()).map_err(io::Error::from)?);
        let before = file.metadata()?;
        // A write in the same step as the last one would not change the times.
        outwait_step(changed_at(&before), step_of(changed_at(&before)));
        let before = file.metadata()?;
        if !before.is_file() || !is_same(&identity_of(&before), identity) {
            return Err(OriginReadError::Changed);
        }
        let read = file.read_exact_at(out, offset);
        let after = file.metadata()?;
        match read {
            _ if !is_same(&identity_of(&after), identity) => Err(OriginReadError::Changed),
            read => Ok(read?),
        }
    }
}

impl Origin for DirectoryOrigin {
    fn stat(&self, path: &[u8]) -> io::Result<Option<OriginEntry>> {
        if path.is_empty() {
            return Ok(OriginEntry::of_stat(Vec::new(), &rustix::fs::fstat(self.open_root()?)?));
        }
        let found = self.open_above(path).and_then(|(above, name)| {
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            Ok((name, rustix::fs::statat(&above, name, flags)?))
        });
        match found {
            Ok((name, stat)) => Ok(OriginEntry::of_stat(name.as_bytes().to_vec(), &stat)),
            Err(e) if is_absence(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn list(&self, folder: &[u8], found: &mut dyn FnMut(OriginEntry)) -> io::Result<()> {
        let folder = match folder {
            b"" => self.open_root()?,
            _ => {
                let (above, name) = self.open_above(folder)?;
                open_folder(&above, name.as_bytes())?
            }
        };
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            match rustix::fs::statat(&folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => OriginEntry::of_stat(name.to_bytes().to_vec(), &stat).into_iter().for_each(&mut *found),
                // It was removed meanwhile.
                Err(rustix::io::Errno::NOENT) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    fn read(&self, path: &[u8], identity: &str, offset: u64, out: &mut [u8]) -> Result<(), OriginReadError> {
        let read = match identity.starts_with(LINK_LETTER) {
            true => self.read_link(path, identity, offset, out),
            false => self.read_file(path, identity, offset, out),
        };
        match read {
            Err(OriginReadError::Io(e)) if is_absence(&e) => Err(OriginReadError::Changed),
            read => read,
        }
    }
}

/// Begins the identities of files.
const FILE_LETTER: char = 'f';
/// Begins the identities of files that were changed a moment ago. The kernel sets the times when a write begins, so bytes that are read
/// now may be older than the times.
pub const RECENT_LETTER: char = 'r';
/// Begins the identities of symbolic links.
const LINK_LETTER: char = 'l';

fn open_folder(above: &OwnedFd, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(above, OsStr::from_bytes(name), flags, Mode::empty())?)
}

/// Returns whether an error means that nothing is at a path that can be shown: not even a folder above it, or a link is there now.
fn is_absence(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP | libc::EINVAL | libc::ENXIO))
}

impl OriginEntry {
    /// Returns the entry of a file, or none for a pipe, a socket or a device.
    fn of_stat(name: Vec<u8>, stat: &Stat) -> Option<OriginEntry> {
        let kind = match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
            rustix::fs::FileType::RegularFile => OriginKind::File,
            rustix::fs::FileType::Directory => OriginKind::Folder,
            rustix::fs::FileType::Symlink => OriginKind::Link,
            _ => return None,
        };
        let modified = nanos(stat.st_mtime, stat.st_mtime_nsec as _);
        let times = Times { modified, changed: nanos(stat.st_ctime, stat.st_ctime_nsec as _) };
        let length = if kind == OriginKind::Folder { 0 } else { stat.st_size as u64 };
        let identity = match kind {
            OriginKind::File if is_recent(times.changed) => identity(RECENT_LETTER, length, stat.st_ino, &times),
            OriginKind::File => identity(FILE_LETTER, length, stat.st_ino, &times),
            OriginKind::Link => identity(LINK_LETTER, length, stat.st_ino, &times),
            OriginKind::Folder => String::new(),
        };
        Some(OriginEntry { name, kind, length, modified, mode: Some(stat.st_mode & 0o7777), identity })
    }
}

struct Times {
    modified: i64,
    changed: i64,
}

fn nanos(seconds: i64, nanos: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// The identity of a file's bytes. The time of change is part of it: a program may set the time of modification back after a write.
fn identity(letter: char, length: u64, inode: u64, times: &Times) -> String {
    let Times { modified, changed } = times;
    format!("{letter}{length:x}-{inode:x}-{modified:x}-{changed:x}")
}

fn identity_of(metadata: &Metadata) -> String {
    let times = Times { modified: nanos(metadata.mtime(), metadata.mtime_nsec()), changed: changed_at(metadata) };
    identity(FILE_LETTER, metadata.len(), metadata.ino(), &times)
}

/// Returns whether two identities of a file differ in nothing but whether it was changed a moment ago.
fn is_same(one: &str, other: &str) -> bool {
    one.get(1..) == other.get(1..)
}

/// Returns whether a write that began at a time may still be going on.
fn is_recent(changed: i64) -> bool {
    // A time in the future is that of another clock.
    age(changed).is_none_or(|age| age < LONGEST_WRITE)
}

fn changed_at(metadata: &Metadata) -> i64 {
    nanos(metadata.ctime(), metadata.ctime_nsec())
}

fn step_of(changed: i64) -> Duration {
    if changed % 1_000_000_000 == 0 { COARSE_CLOCK_STEP } else { CLOCK_STEP }
}
