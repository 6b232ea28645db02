//! [`Spool`]: an ordinary file without a name that programs write instead of one of the store.
//!
//! Programs write it without being asked, so a spool finds out what they wrote: it keeps the bytes as the store knew them, and compares. It
//! places what differs and leaves the rest of the object as others have made it.

// The kernel's leases have no safe wrapper.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, SeekFrom, ftruncate, open, seek};
use rustix::io::Errno;
use terrace::Files;
use terrace::files::{File as StoreFile, FileError, FileResult, Setting, Stat};

use crate::inode;

/// The number of bytes that are copied and compared at once.
const COPY_BYTES: usize = 1 << 20;
/// The number of bytes that are appended at once, so that nothing of others comes between them.
const MAX_APPEND_BYTES: usize = 16 << 20;
/// Fewer equal bytes than this between two that differ count as written: a program may write a byte that was there before.
const MIN_EQUAL_BYTES: usize = 64;
/// Flags of `open` that only say how a name is found or made.
const NAME_FLAGS: c_int = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_NOFOLLOW | libc::O_DIRECTORY;

/// A file that is being written.
pub struct Spool {
    /// The object's number. If its path gets another object, this one was removed.
    object: u64,
    /// The bytes, opened to be read: a lease tells whether anybody has them open for writing.
    bytes: File,
    /// Whether all who opened it for writing append, so that the bytes behind `known_length` are appended to the object.
    appends: bool,
    /// The length of the file as the store knows it.
    known_length: u64,
    /// The bytes as the store knows them. None while nobody can have changed them: those who have the file open can only append.
    known: Option<File>,
    /// Whether others have appended to the object, so that bytes appended to the spool have another offset there.
    has_moved: bool,
    /// The times that a program has set, and the spool's time of modification just after that.
    times: Option<(Setting, i64)>,
}

/// How a file is opened.
#[derive(Clone, Copy)]
struct OpeningFlags {
    writes: bool,
    appends: bool,
    /// It can change no byte that is there: it appends, and cannot map the file.
    only_appends: bool,
}

impl From<c_int> for OpeningFlags {
    fn from(flags: c_int) -> OpeningFlags {
        let (access, appends) = (flags & libc::O_ACCMODE, flags & libc::O_APPEND != 0);
        OpeningFlags { writes: access != libc::O_RDONLY, appends, only_appends: appends && access == libc::O_WRONLY }
    }
}

impl Spool {
    /// Makes a spool of a copy of an object, for a program that opens it for writing. `folder` is on the file system for spools.
    pub fn new(copy: &File, folder: &Path, object: u64, flags: c_int) -> Result<Spool, c_int> {
        let bytes = File::from(again(copy, libc::O_RDONLY)?);
        let known_length = bytes.metadata().map_err(inode::number)?.len();
        let opening = OpeningFlags::from(flags);
        let appends = opening.appends;
        let mut spool = Spool { object, bytes, appends, known_length, known: None, has_moved: false, times: None };
        if !opening.only_appends {
            spool.keep_known(folder)?;
        }
        Ok(spool)
    }

    /// Opens the spool for one more program. None if what that writes cannot be told from what others append.
    pub fn open(&mut self, files: &Files, path: &[u8], folder: &Path, flags: c_int) -> Result<Option<OwnedFd>, c_int> {
        let opening = OpeningFlags::from(flags);
        let changes_known = opening.writes && !opening.only_appends && self.known.is_none();
        if opening.writes && self.appends && !opening.appends || changes_known {
            self.place(files, path, true).map_err(|error| error.errno())?;
            if self.has_moved && !opening.appends {
                return Ok(None);
            }
            self.appends &= opening.appends;
            if self.known.is_none() {
                self.keep_known(folder)?;
            }
        }
        again(&self.bytes, flags).map(Some)
    }

    /// Keeps the bytes as the store knows them.
    fn keep_known(&mut self, folder: &Path) -> Result<(), c_int> {
        let mut known = unnamed(folder)?;
        let mut bytes = &self.bytes;
        bytes.rewind().map_err(inode::number)?;
        // The kernel copies, and on some file systems both share the blocks.
        io::copy(&mut bytes.take(self.known_length), &mut known).map_err(inode::number)?;
        self.known = Some(known);
        Ok(())
    }

    /// Corrects attributes that the store has of the object.
    pub fn show(&self, stat: &mut Stat) {
        if let Ok(metadata) = self.bytes.metadata() {
            (stat.length, stat.modified) = (metadata.len(), inode::modified(&metadata));
            stat.changed = stat.changed.max(stat.modified);
        }
    }

