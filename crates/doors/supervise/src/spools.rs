//! The open files: copies for reading, and spools for writing.
//!
//! Both are files without names. A spool is placed in the store at each close for writing; once nobody has it open for writing, it is
//! given up. Until then, all who open the file get the spool. The path of a copy, or of a spool that was given up, is known until its last
//! descriptor is closed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::fs::{File, Metadata};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use terrace::Files;
use terrace::files::{FileResult, Setting, Stat};

use crate::inode;
use crate::sieve::OpenedInodes;
use crate::spool::{Spool, again, fill, name_of, unnamed};

/// A file of the store that programs have open.
struct SpooledFile {
    /// The path in the store. None once the file was removed there.
    path: Option<Vec<u8>>,
    /// The device and the number of the copy or spool.
    inode: (u64, u64),
    /// None if nobody has it open for writing.
    spool: Option<Spool>,
}

impl SpooledFile {
    /// Places what was written, and gives the spool up if nobody has it open for writing.
    fn place(&mut self, files: &Files) -> FileResult<()> {
        let Some(spool) = &mut self.spool else { return Ok(()) };
        // Nobody opens it between the two: programs wait for this thread when they open files.
        let has_writers = spool.has_writers();
        if let Some(path) = &self.path {
            spool.place(files, path, has_writers)?;
        }
        if !has_writers {
            self.spool = None;
        }
        Ok(())
    }
}

/// The files that programs have open, by the number of the watch that tells when they are closed.
pub struct Spools {
    /// The directory whose file system holds spools and copies.
    folder: PathBuf,
    watcher: OwnedFd,
    files: BTreeMap<c_int, SpooledFile>,
    /// Those of all `files`, for other threads.
    pub inodes: OpenedInodes,
}

