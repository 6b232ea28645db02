//! [`OpenDescription`]: an open file or directory, as POSIX calls what descriptors share: offset, flags and file.

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix_futex_sync::{Mutex, MutexGuard, RwLock};
use terrace::files::{File, Stat};
use terrace_prefix::locks::LockFile;

use crate::asked::SyncMoment;
use crate::errors::{CallResult, refuse};
use crate::note::{MAX_PATH_BYTES, NotePage};
use crate::{asked, opened, written};

/// The flags that a note keeps.
const KEPT_FLAGS: c_int =
    libc::O_ACCMODE | libc::O_APPEND | libc::O_PATH | libc::O_NONBLOCK | libc::O_DIRECTORY | libc::O_SYNC;

/// An open file or directory of the store.
pub struct OpenDescription {
    note: NotePage,
    /// The file in this process: opened when it is needed, if another process opened the description.
    file: OnceLock<File>,
    /// The path below the prefix. A leaf, held for a copy or a replacement.
    path: RwLock<Vec<u8>>,
    /// The lock file, once a lock was asked for.
    pub lock_file: OnceLock<LockFile>,
    /// Whether this process has written to the file, and whether it has since `MPI_Init`. Relaxed: a program that orders its writes, and the
    /// calls that look at them, orders these, too.
    is_written: AtomicBool,
    is_noted: AtomicBool,
    /// Held by a thread of this process that uses the offset, until it has moved it on.
    offset_lock: Mutex<()>,
}

impl OpenDescription {
    /// Describes a file that was just opened, or a directory if there is none. Returns its descriptor, too.
    pub fn new(path: &[u8], file: Option<File>, flags: c_int) -> CallResult<(OpenDescription, c_int)> {
        if path.len() > MAX_PATH_BYTES {
            return refuse(libc::ENAMETOOLONG);
        }
        let object = file.as_ref().map_or(0, File::id);
        let (note, fd) = NotePage::new(object, flags & KEPT_FLAGS, path, flags & libc::O_CLOEXEC != 0)?;
        Ok((OpenDescription::of(note, file), fd))
    }

    fn of(note: NotePage, file: Option<File>) -> OpenDescription {
        OpenDescription {
            path: RwLock::new(note.path().to_vec()),
            note,
            file: file.map(OnceLock::from).unwrap_or_default(),
            lock_file: OnceLock::new(),
            is_written: AtomicBool::new(false),
            is_noted: AtomicBool::new(false),
            offset_lock: Mutex::new(()),
        }
    }

    /// Finds the description of a descriptor that this process inherited.
    pub fn inherited(fd: c_int) -> Option<OpenDescription> {
        NotePage::inherited(fd).map(|note| OpenDescription::of(note, None))
    }

    /// Returns the same description for a forked process, which has neither the engine nor its locks. The original must be forgotten,
    /// not dropped: its note is this one's. The thread that forks holds the table's lock, under which paths change.
    pub fn forked(&self) -> OpenDescription {
        let copy = OpenDescription::of(self.note.forked(), None);
        if let Some(lock) = self.lock_file.get() {
            // SAFETY: the original is forgotten, so this is the only owner.
            let lock = unsafe { std::ptr::read(lock) };
            // It is empty, since it is new.
            let _ = copy.lock_file.set(lock);
        }
        copy
    }

    /// The flags of `open` that matter later. They and the offset are in a page that processes share. Relaxed: each is one number, and what
    /// orders the processes' calls orders these.
    pub fn flags(&self) -> c_int {
        self.note.flags.load(Ordering::Relaxed)
    }

    /// Changes the flags that `fcntl` may change.
    pub fn set_flags(&self, flags: c_int) {
        let changed = libc::O_APPEND | libc::O_NONBLOCK;
        self.note.flags.store(self.flags() & !changed | flags & changed, Ordering::Relaxed);
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.object() == 0
    }

    /// The object's number, which is 0 for a directory.
    pub fn object(&self) -> u64 {
        self.note.object
    }

    /// The path below the prefix.
    pub fn path(&self) -> Vec<u8> {
        self.path.read().clone()
    }

    /// Notes that the file was renamed. Called under the table's lock, so no fork reads half a path.
    pub fn move_to(&self, path: &[u8]) {
        let mut own = self.path.write();
        // SAFETY: `own` is locked.
        unsafe { self.note.change(|note| note.set_path(path)) };
        *own = path.to_vec();
    }

    /// Returns the file, opened in this process.
    pub fn file(&self) -> CallResult<&File> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        if self.is_directory() {
            return refuse(libc::EISDIR);
        }
        let file = opened::get()?.files.open(&self.path())?;
        if file.id() != self.object() {
            return refuse(libc::ESTALE);
        }
        Ok(self.file.get_or_init(|| file))
    }

    /// Returns the file if bytes may be read.
    pub fn readable(&self) -> CallResult<&File> {
        let flags = self.flags();
        match flags & libc::O_PATH != 0 || flags & libc::O_ACCMODE == libc::O_WRONLY {
            true => refuse(libc::EBADF),
            false => self.file(),
        }
    }

    /// Returns the file for a write, if bytes may be written.
    pub fn writable(&self) -> CallResult<&File> {
        let flags = self.flags();
        if flags & libc::O_PATH != 0 || flags & libc::O_ACCMODE == libc::O_RDONLY {
            return refuse(libc::EBADF);
        }
        if !self.is_written.load(Ordering::Relaxed) {
            self.is_written.store(true, Ordering::Relaxed);
        }
        if !self.is_noted.load(Ordering::Relaxed) && written::is_noting() {
            self.is_noted.store(true, Ordering::Relaxed);
            written::note(self.object());
        }
        self.file()
    }

    /// Returns the attributes.
    pub fn stat(&self) -> CallResult<Stat> {
        match self.is_directory() {
            true => Ok(opened::get()?.files.stat(&self.path())?),
            false => Ok(self.file()?.stat()?),
        }
    }

    /// Writes buffered bytes, if this process may have any.
    pub fn flush(&self) -> CallResult<()> {
        match self.file.get() {
            Some(file) => Ok(file.flush()?),
            None => Ok(()),
        }
    }

    /// Writes buffered bytes when a descriptor is closed, and makes them durable if closed files have to be.
    pub fn finish(&self) -> CallResult<()> {
        match self.file.get() {
            Some(file) if self.is_written.load(Ordering::Relaxed) && asked::sync_moment() == SyncMoment::Close => {
                Ok(file.sync()?)
            }
            _ => self.flush(),
        }
    }

    /// Waits for the other threads that use the offset.
    pub fn lock_offset(&self) -> MutexGuard<'_, ()> {
        self.offset_lock.lock()
    }

    /// The offset of the next byte.
    pub fn offset(&self) -> i64 {
        self.note.offset.load(Ordering::Relaxed)
    }

    /// Changes the offset.
    pub fn set_offset(&self, offset: i64) {
        self.note.offset.store(offset, Ordering::Relaxed);
    }

    /// Moves the offset on, also for the other processes, and returns the one before.
    pub fn advance(&self, length: i64) -> i64 {
        self.note.offset.fetch_add(length, Ordering::Relaxed)
    }
}
