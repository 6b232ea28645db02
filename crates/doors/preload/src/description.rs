//! [`OpenDescription`]: an open file or directory, as POSIX calls what descriptors share: offset, flags and file.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

use rustix_futex_sync::{Mutex, MutexGuard, RwLock};
use terrace::files::{File, Stat};

use crate::errors::{CallResult, ErrorNumber, of_kernel, refuse};
use crate::{kernel, opened, real};

/// The first bytes of a note.
const NOTE_MARK: u64 = u64::from_le_bytes(*b"terrace1");
/// The longest path in a note; that of a key is shorter.
const MAX_PATH_BYTES: usize = 2048;
/// The flags that a note keeps.
const KEPT_FLAGS: c_int = libc::O_ACCMODE | libc::O_APPEND | libc::O_PATH | libc::O_NONBLOCK | libc::O_DIRECTORY;

/// The part of a description that its processes share, in a page that they all have mapped.
#[repr(C)]
struct OpenNote {
    mark: u64,
    /// The object's number, which is 0 for a directory.
    object: u64,
    offset: AtomicI64,
    flags: AtomicI32,
    path_length: u32,
    path: [u8; MAX_PATH_BYTES],
}

/// An open file or directory of the store.
pub struct OpenDescription {
    note: NonNull<OpenNote>,
    /// The file in this process: opened when it is needed, if another process opened the description.
    file: OnceLock<File>,
    /// The path below the prefix. A leaf, held for a copy or a replacement.
    path: RwLock<Vec<u8>>,
    /// The descriptor of the lock file, once a lock was asked for.
    pub lock_file: OnceLock<OwnedFd>,
    /// Held by a thread of this process that uses the offset, until it has moved it on.
    turn: Mutex<()>,
}

// SAFETY: the note stays mapped as long as the description lives; its changing parts are atomic, and the path in it changes under `path`.
unsafe impl Send for OpenDescription {}
// SAFETY: as above.
unsafe impl Sync for OpenDescription {}

impl Drop for OpenDescription {
    fn drop(&mut self) {
        // SAFETY: it is this description's own mapping, which nobody uses any more.
        unsafe { libc::munmap(self.note.as_ptr().cast(), size_of::<OpenNote>()) };
    }
}

impl OpenDescription {
    /// Describes a file that was just opened, or a directory if there is none. Returns its descriptor, too.
    pub fn new(path: &[u8], file: Option<File>, flags: c_int) -> CallResult<(OpenDescription, c_int)> {
        if path.len() > MAX_PATH_BYTES {
            return refuse(libc::ENAMETOOLONG);
        }
        let fd = new_page()?;
        let made = map(fd).and_then(|note| {
            // SAFETY: the page is new, nobody else has it, and zeros are a valid note.
            unsafe {
                let note = &mut *note.as_ptr();
                note.object = file.as_ref().map_or(0, File::id);
                *note.flags.get_mut() = flags & KEPT_FLAGS;
                note.path_length = path.len() as u32;
                note.path[..path.len()].copy_from_slice(path);
                note.mark = NOTE_MARK;
            }
            only_as_path(fd, flags & libc::O_CLOEXEC != 0)?;
            Ok(OpenDescription::of(note, path.to_vec(), file))
        });
        match made {
            Ok(description) => Ok((description, fd)),
            Err(error) => {
                // SAFETY: the descriptor is ours, and is not used after this.
                unsafe { real::close(fd) };
                Err(error)
            }
        }
    }

    fn of(note: NonNull<OpenNote>, path: Vec<u8>, file: Option<File>) -> OpenDescription {
        OpenDescription {
            note,
            file: file.map(OnceLock::from).unwrap_or_default(),
            path: RwLock::new(path),
            lock_file: OnceLock::new(),
            turn: Mutex::new(()),
        }
    }

    /// Finds the description of a descriptor that this process inherited.
    pub fn inherited(fd: c_int) -> Option<OpenDescription> {
        let page = reopen(fd, libc::O_RDWR).ok()?;
        let length = kernel::stat_open(page.as_raw_fd()).map(|stat| stat.st_size);
        if length != Some(size_of::<OpenNote>() as i64) {
            return None;
        }
        let note = map(page.as_raw_fd()).ok()?;
        // SAFETY: the file is as long as a note, and all bytes are valid in one. Its path does not change meanwhile: see `move_to`.
        let path = unsafe {
            let note = &*note.as_ptr();
            let path = note.path.get(..note.path_length as usize);
            path.filter(|_| note.mark == NOTE_MARK).map(<[u8]>::to_vec)
        };
        match path {
            Some(path) => Some(OpenDescription::of(note, path, None)),
            None => {
                // SAFETY: the mapping was made above, and is not used.
                unsafe { libc::munmap(note.as_ptr().cast(), size_of::<OpenNote>()) };
                None
            }
        }
    }

    /// Returns the same description for a forked process, which has neither the engine nor its locks. The original must be forgotten,
    /// not dropped: its note is this one's.
    pub fn forked(&self) -> OpenDescription {
        // SAFETY: the thread that forks holds the table's lock, under which paths change (`move_to`).
        let path = unsafe {
            let note = &*self.note.as_ptr();
            note.path.get(..note.path_length as usize).unwrap_or_default().to_vec()
        };
        let copy = OpenDescription::of(self.note, path, None);
        if let Some(lock) = self.lock_file.get() {
            // SAFETY: the original is forgotten, so this is the only owner.
            let lock = unsafe { OwnedFd::from_raw_fd(lock.as_raw_fd()) };
            // It is empty, since it is new.
            let _ = copy.lock_file.set(lock);
        }
        copy
    }

