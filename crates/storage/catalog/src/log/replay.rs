//! Reads the log: the store's own files and, if these are damaged, the copies on targets.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use terrace_system::{open_regular, read_regular};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{CHECKSUM_RANGE, Log, RECORD_HEADER_BYTES, RECORD_MAGIC, RECORD_VERSION, Record, Tail, name, snapshot};
use crate::{Error, Result};

/// The last record is searched for in this many bytes before the log's end: first in a few, then in more.
const END_WINDOWS_BYTES: [u64; 3] = [4 << 10, 256 << 10, u64::MAX];

impl Log {
    /// Calls `each` with every whole record after `after`, in order, and returns the log's end. The log ends at the first
    /// record that does not follow from the one before it.
    ///
    /// # Errors
    /// [`Error::Unusable`] if a whole record has content that this version does not know: the records after it are not lost.
    pub fn replay<E: From<Error>>(
        &self,
        after: Tail,
        mut each: impl FnMut(Record) -> Result<(), E>,
    ) -> Result<Tail, E> {
        self.replay_from(&[self.folder()], after, |record, _, _| each(record))
    }

    /// Replays the logs in several folders as one: each record comes from the first folder that has it whole, so copies that
    /// are damaged in different places complement each other. `each` gets the record, its bytes, and the index of the folder.
    pub fn replay_from<E: From<Error>>(
        &self,
        folders: &[&Path],
        after: Tail,
        mut each: impl FnMut(Record, &[u8], usize) -> Result<(), E>,
    ) -> Result<Tail, E> {
        // `end` is behind the last record, `tail` where the next one may be: at the start of another file, which may hold none, because
        // its process or the machine went down before the first one was there.
        let (mut tail, mut end) = (after, after);
        loop {
            let mut files: Vec<Option<Vec<u8>>> = vec![None; folders.len()];
            'records: loop {
                for (from, folder) in folders.iter().enumerate() {
                    let bytes = match &mut files[from] {
                        Some(bytes) => bytes,
                        unread => unread.insert(read(&folder.join(name(tail.file)))?),
                    };
                    if let Some(record) = self.parse(folder, bytes, tail)? {
                        let start = tail.position as usize;
                        (tail, end) = (record.tail, record.tail);
                        each(record, &bytes[start..tail.position as usize], from)?;
                        continue 'records;
                    }
                }
                break;
            }
            let next = tail.sequence + 1;
            if next == tail.file || !folders.iter().any(|folder| folder.join(name(next)).exists()) {
                return Ok(end);
            }
            tail = Tail { file: next, position: 0, ..tail };
        }
    }

    /// Returns whether the log holds the record that ends at `tail`.
    pub fn holds_end(&self, tail: Tail) -> Result<bool> {
        if tail.sequence == 0 {
            return Ok(true);
        }
        if tail.position == 0 {
            // No commit has followed the snapshot with which the log begins.
            return Ok(snapshot(self.folder(), tail.sequence).exists());
        }
        let path = self.path(tail.file);
        let context = || format!("reading {}", path.display());
        let file = match open_regular(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            file => file.map_err(Error::io(context()))?,
        };
        if file.metadata().map_err(Error::io(context()))?.len() < tail.position {
            return Ok(false);
        }
        for window in END_WINDOWS_BYTES.map(|window| window.min(tail.position)) {
            let mut bytes = vec![0; window as usize];
            file.read_exact_at(&mut bytes, tail.position - window).map_err(Error::io(context()))?;
            let mut starts = bytes.windows(RECORD_MAGIC.len()).enumerate().filter(|(_, found)| *found == RECORD_MAGIC);
            if starts.any(|(at, _)| self.checksum_of(&bytes[at..]) == Some(tail.checksum)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The checksum of the record that fills `bytes`. `None` if they are not exactly one whole record.
    fn checksum_of(&self, bytes: &[u8]) -> Option<u64> {
        let header = bytes.get(..RECORD_HEADER_BYTES)?;
        let length = RECORD_HEADER_BYTES + u32_at(header, 8) as usize;
        let checksum = u64_at(header, CHECKSUM_RANGE.start);
        (length == bytes.len() && self.is_whole(bytes)).then_some(checksum)
    }

    /// Returns whether a record's checksum matches its bytes.
    fn is_whole(&self, record: &[u8]) -> bool {
        let mut zeroed = record.to_vec();
        zeroed[CHECKSUM_RANGE].fill(0);
        xxh3_64_with_seed(&zeroed, self.store) == u64_at(record, CHECKSUM_RANGE.start)
    }

    /// Parses the record at `tail`. `None` if there is no whole record that follows from `tail`.
    fn parse(&self, folder: &Path, bytes: &[u8], tail: Tail) -> Result<Option<Record>> {
        let Some(rest) = usize::try_from(tail.position).ok().and_then(|at| bytes.get(at..)) else { return Ok(None) };
        let Some(header) = rest.get(..RECORD_HEADER_BYTES) else { return Ok(None) };
        let (count, first, previous) = (u32_at(header, 12), u64_at(header, 16), u64_at(header, 24));
        let follows = first == tail.sequence + 1 && previous == tail.checksum;
        if header[..4] != RECORD_MAGIC || !follows {
            return Ok(None);
        }
        let length = RECORD_HEADER_BYTES + u32_at(header, 8) as usize;
        let Some(record) = rest.get(..length).filter(|record| self.is_whole(record)) else { return Ok(None) };
        // Every version keeps the header's form, so the checksum tells a newer version's record from the log's end.
        let unknown = || Error::Unusable {
            path: folder.join(name(tail.file)),
            reason: format!(
                "commit {first} was made by a newer terrace, and this one does not know what it does; use the newer one"
            ),
        };
        if header[4] != RECORD_VERSION {
            return Err(unknown());
        }
        let mut payload = &record[RECORD_HEADER_BYTES..];
        let mut commits = Vec::new();
        for _ in 0..count {
            let (edits, left) = postcard::take_from_bytes(payload).map_err(|_| unknown())?;
            commits.push(edits);
            payload = left;
        }
        let tail = Tail {
            sequence: tail.sequence + u64::from(count),
            checksum: u64_at(header, CHECKSUM_RANGE.start),
            position: tail.position + length as u64,
            ..tail
        };
        Ok(Some(Record { first, time: u64_at(header, 32), commits, tail }))
    }

    /// Returns the files of the log that are not chains of whole records up to `tail`.
    pub fn find_damaged(&self, tail: Tail) -> Result<Vec<PathBuf>> {
        let mut damaged = Vec::new();
        for file in self.files()?.into_iter().filter(|file| *file <= tail.file) {
            let path = self.path(file);
            let context = || format!("reading {}", path.display());
            let whole = || {
                // Other processes append behind the tail meanwhile.
                let bytes = if file == tail.file { tail.position } else { open_regular(&path)?.metadata()?.len() };
                self.is_whole_file(file, bytes)
            };
            match whole() {
                Ok(true) => {}
                Ok(false) => damaged.push(path),
                // A snapshot has replaced it.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(Error::io(context())(e)),
            }
        }
        Ok(damaged)
    }

    /// Returns whether a chain of whole records fills the first `length` bytes of a file of the log.
    pub(super) fn is_whole_file(&self, file: u64, length: u64) -> io::Result<bool> {
        let bytes = read_regular(&self.path(file))?;
        Ok(length == 0 || self.find_chain_end(&bytes, file, length).is_some())
    }

    /// Returns the end of the chain of whole records that fills the first `length` of the bytes of a file of the log. None if none does.
    fn find_chain_end(&self, bytes: &[u8], file: u64, length: u64) -> Option<Tail> {
        let header = bytes.get(..RECORD_HEADER_BYTES)?;
        let mut tail = Tail { sequence: file - 1, checksum: u64_at(header, 24), file, position: 0 };
        while tail.position < length {
            tail = self.parse(self.folder(), bytes, tail).ok()??.tail;
        }
        (tail.position == length).then_some(tail)
    }

    /// Returns whether the copy of the log in `folder` holds a record that follows the one that ends at `tail`.
    pub fn goes_on_in(&self, folder: &Path, tail: Tail) -> Result<bool> {
        let in_next_file = Tail { file: tail.sequence + 1, position: 0, ..tail };
        for tail in [tail, in_next_file] {
            let path = folder.join(name(tail.file));
            // As a rule, the copy ends here, and is not read.
            if fs::metadata(&path).is_ok_and(|copy| copy.len() > tail.position)
                && self.parse(folder, &read(&path)?, tail)?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether the file to which a record belongs ends before it. Otherwise the file has other bytes in its
    /// place.
    pub fn ends_before(&self, end: Tail, record: &[u8]) -> bool {
        let begin = end.position - record.len() as u64;
        fs::metadata(self.path(end.file)).map_or(true, |file| file.len() <= begin)
    }

    /// Writes a record that this log has lost and a copy still holds. It is not synced: if a power cut takes it, the next
    /// recovery finds it in the copy again.
    pub fn mend(&self, end: Tail, record: &[u8]) -> Result<PathBuf> {
        let path = self.path(end.file);
        let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
        file.and_then(|file| file.write_all_at(record, end.position - record.len() as u64))
            .map_err(Error::io(format!("mending {}", path.display())))?;
        Ok(path)
    }

    /// Writes the records again that a file of this log has lost before `end`, from a folder that has all of them. Returns the file if it
    /// did. No replay from a snapshot needs those before its end, but a file with a hole counts as damaged.
    pub fn mend_before(&self, end: Tail, folders: &[&Path]) -> Result<Option<PathBuf>> {
        if end.position == 0 || self.find_whole_before(end, &[self.folder()])?.is_some() {
            return Ok(None);
        }
        self.find_whole_before(end, folders)?.map(|bytes| self.mend(end, &bytes[..end.position as usize])).transpose()
    }

    /// Returns whether a folder has all records before `end`, as far as they are in the same file.
    pub fn is_whole_before(&self, end: Tail, folders: &[&Path]) -> Result<bool> {
        Ok(end.position == 0 || self.find_whole_before(end, folders)?.is_some())
    }

    fn find_whole_before(&self, end: Tail, folders: &[&Path]) -> Result<Option<Vec<u8>>> {
        for folder in folders {
            let bytes = read(&folder.join(name(end.file)))?;
            // The checksum of the last record covers all before it, so a log that went on differently does not end there.
            if self.find_chain_end(&bytes, end.file, end.position) == Some(end) {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    match read_regular(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(Error::io(format!("reading {}", path.display()))),
    }
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |n, &byte| n << 8 | u32::from(byte))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte))
}
