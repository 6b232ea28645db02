//! Open files: copies for reading, and *spools*, which programs write instead of the store's files.
//!
//! Both are files without names. A spool is placed in the store at each close for writing; once nobody has it open for writing, it is
//! given up. Until then, all who open the file get the spool.

// The kernel's leases have no safe wrapper.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::fs::{Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, fchmod, futimens, open};
use terrace::Files;
use terrace::files::{FileError, Stat};

/// The number of bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;
/// Flags of `open` that only say how a name is found or made.
const NAME_FLAGS: c_int = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_NOFOLLOW | libc::O_DIRECTORY;
const NANOSECONDS_PER_SECOND: i64 = 1_000_000_000;

/// A file that is being written.
struct Spool {
    /// The path in the store. None once the file was removed there.
    path: Option<Vec<u8>>,
    /// The bytes, opened to be read: a lease tells whether anybody has them open for writing.
    bytes: File,
}

/// The files that are being written, by the number of the watch that tells when they are closed.
pub struct Spools {
    /// The directory whose file system holds spools and copies.
    folder: PathBuf,
    watcher: OwnedFd,
    spools: BTreeMap<c_int, Spool>,
}

/// The number of the kernel's error.
fn number(error: impl Into<io::Error>) -> c_int {
    error.into().raw_os_error().unwrap_or(libc::EIO)
}

impl Spools {
    /// Spools and copies are made on the file system of this directory.
    pub fn new(folder: PathBuf) -> io::Result<Spools> {
        let watcher = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Spools { folder, watcher, spools: BTreeMap::new() })
    }

    /// The descriptor that is ready when a spool was closed.
    pub fn watcher(&self) -> &OwnedFd {
        &self.watcher
    }

    fn find(&self, path: &[u8]) -> Option<&Spool> {
        self.spools.values().find(|spool| spool.path.as_deref() == Some(path))
    }

    /// Opens an existing file of the store.
    ///
    /// # Errors
    /// Of this and the other methods: the number of the kernel's error.
    pub fn open(&mut self, files: &Files, path: &[u8], stat: &Stat, flags: c_int) -> Result<OwnedFd, c_int> {
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let truncates = flags & libc::O_TRUNC != 0;
        if let Some(spool) = self.find(path) {
            let fd = again(&spool.bytes, flags)?;
            if truncates {
                rustix::fs::ftruncate(&again(&spool.bytes, libc::O_WRONLY)?, 0).map_err(number)?;
            }
            return Ok(fd);
        }
        let copy = self.unnamed()?;
        if !truncates {
            fill(files, path, &copy)?;
        }
        if truncates && !writes {
            files.open(path).and_then(|file| file.set_len(0)).map_err(|error| error.errno())?;
        }
        let fd = again(&copy, flags)?;
        fchmod(&copy, Mode::from_raw_mode(stat.mode & 0o7777)).map_err(number)?;
        if writes {
            let bytes = File::from(again(&copy, libc::O_RDONLY)?);
            // Before it is watched, so that this is not taken for a program's close.
            drop(copy);
            let name = format!("/proc/self/fd/{}", bytes.as_raw_fd());
            let watch = inotify::add_watch(&self.watcher, name.as_str(), WatchFlags::CLOSE_WRITE).map_err(number)?;
            self.spools.insert(watch, Spool { path: Some(path.to_vec()), bytes });
        } else {
            set_modified(&copy, stat.modified)?;
        }
        Ok(fd)
    }

    /// Returns a new file without a name.
    fn unnamed(&self) -> Result<File, c_int> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        open(&self.folder, flags, Mode::RUSR | Mode::WUSR).map(File::from).map_err(number)
    }

    /// Corrects the attributes of a file that is being written.
    pub fn show(&self, path: &[u8], stat: &mut Stat) {
        if let Some(spool) = self.find(path)
            && let Ok(metadata) = spool.bytes.metadata()
        {
            stat.length = metadata.len();
            stat.modified = metadata.mtime() * NANOSECONDS_PER_SECOND + metadata.mtime_nsec();
            stat.changed = stat.changed.max(stat.modified);
        }
    }

    /// Sets the length of a file that is being written. False if it is not.
    pub fn set_length(&self, path: &[u8], length: u64) -> Result<bool, c_int> {
        let Some(spool) = self.find(path) else { return Ok(false) };
        rustix::fs::ftruncate(&again(&spool.bytes, libc::O_WRONLY)?, length).map_err(number)?;
        Ok(true)
    }

    /// Notes that a file was removed or replaced: what is written to it goes with it.
    pub fn remove(&mut self, path: &[u8]) {
        for spool in self.spools.values_mut().filter(|spool| spool.path.as_deref() == Some(path)) {
            spool.path = None;
        }
    }

    /// Notes that a file or a directory was renamed.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) {
        self.remove(to);
        for path in self.spools.values_mut().filter_map(|spool| spool.path.as_mut()) {
            if let Some(rest) = path.strip_prefix(from).filter(|rest| rest.is_empty() || rest.starts_with(b"/")) {
                *path = [to, rest].concat();
            }
        }
    }

    /// Places the files that were closed since the last time.
    ///
    /// # Errors
    /// The first error of the store. The files that could not be placed stay, and [`finish`](Self::finish) tries again.
    pub fn place_closed(&mut self, files: &Files) -> Result<(), FileError> {
        let mut closed: Vec<c_int> = Vec::new();
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(self.watcher.as_fd(), &mut room);
        // The end of the events is an error, too.
        while let Ok(event) = events.next() {
            closed.push(event.wd());
        }
        closed.sort_unstable();
        closed.dedup();
        for watch in closed {
            let Some(spool) = self.spools.get(&watch) else { continue };
            // Nobody opens it between the two: programs wait for this thread when they open files.
            let has_writers = has_writers(&spool.bytes);
            place(files, spool)?;
            if !has_writers {
                self.give_up(watch);
            }
        }
        Ok(())
    }

    fn give_up(&mut self, watch: c_int) {
        self.spools.remove(&watch);
        // The watch goes with the file anyway.
        let _ = inotify::remove_watch(&self.watcher, watch);
    }

    /// Places all files, whether they are closed or not.
    pub fn finish(&mut self, files: &Files) -> Result<(), FileError> {
        let placed = self.spools.values().map(|spool| place(files, spool));
        // All are tried; the first error counts.
        let failed = placed.filter_map(Result::err).fold(None, |first: Option<FileError>, next| first.or(Some(next)));
        failed.map_or(Ok(()), Err)
    }
}