    /// Changes attributes that programs have set of the object. Its times are set once more after the bytes are placed.
    pub fn set(&mut self, setting: &Setting) -> Result<(), c_int> {
        inode::set(&name_of(&self.bytes), setting)?;
        if setting.accessed.is_some() || setting.modified.is_some() {
            let before = self.times.take().map_or_else(Setting::default, |(before, _)| before);
            let times = Setting {
                accessed: setting.accessed.or(before.accessed),
                modified: setting.modified.or(before.modified),
                ..Setting::default()
            };
            self.times = Some((times, inode::modified(&self.bytes.metadata().map_err(inode::number)?)));
        }
        Ok(())
    }

    /// Cuts or extends the object, for a program that does so with the spool.
    pub fn set_known_length(&mut self, files: &Files, path: &[u8], length: u64) -> FileResult<()> {
        // Otherwise, bytes behind the new end would count as known.
        self.place(files, path, true)?;
        let Some(file) = self.object(files, path)? else { return Ok(()) };
        file.set_len(length)?;
        if let Some(known) = &self.known {
            known.set_len(length).map_err(spooling)?;
        }
        self.known_length = length;
        Ok(())
    }

    /// Cuts or extends the spool.
    pub fn set_length(&self, length: u64) -> Result<(), c_int> {
        ftruncate(again(&self.bytes, libc::O_WRONLY)?, length).map_err(inode::number)
    }

