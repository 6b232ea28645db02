//! An open directory that receives files.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{File, Metadata, Permissions, TryLockError};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix_futex_sync::Mutex;
use terrace::Attributes;

use crate::Failure;
use crate::destinations::part::part_name;
use crate::destinations::{End, FolderId, Outcome};
use crate::location::Mount;
use crate::open_folder::{leads_to, open_folder};
use crate::request::Name;
use crate::runs::Run;

/// The number of files that are kept open.
pub const MAX_OPEN_FILES: usize = 512;

/// An open directory. Neither a name nor a symbolic link can lead out of it.
pub struct Tree {
    root: PathBuf,
    folder: OwnedFd,
    /// The number of this directory among those that the path has led to.
    pub number: u64,
    /// The mount that holds it; `None` where the system does not say.
    pub mount: Option<Mount>,
    /// Open files by name, as a cache. Like the next two locks it is a leaf, held for a lookup or an update, never during I/O.
    open: Mutex<HashMap<Name, Arc<File>>>,
    /// The hidden files in which parts gather, by final name. Each has a file lock, so that no other stream writes to it.
    begun: Mutex<HashMap<Name, Arc<File>>>,
    /// Folders whose names this run knows to be durable.
    lasting: Mutex<HashSet<PathBuf>>,
}

impl Tree {
    /// Opens the directory `root`.
    pub fn open(root: &Path, number: u64) -> io::Result<Tree> {
        Ok(Tree {
            root: root.to_owned(),
            folder: open_folder(root)?,
            number,
            mount: Mount::of(root),
            open: Mutex::default(),
            begun: Mutex::default(),
            lasting: Mutex::default(),
        })
    }

    /// Whether its path still leads to it.
    pub fn is_at_its_path(&self) -> io::Result<bool> {
        leads_to(&self.root, &self.folder)
    }

    fn at(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let open = || rustix::fs::openat2(&self.folder, path, flags | OFlags::CLOEXEC, mode(flags), within);
        Ok(rustix::io::retry_on_intr(open)?)
    }

