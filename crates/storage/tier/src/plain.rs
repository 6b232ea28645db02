//! Plain files: whole objects as ordinary files, byte for byte, under their own keys. The headers of their frames are in separate
//! files.
//!
//! `plain/ID` has the bytes, and `plain/ID.headers` the headers of the frames. `files/KEY` is a second name (hard link) of the
//! bytes. Users see a replacement, a rename or a deletion at once, and the bytes stay for those who still read them.
//!
//! `plain/ID.link`, in the place of `plain/ID`, is a hard link to another program's file. What writes, names, measures or syncs bytes uses the
//! path `plain/ID`, which does not exist then, so that nothing here can change that file. It is read, and its link is removed.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use terrace_format::frame::{Frame, Header, MAX_HEADER};
use terrace_system::failed_sync::{self, FAILED_SYNC_BIT};
use terrace_system::{open_regular, read_regular};

use super::again::{lost, open_to_write, write_again};
use super::{FRAME_ALIGNMENT, Place, Whole};

/// The folder of plain files by their keys.
pub const FILES_FOLDER: &str = "files";
/// The folder of their bytes and headers, by number.
pub(super) const BYTES_FOLDER: &str = "plain";
/// Ends the name of another program's file, instead of the number alone.
pub(super) const LINK_SUFFIX: &str = ".link";
/// The longest file name that file systems accept.
const LONGEST_NAME: usize = 255;

/// Returns whether an object of this key can be an ordinary file.
pub fn can_be_file(key: &[u8]) -> bool {
    key.split(|&byte| byte == b'/').all(|name| name.len() <= LONGEST_NAME)
}

/// The plain files of a directory target.
pub struct Plain {
    root: PathBuf,
    store: u64,
}

impl Plain {
    pub fn new(root: &Path, store: u64) -> Plain {
        Plain { root: root.to_owned(), store }
    }

    /// The path of a file's bytes.
    pub fn bytes(&self, file: u64) -> PathBuf {
        self.root.join(BYTES_FOLDER).join(format!("{file:016x}"))
    }

    fn link(&self, file: u64) -> PathBuf {
        let mut path = self.bytes(file).into_os_string();
        path.push(LINK_SUFFIX);
        path.into()
    }

    /// Returns whether a file is a hard link to another program's.
    pub fn is_linked(&self, file: u64) -> bool {
        fs::symlink_metadata(self.link(file)).is_ok()
    }

    /// The path from which a file's bytes are read, and by which nothing is written.
    pub fn read_path(&self, file: u64) -> PathBuf {
        if self.is_linked(file) { self.link(file) } else { self.bytes(file) }
    }

    fn headers(&self, file: u64) -> PathBuf {
        self.bytes(file).with_extension("headers")
    }

    /// The path of a second name before it is moved to its key.
    fn new_name(&self, file: u64) -> PathBuf {
        self.bytes(file).with_extension("name")
    }