    fn note(&self) -> &OpenNote {
        // SAFETY: it is mapped as long as `self` lives.
        unsafe { self.note.as_ref() }
    }

    /// The flags of `open` that matter later.
    pub fn flags(&self) -> c_int {
        self.note().flags.load(Ordering::Relaxed)
    }

    /// Changes the flags that `fcntl` may change.
    pub fn set_flags(&self, flags: c_int) {
        let changed = libc::O_APPEND | libc::O_NONBLOCK;
        self.note().flags.store(self.flags() & !changed | flags & changed, Ordering::Relaxed);
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.object() == 0
    }

    /// The object's number, which is 0 for a directory.
    pub fn object(&self) -> u64 {
        self.note().object
    }

    /// The path below the prefix.
    pub fn path(&self) -> Vec<u8> {
        self.path.read().clone()
    }

    /// Notes that the file was renamed. Called under the table's lock, so no fork reads half a path.
    pub fn move_to(&self, path: &[u8]) {
        let mut own = self.path.write();
        if path.len() <= MAX_PATH_BYTES {
            // SAFETY: the note is mapped. Only a starting process reads the path there, and at worst fails to open the file.
            unsafe {
                let note = self.note.as_ptr();
                (&mut (*note).path)[..path.len()].copy_from_slice(path);
                (*note).path_length = path.len() as u32;
            }
        }
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

    /// Returns the file if bytes may be written.
    pub fn writable(&self) -> CallResult<&File> {
        let flags = self.flags();
        match flags & libc::O_PATH != 0 || flags & libc::O_ACCMODE == libc::O_RDONLY {
            true => refuse(libc::EBADF),
            false => self.file(),
        }
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

    /// Waits for the other threads that use the offset.
    pub fn take_turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// The offset of the next byte.
    pub fn offset(&self) -> i64 {
        self.note().offset.load(Ordering::Relaxed)
    }

    /// Changes the offset.
    pub fn set_offset(&self, offset: i64) {
        self.note().offset.store(offset, Ordering::Relaxed);
    }

    /// Moves the offset on, also for the other processes, and returns the one before.
    pub fn advance(&self, length: i64) -> i64 {
        self.note().offset.fetch_add(length, Ordering::Relaxed)
    }
}

/// Makes a file of the length of a note, in memory.
fn new_page() -> CallResult<c_int> {
    // Kernels before 6.3 do not know the flag; later ones may insist on it.
    let name = c"terrace-open".as_ptr();
    // SAFETY: the name ends with a zero byte.
    let fd = unsafe {
        of_kernel(libc::memfd_create(name, libc::MFD_CLOEXEC | libc::MFD_NOEXEC_SEAL))
            .or_else(|_| of_kernel(libc::memfd_create(name, libc::MFD_CLOEXEC)))?
    };
    // SAFETY: the descriptor is ours.
    match unsafe { libc::syscall(libc::SYS_ftruncate, fd, size_of::<OpenNote>()) } {
        0 => Ok(fd),
        _ => {
            let number = crate::errors::error_number();
            // SAFETY: as above.
            unsafe { real::close(fd) };
            refuse(number)
        }
    }
}

fn map(fd: c_int) -> CallResult<NonNull<OpenNote>> {
    let (length, protection) = (size_of::<OpenNote>(), libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: the system chooses the place of the mapping.
    let at = unsafe { real::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, fd, 0) };
    let at = NonNull::new(at).filter(|at| at.as_ptr() != libc::MAP_FAILED).ok_or(ErrorNumber(libc::ENOMEM))?;
    Ok(at.cast::<OpenNote>())
}

/// Opens the file of a descriptor once more.
fn reopen(fd: c_int, flags: c_int) -> CallResult<OwnedFd> {
    let mut name = [0u8; 32];
    let text = format_descriptor(fd, &mut name);
    // SAFETY: the name ends with a zero byte, and the new descriptor has no other owner.
    unsafe {
        let new = of_kernel(real::openat(libc::AT_FDCWD, text.cast(), flags | libc::O_CLOEXEC, 0))?;
        Ok(OwnedFd::from_raw_fd(new))
    }
}

/// Writes `/proc/self/fd/FD` and a zero byte.
fn format_descriptor(fd: c_int, name: &mut [u8; 32]) -> *const c_void {
    use std::io::Write;
    // Thirty-one bytes suffice for the longest number.
    let _ = write!(&mut name[..31], "/proc/self/fd/{fd}");
    name.as_ptr().cast()
}

/// Replaces the file behind a descriptor by an `O_PATH` opening of it: no call reads, writes or maps that.
fn only_as_path(fd: c_int, closes_on_exec: bool) -> CallResult<()> {
    let path = reopen(fd, libc::O_PATH)?;
    let flags = if closes_on_exec { libc::O_CLOEXEC } else { 0 };
    // SAFETY: both descriptors are ours.
    of_kernel(unsafe { real::dup3(path.as_raw_fd(), fd, flags) }).map(drop)
}