    /// Opens the object. None if it was removed or replaced.
    fn object(&self, files: &Files, path: &[u8]) -> FileResult<Option<StoreFile>> {
        match files.open(path) {
            Ok(file) if file.id() == self.object => Ok(Some(file)),
            // Another process has removed it, as it may while a program has a file open.
            Ok(_) | Err(FileError::NotFound(_)) => {
                let key = terrace::key::show(path);
                tracing::warn!(
                    key,
                    "another process has removed or replaced a file while it was being written; what was written went with it"
                );
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes what was written since the last time to the object. If nobody writes the spool any more, it need not remember that
    /// (`stays`).
    pub fn place(&mut self, files: &Files, path: &[u8], stays: bool) -> FileResult<()> {
        let metadata = self.bytes.metadata().map_err(spooling)?;
        let length = metadata.len();
        let Some(file) = self.object(files, path)? else { return Ok(()) };
        if length < self.known_length {
            file.set_len(length)?;
            self.known_length = length;
        }
        if let Some(known) = &self.known {
            self.place_changes(&file, known, stays)?;
        }
        match self.appends {
            true => self.append(&file, length)?,
            false => self.place_tail(&file, length, stays)?,
        }
        file.flush()?;
        self.place_times(&file, &metadata)
    }

    /// Writes the bytes that differ from the known ones.
    fn place_changes(&self, file: &StoreFile, known: &File, stays: bool) -> FileResult<()> {
        let (mut new, mut old) = (vec![0; COPY_BYTES], vec![0; COPY_BYTES]);
        for at in (0..self.known_length).step_by(COPY_BYTES) {
            let part = (self.known_length - at).min(COPY_BYTES as u64) as usize;
            // A program may cut the file meanwhile.
            let length = read(&self.bytes, &mut new[..part], at)?;
            let had = read(known, &mut old[..length], at)?;
            old[had..length].fill(0);
            for range in differences(&new[..length], &old[..length]) {
                let (from, bytes) = (at + range.start as u64, &new[range]);
                file.write_at(from, bytes)?;
                if stays {
                    known.write_all_at(bytes, from).map_err(spooling)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the bytes behind the known ones at their offset, and leaves out holes.
    fn place_tail(&mut self, file: &StoreFile, length: u64, stays: bool) -> FileResult<()> {
        let mut room = vec![0; COPY_BYTES];
        let mut at = self.known_length;
        while let Some(data) = next_data(&self.bytes, at, length)? {
            let part = (data.end - data.start).min(COPY_BYTES as u64) as usize;
            let part = read(&self.bytes, &mut room[..part], data.start)?;
            if part == 0 {
                break;
            }
            file.write_at(data.start, &room[..part])?;
            if let Some(known) = self.known.as_ref().filter(|_| stays) {
                known.write_all_at(&room[..part], data.start).map_err(spooling)?;
            }
            at = data.start + part as u64;
        }
        if self.known_length < length {
            file.extend(length)?;
        }
        if stays {
            self.known_length = self.known_length.max(length);
        }
        Ok(())
    }

    /// Appends the bytes behind the known ones to the object.
    fn append(&mut self, file: &StoreFile, length: u64) -> FileResult<()> {
        let mut room = Vec::new();
        while self.known_length < length {
            room.resize((length - self.known_length).min(MAX_APPEND_BYTES as u64) as usize, 0);
            let part = read(&self.bytes, &mut room, self.known_length)?;
            if part == 0 {
                break;
            }
            // Nothing is buffered before, so a commit decides the offset, and these bytes are appended once.
            file.append(&room[..part])?;
            file.flush()?;
            if let Some(known) = &self.known {
                known.write_all_at(&room[..part], self.known_length).map_err(spooling)?;
            }
            self.known_length += part as u64;
        }
        self.has_moved |= file.stat()?.length != self.known_length;
        Ok(())
    }

    /// Sets the times that a program has set, which the placed bytes have changed.
    fn place_times(&mut self, file: &StoreFile, metadata: &Metadata) -> FileResult<()> {
        if let Some((mut times, set)) = self.times.take() {
            // What is written later changes the time, as in any file.
            times.modified = times.modified.filter(|_| inode::modified(metadata) == set);
            if times.modified.is_some() || times.accessed.is_some() {
                file.set(&times)?;
                self.times = Some((times, set));
            }
        }
        Ok(())
    }

    /// Whether anybody has it open for writing. If the file system does not know, they may have.
    pub fn has_writers(&self) -> bool {
        let fd = self.bytes.as_raw_fd();
        // The kernel grants a lease for reading only while nobody has the file open for writing. It is given back at once.
        // SAFETY: both calls take numbers only.
        unsafe {
            let granted = libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) == 0;
            if granted {
                libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK);
            }
            !granted
        }
    }
}

/// Returns a new file without a name.
pub fn unnamed(folder: &Path) -> Result<File, c_int> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    open(folder, flags, Mode::RUSR | Mode::WUSR).map(File::from).map_err(inode::number)
}

/// Returns a name of an open file of this process.
pub fn name_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Opens a file without a name once more.
pub fn again(file: &File, flags: c_int) -> Result<OwnedFd, c_int> {
    let flags = OFlags::from_bits_retain((flags & !NAME_FLAGS | libc::O_CLOEXEC) as u32);
    open(name_of(file).as_str(), flags, Mode::empty()).map_err(inode::number)
}

/// Copies a file of the store.
pub fn fill(files: &Files, path: &[u8], copy: &File) -> Result<(), c_int> {
    let file = files.open(path).map_err(|error| error.errno())?;
    let mut room = vec![0; COPY_BYTES];
    let mut at = 0;
    loop {
        let length = file.read_at(at, &mut room).map_err(|error| error.errno())?;
        copy.write_all_at(&room[..length], at).map_err(inode::number)?;
        at += length as u64;
        if length < room.len() {
            return Ok(());
        }
    }
}

fn spooling(cause: io::Error) -> FileError {
    FileError::from(terrace::Error::Io { context: "reading a spool".into(), cause })
}

/// Fills `out` from an offset on. Returns a smaller length at the file's end.
fn read(file: &File, out: &mut [u8], at: u64) -> FileResult<usize> {
    let mut length = 0;
    while length < out.len() {
        match file.read_at(&mut out[length..], at + length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(spooling(error)),
        }
    }
    Ok(length)
}

/// Returns the next range from `at` to `end` that is not a hole.
fn next_data(file: &File, at: u64, end: u64) -> FileResult<Option<Range<u64>>> {
    if at >= end {
        return Ok(None);
    }
    let start = match seek(file, SeekFrom::Data(at)) {
        Err(Errno::NXIO) => return Ok(None),
        // A file system without holes may not know the call.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(at..end)),
        found => found.map_err(|error| spooling(error.into()))?,
    };
    // There is a hole behind the end of each file.
    let stop = seek(file, SeekFrom::Hole(start)).map_err(|error| spooling(error.into()))?;
    Ok((start < end).then(|| start..stop.min(end)))
}

/// Returns the ranges in which two texts of one length differ, in order.
fn differences(new: &[u8], old: &[u8]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (number, (new, old)) in new.chunks(MIN_EQUAL_BYTES).zip(old.chunks(MIN_EQUAL_BYTES)).enumerate() {
        let mut differing = (0..new.len()).filter(|&at| new[at] != old[at]);
        // Most parts are equal, and their comparison is fast.
        let Some(first) = (new != old).then(|| differing.next()).flatten() else { continue };
        let last = differing.next_back().unwrap_or(first);
        let (start, end) = (number * MIN_EQUAL_BYTES + first, number * MIN_EQUAL_BYTES + last + 1);
        match found.last_mut() {
            Some(before) if start - before.end < MIN_EQUAL_BYTES => before.end = end,
            _ => found.push(start..end),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_bytes_are_found_and_joined() {
        let old = vec![0; 1000];
        let find = |written: &[(usize, usize)]| -> Vec<(usize, usize)> {
            let mut new = old.clone();
            written.iter().for_each(|&(start, end)| new[start..end].fill(1));
            differences(&new, &old).into_iter().map(|range| (range.start, range.end)).collect()
        };
        assert_eq!(find(&[]), []);
        assert_eq!(find(&[(0, 1), (999, 1000)]), [(0, 1), (999, 1000)]);
        assert_eq!(find(&[(60, 70), (100, 130)]), [(60, 130)]);
        assert_eq!(find(&[(10, 20), (84, 90), (300, 500)]), [(10, 20), (84, 90), (300, 500)]);
        assert_eq!(find(&[(0, 1000)]), [(0, 1000)]);
    }
}