    /// Opens the folder at `path`, creating it if it is missing, and makes its name durable.
    fn folder(&self, path: &Path) -> io::Result<OwnedFd> {
        const FOLDER_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);
        let Some(name) = path.file_name() else { return self.at(Path::new("."), FOLDER_FLAGS) };
        if self.lasting.lock().contains(path)
            && let Ok(folder) = self.at(path, FOLDER_FLAGS)
        {
            return Ok(folder);
        }
        let above = self.folder(path.parent().unwrap_or(Path::new("")))?;
        match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
        // An existing folder may come from a process that died before this sync, so sync it in every case.
        rustix::fs::fsync(&above)?;
        self.lasting.lock().insert(path.to_owned());
        self.at(path, FOLDER_FLAGS)
    }

    /// Opens the file, creating it if it is missing, and makes its name durable.
    fn file(&self, name: &[u8]) -> io::Result<Arc<File>> {
        if let Some(open) = self.open.lock().get(name) {
            return Ok(open.clone());
        }
        let path = Path::new(OsStr::from_bytes(name));
        let above = self.folder(path.parent().unwrap_or(Path::new("")))?;
        let file = match self.at(path, OFlags::RDWR | OFlags::NONBLOCK) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.at(path, OFlags::RDWR | OFlags::CREATE)?,
            opened => opened?,
        };
        // The file may be new: without its name, a power cut would take bytes that the stream's mark says are delivered.
        rustix::fs::fsync(&above)?;
        let file = Arc::new(File::from(file));
        regular(&file)?;
        // If two threads opened the file, either handle will do: the file has no state in it but the lock of `begun`.
        self.keep_open(name, &file);
        Ok(file)
    }

    fn keep_open(&self, name: &[u8], file: &Arc<File>) {
        let mut open = self.open.lock();
        if open.len() >= MAX_OPEN_FILES {
            open.clear();
        }
        open.insert(name.into(), file.clone());
    }

    /// Opens and locks the hidden file in which the parts of `name` gather, for a part at `offset`.
    fn begin_parts(&self, name: &[u8], offset: u64) -> io::Result<Arc<File>> {
        if let Some(begun) = self.begun.lock().get(name) {
            return Ok(begun.clone());
        }
        if offset > 0 {
            // The parts before are in another directory. After this error the file is delivered from its first byte.
            return Err(io::Error::other("its first part is not there"));
        }
        let path = Path::new(OsStr::from_bytes(name));
        self.folder(path.parent().unwrap_or(Path::new("")))?;
        // Before the first byte is written: a name that leads elsewhere, or to something that is no file, is never replaced.
        match self.at(path, OFlags::PATH) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            found => {
                regular(&File::from(found?))?;
            }
        }
        let part = part_name(name);
        loop {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let file = File::from(self.at(Path::new(OsStr::from_bytes(&part)), flags)?);
            regular(&file)?;
            // Tried only: waiting would hold up a worker of the pipeline. The lock ends with the file's last handle.
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(io::Error::other("another process or stream writes to it now"));
                }
                // On a file system without locks, streams that write to the same name are not kept apart.
                Err(TryLockError::Error(error)) => tracing::debug!("{} cannot be locked: {error}", self.root.display()),
            }
            // Before it was locked here, another stream may have completed it and given it its final name.
            if self.is_there(&part, &file)? {
                let file = Arc::new(file);
                self.begun.lock().insert(name.into(), file.clone());
                return Ok(file);
            }
        }
    }

    /// Gives a complete file its final name, in place of any file there.
    fn name_parts(&self, name: &[u8], file: &Arc<File>) -> io::Result<()> {
        let (path, part) = (Path::new(OsStr::from_bytes(name)), part_name(name));
        let last = |path: &Path| path.file_name().map(OsStr::to_owned).ok_or(io::ErrorKind::InvalidInput);
        let (from, to) = (last(Path::new(OsStr::from_bytes(&part)))?, last(path)?);
        let above = self.folder(path.parent().unwrap_or(Path::new("")))?;
        // The bytes and attributes are synced by now. Otherwise a power cut could leave a part of the file under its final name.
        rustix::fs::renameat(&above, from, &above, to)?;
        self.keep_open(name, file);
        Ok(rustix::fs::fsync(&above)?)
    }

    fn end_parts(&self, name: &[u8]) {
        // Removed first: the next part then locks the file again.
        if let Some(file) = self.begun.lock().remove(name) {
            // An ignored error leaves no lock behind: there was none, or it ends when the file is closed.
            let _ = file.unlock();
        }
    }

    fn outcome<T>(&self, name: &[u8], doing: &str, done: io::Result<T>) -> Outcome<T> {
        done.map_err(|e| {
            // After any error, check the destination again before the next write.
            self.open.lock().remove(name);
            let path = self.root.join(OsStr::from_bytes(name));
            let reason = match Errno::from_io_error(&e) {
                // The system's words for this are "Invalid cross-device link".
                Some(Errno::XDEV) => format!(
                    "{doing} {}: a symbolic link on the way leads out of {}, and nothing is written there; remove the link, or \
                     deliver to the directory that it leads to",
                    path.display(),
                    self.root.display()
                ),
                _ => format!("{doing} {}: {e}", path.display()),
            };
            match Errno::from_io_error(&e) {
                Some(Errno::ISDIR | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NAMETOOLONG) => {
                    Failure::Never(reason)
                }
                None if e.kind() == io::ErrorKind::IsADirectory => Failure::Never(reason),
                _ => Failure::Later(reason),
            }
        })
    }

    /// Whether the name still refers to the file that was written.
    fn is_there(&self, name: &[u8], file: &File) -> io::Result<bool> {
        let named = match rustix::fs::statat(self.folder.as_fd(), OsStr::from_bytes(name), AtFlags::empty()) {
            Ok(named) => named,
            Err(Errno::NOENT) => return Ok(false),
            Err(e) => return Err(e.into()),
        };
        let written = file.metadata()?;
        Ok((named.st_dev, named.st_ino) == (written.dev(), written.ino()))
    }

    pub fn is_file(&self, name: &[u8], device: u64, inode: u64) -> bool {
        let found =
            self.at(Path::new(OsStr::from_bytes(name)), OFlags::PATH).and_then(|found| File::from(found).metadata());
        found.is_ok_and(|found| (found.dev(), found.ino()) == (device, inode))
    }

    pub fn length(&self, name: &[u8]) -> Outcome<Option<u64>> {
        let length = match self.at(Path::new(OsStr::from_bytes(name)), OFlags::PATH) {
            Ok(file) => regular(&File::from(file)).map(|metadata| metadata.len()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(e) => Err(e),
        };
        self.outcome(name, "looking at", length.map(Some))
    }

    /// Identifies the folder that holds the name; `None` if there is no such folder.
    pub fn folder_of(&self, name: &[u8]) -> Outcome<Option<FolderId>> {
        let above = Path::new(OsStr::from_bytes(name)).parent().filter(|above| !above.as_os_str().is_empty());
        let found = match self.at(above.unwrap_or(Path::new(".")), OFlags::PATH | OFlags::DIRECTORY) {
            Ok(folder) => File::from(folder).metadata().map(|metadata| Some(FolderId::of(&metadata))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        };
        self.outcome(name, "looking at the folder of", found)
    }

    pub fn write(&self, name: &[u8], runs: &[Run]) -> Outcome<()> {
        let write = || {
            let file = self.file(name)?;
            runs.iter().try_for_each(|run| file.write_all_at(&run.bytes, run.offset))
        };
        self.outcome(name, "writing", write())
    }

    pub fn write_part(&self, name: &[u8], runs: &[Run], end: Option<&End>) -> Outcome<()> {
        let offset = runs.first().map(|run| run.offset).or(end.map(|end| end.length)).unwrap_or(0);
        let write = || {
            let file = self.begin_parts(name, offset)?;
            runs.iter().try_for_each(|run| file.write_all_at(&run.bytes, run.offset))?;
            let Some(end) = end else { return Ok(()) };
            file.set_len(end.length)?;
            set_attributes(&file, &end.attributes)?;
            // Includes the attributes, which a data-only sync would not.
            file.sync_all()?;
            self.name_parts(name, &file)
        };
        let written = self.outcome(name, "writing", write());
        if end.is_some() || written.is_err() {
            self.end_parts(name);
        }
        written
    }

    pub fn set_length(&self, name: &[u8], length: u64) -> Outcome<()> {
        self.outcome(name, "cutting", self.file(name).and_then(|file| file.set_len(length)))
    }

    /// Whether parts of the file are there, and not all.
    pub fn has_begun(&self, name: &[u8]) -> bool {
        self.begun.lock().contains_key(name)
    }

    pub fn sync(&self, name: &[u8]) -> Outcome<()> {
        let sync = || {
            let file = self.file(name)?;
            // The pipeline commits the destination's progress after this. `file` has synced the name.
            file.sync_data()?;
            match self.is_there(name, &file)? {
                true => Ok(()),
                false => Err(io::Error::other("it was moved or deleted while it was written")),
            }
        };
        self.outcome(name, "syncing", sync())
    }
}

/// Returns the metadata of a regular file; fails for special files.
fn regular(file: &File) -> io::Result<Metadata> {
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok(metadata),
        false => Err(io::Error::new(io::ErrorKind::IsADirectory, "it is not a regular file")),
    }
}

fn set_attributes(file: &File, attributes: &Attributes) -> io::Result<()> {
    // Keep write permission for the owner, so that the file can be delivered again.
    file.set_permissions(Permissions::from_mode(attributes.mode & 0o777 | 0o200))?;
    let since = |nanoseconds: i64| Duration::from_nanos(nanoseconds.unsigned_abs());
    file.set_modified(match attributes.mtime {
        before if before < 0 => UNIX_EPOCH - since(before),
        after => UNIX_EPOCH + since(after),
    })
}

fn mode(flags: OFlags) -> Mode {
    if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o666) } else { Mode::empty() }
}