impl Spools {
    /// Spools and copies are made on the file system of this directory.
    pub fn new(folder: PathBuf) -> io::Result<Spools> {
        let watcher = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Spools { folder, watcher, files: BTreeMap::new(), inodes: OpenedInodes::default() })
    }

    /// The descriptor that is ready when a spool was closed.
    pub fn watcher(&self) -> &OwnedFd {
        &self.watcher
    }

    /// Returns the newest spool of a file.
    fn spool(&mut self, path: &[u8]) -> Option<&mut Spool> {
        let mut spooled = self.files.values_mut().filter(|file| file.path.as_deref() == Some(path));
        spooled.rfind(|file| file.spool.is_some()).and_then(|file| file.spool.as_mut())
    }

    /// Returns the path in the store of one of the kernel's files, if it is a copy or a spool.
    pub fn path_of(&self, file: &Metadata) -> Option<&[u8]> {
        let inode = (file.dev(), file.ino());
        self.files.values().find(|file| file.inode == inode).and_then(|file| file.path.as_deref())
    }

    /// Opens an existing file of the store.
    ///
    /// # Errors
    /// Of this and the other methods: the number of the kernel's error.
    pub fn open(&mut self, files: &Files, path: &[u8], stat: &Stat, flags: c_int) -> Result<OwnedFd, c_int> {
        let truncates = flags & libc::O_TRUNC != 0;
        if truncates {
            self.set_length(files, path, 0)?;
        }
        let folder = self.folder.clone();
        if let Some(spool) = self.spool(path)
            && let Some(fd) = spool.open(files, path, &folder, flags)?
        {
            return Ok(fd);
        }
        let copy = unnamed(&folder)?;
        if !truncates {
            fill(files, path, &copy)?;
        }
        let fd = again(&copy, flags)?;
        let spool = match flags & libc::O_ACCMODE {
            libc::O_RDONLY => None,
            _ => Some(Spool::new(&copy, &folder, stat.id.unwrap_or_default(), flags)?),
        };
        let modified = Some(stat.modified).filter(|_| !truncates);
        self.watch(copy, path, spool, &Setting { mode: Some(stat.mode), modified, ..Setting::default() })?;
        Ok(fd)
    }

    fn watch(&mut self, copy: File, path: &[u8], spool: Option<Spool>, shown: &Setting) -> Result<(), c_int> {
        let metadata = copy.metadata().map_err(inode::number)?;
        let seen = File::from(again(&copy, libc::O_PATH)?);
        // Before it is watched, so that this is not taken for a program's close.
        drop(copy);
        let events = WatchFlags::CLOSE_WRITE | WatchFlags::DELETE_SELF;
        let watch = inotify::add_watch(&self.watcher, name_of(&seen), events).map_err(inode::number)?;
        let inode = (metadata.dev(), metadata.ino());
        self.inodes.add(inode);
        self.files.insert(watch, SpooledFile { path: Some(path.to_vec()), inode, spool });
        // Last, because the mode may forbid all of this.
        inode::set(&name_of(&seen), shown)
    }

    /// Corrects the attributes of a file that is being written.
    pub fn show(&mut self, path: &[u8], stat: &mut Stat) {
        if let Some(spool) = self.spool(path) {
            spool.show(stat);
        }
    }

    /// Changes attributes that programs have set of a file. False if nobody writes it.
    pub fn set(&mut self, path: &[u8], setting: &Setting) -> Result<bool, c_int> {
        let Some(spool) = self.spool(path) else { return Ok(false) };
        spool.set(setting).map(|()| true)
    }

    /// Cuts or extends a file.
    pub fn set_length(&mut self, files: &Files, path: &[u8], length: u64) -> Result<(), c_int> {
        self.set_known_length(files, path, length)?;
        self.spool(path).map_or(Ok(()), |spool| spool.set_length(length))
    }

    /// Cuts or extends a file in the store, for a program that does so with the spool.
    pub fn set_known_length(&mut self, files: &Files, path: &[u8], length: u64) -> Result<(), c_int> {
        let done = match self.spool(path) {
            Some(spool) => spool.set_known_length(files, path, length),
            None => files.open(path).and_then(|file| file.set_len(length)),
        };
        done.map_err(|error| error.errno())
    }

    /// Notes that a file was removed or replaced: what is written to it goes with it.
    pub fn remove(&mut self, path: &[u8]) {
        for file in self.files.values_mut().filter(|file| file.path.as_deref() == Some(path)) {
            file.path = None;
        }
    }

    /// Notes that a file or a directory was renamed.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) {
        self.remove(to);
        for path in self.files.values_mut().filter_map(|file| file.path.as_mut()) {
            if let Some(rest) = path.strip_prefix(from).filter(|rest| rest.is_empty() || rest.starts_with(b"/")) {
                *path = [to, rest].concat();
            }
        }
    }

    /// Places the files that were closed since the last time. The files that could not be placed are named and stay, and
    /// [`finish`](Self::finish) tries again.
    pub fn place_closed(&mut self, files: &Files) {
        // A spool that is given up here ends, and the kernel may give its number to any other file: then it is no longer known.
        while let Some(closed) = self.closed() {
            let closed = self.files.iter_mut().filter(|(watch, _)| closed.contains(watch)).map(|(_, file)| file);
            // Each error was told, and `finish` returns what stays.
            let _ = place_all(closed, files);
        }
    }

    /// Forgets the files that have ended since the last time, and returns those that were closed. None if nothing was told.
    fn closed(&mut self) -> Option<BTreeSet<c_int>> {
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(self.watcher.as_fd(), &mut room);
        let mut closed = None;
        // The end of the events is an error, too.
        while let Ok(event) = events.next() {
            let closed = closed.get_or_insert_with(BTreeSet::new);
            if event.events().contains(ReadFlags::CLOSE_WRITE) {
                closed.insert(event.wd());
            } else {
                // A new file may have its number by now.
                if let Some(ended) = self.files.remove(&event.wd())
                    && self.files.values().all(|file| file.inode != ended.inode)
                {
                    self.inodes.remove(ended.inode);
                }
            }
        }
        closed
    }

    /// Places all files, whether they are closed or not.
    pub fn finish(&mut self, files: &Files) -> FileResult<()> {
        place_all(self.files.values_mut(), files)
    }
}

/// Places files. All are tried, and those that fail are named; the first error counts.
fn place_all<'a>(spooled: impl Iterator<Item = &'a mut SpooledFile>, files: &Files) -> FileResult<()> {
    let mut first = Ok(());
    for file in spooled {
        let placed = file.place(files).inspect_err(|error| {
            let key = file.path.as_deref().map(terrace::key::show);
            tracing::error!(key, %error, "what a program has written was not placed; it is tried again when the program ends");
        });
        first = first.and(placed);
    }
    first
}