/// Opens a file without a name once more.
fn again(file: &File, flags: c_int) -> Result<OwnedFd, c_int> {
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::from_bits_retain((flags & !NAME_FLAGS | libc::O_CLOEXEC) as u32);
    open(name.as_str(), flags, Mode::empty()).map_err(number)
}

fn set_modified(copy: &File, modified: i64) -> Result<(), c_int> {
    let (seconds, rest) = (modified.div_euclid(NANOSECONDS_PER_SECOND), modified.rem_euclid(NANOSECONDS_PER_SECOND));
    let last_modification = Timespec { tv_sec: seconds, tv_nsec: rest as _ };
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ };
    futimens(copy, &Timestamps { last_access, last_modification }).map_err(number)
}

/// Copies a file of the store.
fn fill(files: &Files, path: &[u8], copy: &File) -> Result<(), c_int> {
    let file = files.open(path).map_err(|error| error.errno())?;
    let mut room = vec![0; COPY_BYTES];
    let mut at = 0;
    loop {
        let length = file.read_at(at, &mut room).map_err(|error| error.errno())?;
        copy.write_all_at(&room[..length], at).map_err(number)?;
        at += length as u64;
        if length < room.len() {
            return Ok(());
        }
    }
}

/// Writes a spool's bytes to the store's file.
fn place(files: &Files, spool: &Spool) -> Result<(), FileError> {
    let Some(path) = &spool.path else { return Ok(()) };
    let file = match files.open(path) {
        // Another process has removed it, as it may while a program has a file open.
        Err(FileError::NotFound(_)) => return Ok(()),
        opened => opened?,
    };
    let read =
        |error: io::Error| FileError::from(terrace::Error::Io { context: "reading a spool".into(), cause: error });
    let length = spool.bytes.metadata().map_err(read)?.len();
    let mut room = vec![0; COPY_BYTES];
    let mut at = 0;
    while at < length {
        let part = (length - at).min(COPY_BYTES as u64) as usize;
        spool.bytes.read_exact_at(&mut room[..part], at).map_err(read)?;
        file.write_at(at, &room[..part])?;
        at += part as u64;
    }
    file.set_len(length)?;
    file.flush()
}

/// Whether anybody has a file open for writing. If the file system does not know, they may have.
fn has_writers(file: &File) -> bool {
    // The kernel grants a lease for reading only while nobody has the file open for writing. It is given back at once.
    // SAFETY: both calls take numbers only.
    unsafe {
        let granted = libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) == 0;
        if granted {
            libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK);
        }
        !granted
    }
}