    /// Adds a raw frame to a file. The first frame creates the file.
    pub fn write(&self, file: u64, frame: &Frame<'_>) -> io::Result<Place> {
        let path = self.bytes(file);
        let bytes = match open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.make_folder()?;
                open(&path)?
            }
            opened => opened?,
        };
        bytes.write_all_at(frame.payload, frame.header.identity.offset)?;
        self.describe(file, frame)
    }

    fn make_folder(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(self.root.join(BYTES_FOLDER))?;
        // So that the folder's name survives a power cut: what is synced in it names only the files.
        File::open(&self.root)?.sync_all()
    }

    /// Makes a new file share the blocks of another program's file, once there is room for them. Returns false if the file system cannot.
    pub fn clone_file<R>(
        &self,
        file: u64,
        source: &File,
        take_room: impl FnOnce(u64) -> io::Result<R>,
    ) -> io::Result<bool> {
        if !self.root.join(BYTES_FOLDER).exists() {
            self.make_folder()?;
        }
        let path = self.bytes(file);
        let new = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path)?;
        let cloned = match rustix::fs::ioctl_ficlone(&new, source) {
            Err(Errno::XDEV | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOTTY | Errno::NOSYS | Errno::PERM) => Ok(false),
            Err(error) => Err(error.into()),
            // Counted after the clone, since only that tells whether it is possible.
            Ok(()) => new.metadata().and_then(|metadata| take_room(metadata.len())).map(|_| true),
        };
        if !matches!(cloned, Ok(true)) {
            fs::remove_file(path)?;
        }
        cloned
    }

    /// Makes a hard link to another program's file. Returns false if the file system cannot, or the file's owner forbids it.
    pub fn link_file(&self, file: u64, source: &File) -> io::Result<bool> {
        // Of the opened file, whatever has its name by now.
        let opened = format!("/proc/self/fd/{}", source.as_raw_fd());
        let linked =
            rustix::fs::linkat(rustix::fs::CWD, opened, rustix::fs::CWD, self.link(file), AtFlags::SYMLINK_FOLLOW);
        match linked {
            Err(Errno::XDEV | Errno::PERM | Errno::MLINK | Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(error.into()),
            // Here, since `sync` leaves the owner's bytes alone. A failure changes nothing about the owner's file.
            Ok(()) => source.sync_all().map(|()| true),
        }
    }

    /// Adds the header of a raw frame whose payload is in its file.
    pub fn describe(&self, file: u64, frame: &Frame<'_>) -> io::Result<Place> {
        let headers = open(&self.headers(file))?;
        let offset = headers.metadata()?.len().next_multiple_of(FRAME_ALIGNMENT);
        let place = Place { segment: file, offset, length: frame.header.frame_len() as u32 };
        let mut header = Vec::with_capacity(MAX_HEADER);
        frame.header.write(self.store, place, &mut header);
        headers.write_all_at(&header, offset)?;
        Ok(place)
    }

    /// Reads from a frame as if its header and payload were in one piece.
    pub fn read(&self, place: Place, skip: u32, out: &mut [u8]) -> io::Result<()> {
        let mut head = [0; MAX_HEADER];
        let held =
            super::file_calls::read_up_to(&open_regular(&self.headers(place.segment))?, &mut head, place.offset)?;
        let header = Header::read(&head[..held], self.store, place)
            .map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))?;
        let head = &head[..header.written_len()];
        let skip = skip as usize;
        let of_head = head.len().saturating_sub(skip).min(out.len());
        if of_head > 0 {
            out[..of_head].copy_from_slice(&head[skip..skip + of_head]);
        }
        let from = (skip + of_head - head.len().min(skip + of_head)) as u64;
        match &mut out[of_head..] {
            [] => Ok(()),
            rest => self.open_bytes(place.segment)?.read_exact_at(rest, header.identity.offset + from),
        }
    }

    fn open_bytes(&self, file: u64) -> io::Result<File> {
        match open_regular(&self.bytes(file)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => match open_regular(&self.link(file)) {
                // Its owner lets nobody read it. That is no trouble of the target.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    Err(io::Error::new(io::ErrorKind::InvalidData, e))
                }
                opened => opened,
            },
            opened => opened,
        }
    }

    /// Makes files durable, with their headers and the names in `plain/`. Names in `files/` are not synced: the first opener
    /// after a reboot corrects them.
    pub fn sync(&self, files: &[u64]) -> io::Result<()> {
        for &file in files {
            let mut opened = Vec::new();
            for path in [self.bytes(file), self.headers(file)] {
                match open_regular(&path) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    file => opened.push(file?),
                }
            }
            if opened.iter().map(failed_sync::has_failed).collect::<io::Result<Vec<_>>>()?.contains(&true) {
                opened = self.write_again(file)?;
            }
            opened.iter().try_for_each(failed_sync::sync_all)?;
        }
        // A target that never had a plain file has no folder for them.
        match File::open(self.root.join(BYTES_FOLDER)) {
            _ if files.is_empty() => Ok(()),
            Ok(folder) => folder.sync_all(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Writes the frames of a file again, because a sync of it failed. Returns the files of the bytes and of the headers,
    /// which are to be synced. Frame by frame, because further frames may be added meanwhile.
    fn write_again(&self, file: u64) -> io::Result<Vec<File>> {
        let (bytes, headers) = (open_to_write(&self.bytes(file))?, open_to_write(&self.headers(file))?);
        let modified = bytes.metadata()?.modified()?;
        let mut outcome = Ok(());
        self.scan_file(file, &mut |place, header| {
            let payload = (&bytes, header.identity.offset);
            let written = write_again((&headers, place.offset), payload, self.store, place, &header);
            if outcome.is_ok() {
                outcome = written.and_then(|is_whole| if is_whole { Ok(()) } else { Err(lost(&self.bytes(file))) });
            }
        })?;
        outcome?;
        // Users see this file, with its object's time.
        bytes.set_modified(modified)?;
        failed_sync::forget(&bytes)?;
        failed_sync::forget(&headers)?;
        Ok(vec![bytes, headers])
    }

    /// Deletes a file by its number. Its bytes are gone when its name under `files/` is removed as well.
    pub fn discard(&self, file: u64) -> io::Result<()> {
        for path in [self.new_name(file), self.headers(file), self.bytes(file), self.link(file)] {
            match fs::remove_file(path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }

    /// The bytes that a file takes on the device.
    pub fn allocated(&self, file: u64) -> u64 {
        let of = |path| fs::symlink_metadata(path).map_or(0, |metadata: fs::Metadata| metadata.blocks() * 512);
        of(self.bytes(file)) + of(self.headers(file))
    }

    /// The bytes that all files take on the device.
    pub fn used(&self) -> io::Result<u64> {
        Ok(self.all()?.into_iter().map(|file| self.allocated(file)).sum())
    }

    /// The numbers of all files. After a power cut, only headers or a second name may be left of one.
    pub fn all(&self) -> io::Result<Vec<u64>> {
        let entries = match fs::read_dir(self.root.join(BYTES_FOLDER)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut all = Vec::new();
        for entry in entries {
            let number = Path::new(&entry?.file_name()).file_stem().and_then(OsStr::to_str).map(str::to_owned);
            all.extend(number.and_then(|number| u64::from_str_radix(&number, 16).ok()));
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// Calls `found` with each whole header.
    pub fn scan(&self, found: &mut dyn FnMut(Place, Header)) -> io::Result<()> {
        let mut with_bytes = self.all()?.into_iter().filter(|file| self.read_path(*file).exists());
        with_bytes.try_for_each(|file| self.scan_file(file, found))
    }

    fn scan_file(&self, file: u64, found: &mut dyn FnMut(Place, Header)) -> io::Result<()> {
        let bytes = match read_regular(&self.headers(file)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            bytes => bytes?,
        };
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let place = Place { segment: file, offset: at as u64, length: 0 };
            at += match Header::read(&rest[..rest.len().min(MAX_HEADER)], self.store, place) {
                Ok(header) => {
                    let length = header.written_len().next_multiple_of(FRAME_ALIGNMENT as usize);
                    found(Place { length: header.frame_len() as u32, ..place }, header);
                    length
                }
                Err(_) => FRAME_ALIGNMENT as usize,
            };
        }
        Ok(())
    }

    /// The length of a file.
    pub fn length(&self, file: u64) -> io::Result<u64> {
        Ok(fs::symlink_metadata(self.bytes(file))?.len())
    }

    /// The keys under which plain files stand, with the number of each file. Files of others are skipped.
    pub fn names(&self) -> io::Result<Vec<(Vec<u8>, u64)>> {
        let mut files = HashMap::new();
        for file in self.all()? {
            files.extend(self.inodes(file)?.into_iter().map(|inode| (inode, file)));
        }
        let (root, mut names) = (self.root.join(FILES_FOLDER), Vec::new());
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                let (path, metadata) = (entry.path(), entry.metadata()?);
                if metadata.is_dir() {
                    folders.push(path);
                } else if let Some(file) = files.get(&(metadata.dev(), metadata.ino()))
                    && let Ok(key) = path.strip_prefix(&root)
                {
                    names.push((key.as_os_str().as_bytes().to_vec(), *file));
                }
            }
        }
        Ok(names)
    }

    /// Puts the file `now` under a key, unless it is longer than its object. Without `now`, removes the key's file if it is one
    /// of `before`. Files of others stay.
    pub fn set_name(&self, key: &[u8], now: Option<&Whole>, before: &[u64]) -> io::Result<bool> {
        match now {
            Some(whole) if self.is_linked(whole.file) => self.unname(key, before).map(|()| true),
            Some(whole) => self.name(key, whole),
            None => self.unname(key, before).map(|()| true),
        }
    }

    fn name(&self, key: &[u8], whole: &Whole) -> io::Result<bool> {
        let bytes = open_regular(&self.bytes(whole.file))?;
        match bytes.metadata()?.len().cmp(&whole.length) {
            Ordering::Greater => return Ok(false),
            // The object ends with a hole: the file is extended, and reads as zeros there.
            Ordering::Less => OpenOptions::new().write(true).open(self.bytes(whole.file))?.set_len(whole.length)?,
            Ordering::Equal => {}
        }
        // The owner, and so the store, must be able to read the file, whatever the object's mode is.
        let note = bytes.metadata()?.mode() & FAILED_SYNC_BIT;
        bytes.set_permissions(fs::Permissions::from_mode(whole.mode & 0o777 | 0o400 | note))?;
        bytes.set_modified(time(whole.mtime))?;
        let (folder, name) = self.parent(key, true)?;
        if self.is_named(key, whole.file)? {
            return Ok(true);
        }
        let new = self.new_name(whole.file);
        match fs::hard_link(self.bytes(whole.file), &new) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            linked => linked?,
        }
        let renamed = match rustix::fs::renameat(rustix::fs::CWD, &new, &folder, name) {
            // An empty folder has this name, left from longer keys.
            Err(Errno::ISDIR) => rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR)
                .and_then(|()| rustix::fs::renameat(rustix::fs::CWD, &new, &folder, name)),
            renamed => renamed,
        };
        renamed?;
        Ok(true)
    }

    fn unname(&self, key: &[u8], before: &[u64]) -> io::Result<()> {
        let mut ours = false;
        for &file in before {
            ours |= self.is_named(key, file)?;
        }
        if !ours {
            return Ok(());
        }
        let mut path = key;
        let (mut folder, mut name) = self.parent(path, false)?;
        rustix::fs::unlinkat(&folder, name, AtFlags::empty())?;
        while let Some(at) = path.iter().rposition(|&byte| byte == b'/') {
            path = &path[..at];
            (folder, name) = self.parent(path, false)?;
            // A folder that is not empty stays, and so do those above it.
            if rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether this file stands under a key.
    pub fn is_named(&self, key: &[u8], file: u64) -> io::Result<bool> {
        let (folder, name) = match self.parent(key, false) {
            Err(e) if is_missing(&e) => return Ok(false),
            parent => parent?,
        };
        let named = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(false),
            named => named?,
        };
        let is_file = FileType::from_raw_mode(named.st_mode) == FileType::RegularFile;
        Ok(is_file && self.inodes(file)?.contains(&(named.st_dev, named.st_ino)))
    }

    /// The device and inode of a file's bytes, under each name that they have in this folder.
    fn inodes(&self, file: u64) -> io::Result<Vec<(u64, u64)>> {
        let mut inodes = Vec::new();
        for path in [self.bytes(file), self.new_name(file)] {
            match fs::symlink_metadata(path) {
                Err(e) if is_missing(&e) => {}
                found => inodes.extend(found.map(|found| [(found.dev(), found.ino())])?),
            }
        }
        Ok(inodes)
    }

    /// Opens the folder of a key's file, and returns it with the file's name. It follows no symbolic link, so no key leads out of
    /// the target.
    fn parent<'a>(&self, key: &'a [u8], make: bool) -> io::Result<(OwnedFd, &'a OsStr)> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if make {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(self.root.join(FILES_FOLDER))?;
        }
        let mut folder = rustix::fs::open(self.root.join(FILES_FOLDER), flags, Mode::empty())?;
        let mut names = key.split(|&byte| byte == b'/').map(OsStr::from_bytes);
        let name = names.next_back().unwrap_or_default();
        for above in names {
            if make {
                match rustix::fs::mkdirat(&folder, above, Mode::RWXU) {
                    Err(Errno::EXIST) => {}
                    made => made?,
                }
            }
            folder = rustix::fs::openat(&folder, above, flags, Mode::empty())?;
        }
        Ok((folder, name))
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn time(nanoseconds: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanoseconds.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    let time = if nanoseconds < 0 { epoch.checked_sub(distance) } else { epoch.checked_add(distance) };
    time.unwrap_or(epoch)
}
