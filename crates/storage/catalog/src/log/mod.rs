//! The commit log: the truth. The catalog is an index over it. See `docs/format.md`.
//!
//! All processes of a store share one log. The process that holds the catalog's write transaction appends to it. The
//! catalog records where the log ends, so the next writer overwrites anything that a dead one left behind the end.

mod copy;
mod reach;
mod record_seals;
mod replay;

pub use reach::{
    Reach, read_reach, read_target_reach, remove_reach, remove_target_reach, write_reach, write_target_reach,
};
pub use record_seals::read_record_seals;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix_futex_sync::Mutex;
use serde::{Deserialize, Serialize};
use terrace_format::Edit;
use terrace_system::{failed_sync, open_regular};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{Error, Result};

const RECORD_MAGIC: [u8; 4] = *b"TRLG";
const RECORD_VERSION: u8 = 1;
const RECORD_HEADER_BYTES: usize = 48;
const CHECKSUM_RANGE: std::ops::Range<usize> = 40..48;
/// A file of this length takes no more records. A replay reads whole files into memory.
const MAX_FILE_BYTES: u64 = 32 << 20;
/// A shorter file is full at this length, ...
const MIN_FILE_BYTES: u64 = 4 << 20;
/// ... or at this many times the catalog's size if that is more.
const FILE_BYTES_PER_CATALOG_BYTE: u64 = 4;
/// A snapshot is due once it replaces this many times the catalog's size in whole files of the log. A snapshot is never longer than the
/// catalog, and each file is replaced once, so snapshots write at most half as much as the log, however large the catalog is.
const REPLACED_BYTES_PER_CATALOG_BYTE: u64 = 2;

/// The end of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tail {
    /// The last commit's sequence; 0 before the first.
    pub sequence: u64,
    /// The last record's checksum.
    pub checksum: u64,
    /// The file that is appended to, named by the first sequence in it.
    pub file: u64,
    /// Its length.
    pub position: u64,
}

/// One record: a group of commits with consecutive sequences.
#[derive(Debug)]
pub struct Record {
    /// The first commit's sequence.
    pub first: u64,
    /// The time of the commits: seconds since 1970.
    pub time: u64,
    /// The edits of each commit.
    pub commits: Vec<Vec<Edit>>,
    /// The end of this record, which is the log's end if no other follows.
    pub tail: Tail,
}

/// The log's whole files beside its newest snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreplaced {
    /// The bytes of those with commits after the snapshot.
    pub bytes: u64,
    /// Whether there are others, which the process that made the snapshot did not delete.
    pub has_replaced: bool,
}

/// The log of a store.
pub struct Log {
    folder: PathBuf,
    store: u64,
    /// The length at which a file is full. Read and written without order: an outdated value only makes a file a little
    /// longer or shorter.
    full: AtomicU64,
    /// The highest value of `full`.
    max_full: u64,
    /// No snapshot is due before its files have this length. Read and written without order, as `full`.
    replaced: AtomicU64,
    /// The file that was used last, by its number. A leaf: no other lock is taken under it. It is held while the file is
    /// opened, never while it is read, written or synced.
    open: Mutex<Option<(u64, Arc<File>)>>,
    /// The ends of the copies, one for each folder. A leaf, held for the lookup or update of an entry, never during I/O.
    copies: Mutex<Vec<copy::CopyEnd>>,
    /// For each folder with a copy: the files before this one are whole and durable there. A leaf, as `copies`.
    copied_before: Mutex<Vec<(PathBuf, u64)>>,
    /// The last commit that this process made durable. `sync` stores it (release) after the files are synced; a thread that
    /// reads it (acquire) may skip its own sync of all commits up to it.
    durable: AtomicU64,
    /// All files before this one are durable and get no more records. Raised (release) after they are synced.
    durable_before: AtomicU64,
}

impl Log {
    /// Opens the log in `folder`. Creates the folder if it is missing.
    pub fn open(folder: &Path, store: u64) -> Result<Log> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(Error::io(format!("making {}", folder.display())))?;
        let max_full = terrace_system::fail::limit("TERRACE_LOG_FILE", MAX_FILE_BYTES);
        let full = AtomicU64::new(max_full);
        Ok(Log {
            folder: folder.to_owned(),
            store,
            full,
            max_full,
            replaced: AtomicU64::new(0),
            open: Mutex::new(None),
            copies: Mutex::new(Vec::new()),
            copied_before: Mutex::new(Vec::new()),
            durable: AtomicU64::new(0),
            durable_before: AtomicU64::new(0),
        })
    }

    /// The store's id, with which checksums of its records and frames are seeded.
    pub fn store(&self) -> u64 {
        self.store
    }

    /// The folder of the log's files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The log's files, oldest first, each named by the first sequence in it.
    pub fn files(&self) -> Result<Vec<u64>> {
        files(&self.folder).map_err(Error::io(format!("listing {}", self.folder.display())))
    }

    /// The path of a file of the log.
    pub fn path(&self, file: u64) -> PathBuf {
        self.folder.join(name(file))
    }

    /// Adapts the length of the log and of its files to the size of the catalog: a small store must not have a long log.
    pub fn fit_to(&self, catalog_bytes: u64) {
        let wanted = catalog_bytes.saturating_mul(FILE_BYTES_PER_CATALOG_BYTE).max(MIN_FILE_BYTES);
        self.full.store(wanted.min(self.max_full), Ordering::Relaxed);
        // Where tests ask for small files, each of them is enough for a snapshot.
        let is_usual = self.max_full == MAX_FILE_BYTES;
        let replaced = if is_usual { catalog_bytes.saturating_mul(REPLACED_BYTES_PER_CATALOG_BYTE) } else { 0 };
        self.replaced.store(replaced, Ordering::Relaxed);
    }

    /// Returns the whole files of the log that the newest snapshot does not replace. `files` are those of
    /// [`Catalog::log_files`](crate::Catalog::log_files).
    ///
    /// # Errors
    /// If the log's folder cannot be read.
    pub fn unreplaced(&self, files: &[u64]) -> Result<Unreplaced> {
        let context = || format!("listing {}", self.folder.display());
        let newest = snapshots(&self.folder).map_err(Error::io(context()))?.pop().unwrap_or_default();
        let mut found = Unreplaced { bytes: 0, has_replaced: false };
        for pair in files.windows(2) {
            // The last sequence in the file.
            if pair[1].saturating_sub(1) <= newest {
                // The newest snapshot's own file stays, also if the snapshot is as of its end: a later record follows from that one.
                found.has_replaced |= pair[1] <= newest;
                continue;
            }
            match fs::metadata(self.path(pair[0])) {
                // Another process replaced it.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                file => found.bytes += file.map_err(Error::io(context()))?.len(),
            }
        }
        Ok(found)
    }

    /// Returns whether this number of bytes in whole files is enough for a snapshot.
    pub fn is_snapshot_due(&self, bytes: u64) -> bool {
        // Relaxed: see `full`.
        bytes > 0 && bytes >= self.replaced.load(Ordering::Relaxed)
    }

    /// Opens a file of the log, which must have at least `length` bytes.
    fn file(&self, file: u64, length: u64) -> Result<Arc<File>> {
        let mut open = self.open.lock();
        if let Some((id, handle)) = open.as_ref()
            && *id == file
        {
            return Ok(handle.clone());
        }
        let path = self.path(file);
        let context = || format!("opening {}", path.display());
        // What lies behind the log's end is nobody's.
        let is_new = length == 0;
        let handle = OpenOptions::new().read(true).write(true).create(is_new).truncate(is_new).mode(0o600).open(&path);
        let handle = handle.map_err(Error::io(context()))?;
        check_length(&|| path.clone(), &handle, length)?;
        let handle = Arc::new(handle);
        *open = Some((file, handle.clone()));
        Ok(handle)
    }

    /// Forgets the open file and what was synced, because the files in the log's folder have been replaced.
    pub fn forget_open_file(&self) {
        *self.open.lock() = None;
        // The numbers are about the old files. With them, `sync` and `copy_to` would skip the new ones.
        self.copied_before.lock().clear();
        self.durable.store(0, Ordering::Release);
        self.durable_before.store(0, Ordering::Release);
    }

    /// Appends the record of the encoded `commits` at `tail`, and returns the new tail. The caller holds the catalog's write
    /// transaction, so that no two writers append at the same place.
    pub fn append(&self, tail: Tail, time: u64, count: u32, commits: &[u8], buffer: &mut Vec<u8>) -> Result<Tail> {
        buffer.clear();
        buffer.extend_from_slice(&RECORD_MAGIC);
        buffer.extend_from_slice(&[RECORD_VERSION, 0, 0, 0]);
        buffer.extend_from_slice(&(commits.len() as u32).to_le_bytes());
        buffer.extend_from_slice(&count.to_le_bytes());
        buffer.extend_from_slice(&(tail.sequence + 1).to_le_bytes());
        buffer.extend_from_slice(&tail.checksum.to_le_bytes());
        buffer.extend_from_slice(&time.to_le_bytes());
        buffer.extend_from_slice(&[0; 8]);
        buffer.extend_from_slice(commits);
        let checksum = xxh3_64_with_seed(buffer, self.store);
        buffer[CHECKSUM_RANGE].copy_from_slice(&checksum.to_le_bytes());
        // Relaxed: see `full`.
        let tail = match tail.position >= self.full.load(Ordering::Relaxed) {
            true => {
                self.remove_between(tail.file, tail.sequence + 1)?;
                Tail { file: tail.sequence + 1, position: 0, ..tail }
            }
            false => tail,
        };
        let file = self.file(tail.file, tail.position)?;
        // Somebody may have cut it since it was opened.
        check_length(&|| self.path(tail.file), &file, tail.position)?;
        file.write_all_at(buffer, tail.position)
            .map_err(|e| Error::io(format!("appending to {}", self.path(tail.file).display()))(e))?;
        let sequence = tail.sequence + u64::from(count);
        Ok(Tail { sequence, checksum, position: tail.position + buffer.len() as u64, ..tail })
    }

    /// Removes files that lie between two of the log, and belong to neither: a power cut or a kill came when they were new, and the log
    /// went on in the file before them.
    fn remove_between(&self, last: u64, next: u64) -> Result<()> {
        let stale: Vec<u64> = self.files()?.into_iter().filter(|file| last < *file && *file < next).collect();
        for file in &stale {
            let path = self.path(*file);
            tracing::debug!(path = %path.display(), "removed a file that the log has never gone on in");
            fs::remove_file(&path).map_err(Error::io(format!("removing {}", path.display())))?;
        }
        if stale.is_empty() {
            return Ok(());
        }
        // Before the next file is there: a power cut must not bring these back in front of it.
        let synced = File::open(&self.folder).and_then(|folder| folder.sync_all());
        synced.map_err(Error::io(format!("syncing {}", self.folder.display())))
    }

    /// Makes the log up to `tail` durable.
    pub fn sync(&self, tail: Tail) -> Result<()> {
        if self.durable.load(Ordering::Acquire) >= tail.sequence {
            return Ok(());
        }
        let context = || format!("syncing {}", self.path(tail.file).display());
        // Any number of files may have been filled since the last sync, also by other processes.
        let unsynced = self.durable_before.load(Ordering::Acquire)..=tail.file;
        for file in self.files()?.into_iter().filter(|file| unsynced.contains(file)) {
            match File::open(self.path(file)) {
                // Another process deleted it, because a durable snapshot covers it.
                Err(e) if e.kind() == io::ErrorKind::NotFound && file != tail.file => {}
                opened => {
                    let mut opened = opened.map_err(Error::io(context()))?;
                    if failed_sync::has_failed(&opened).map_err(Error::io(context()))? {
                        opened = self.write_again(file, tail)?;
                    }
                    failed_sync::sync_data(&opened).map_err(Error::io(context()))?;
                }
            }
        }
        // A new file's name: without it, a power cut takes the file with all its records.
        File::open(&self.folder).and_then(|f| f.sync_all()).map_err(Error::io(context()))?;
        // After the syncs, for the threads that then skip theirs. The maximum: threads may end in any order.
        self.durable.fetch_max(tail.sequence, Ordering::AcqRel);
        self.durable_before.fetch_max(tail.file, Ordering::AcqRel);
        Ok(())
    }
}

impl Log {
    /// Writes a file's records again, because a sync of it failed. Returns the file, which is to be synced.
    fn write_again(&self, file: u64, tail: Tail) -> Result<File> {
        let path = self.path(file);
        let context = || format!("writing {} again after a sync of it failed", path.display());
        let opened = OpenOptions::new().read(true).write(true).open(&path).map_err(Error::io(context()))?;
        // Never bytes behind the tail, where another process may be writing.
        let length = opened.metadata().map_err(Error::io(context()))?.len();
        let end = if file == tail.file { tail.position } else { length };
        if !self.is_whole_file(file, end).map_err(Error::io(context()))? {
            let path = path.display();
            return Err(Error::LogDamaged(format!(
                "bytes of {path} did not reach the disk when an earlier sync failed"
            )));
        }
        let written = copy::copy_range(&opened, &opened, 0, end).and_then(|()| failed_sync::forget(&opened));
        written.map_err(Error::io(context()))?;
        Ok(opened)
    }
}

/// Refuses a file that has fewer than these bytes. A record behind a hole would be lost: every reader takes the hole for the end of the log.
fn check_length(path: &dyn Fn() -> PathBuf, file: &File, bytes: u64) -> Result<()> {
    // A tenth of what asking for all attributes takes, at each commit. The file's offset is used by nobody.
    let held = rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))
        .map_err(|e| Error::io(format!("looking at {}", path().display()))(e.into()))?;
    if held < bytes {
        let path = path();
        let path = path.display();
        return Err(Error::LogDamaged(format!("{path} ends at byte {held}, but {bytes} bytes were written to it")));
    }
    Ok(())
}

fn name(file: u64) -> String {
    format!("{file:016x}.log")
}

fn files(folder: &Path) -> io::Result<Vec<u64>> {
    numbered(folder, ".log")
}

/// The numbers in the names of the files with this ending, in order. Empty if there is no folder.
fn numbered(folder: &Path, ending: &str) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        found.extend(name.to_str().and_then(|n| n.strip_suffix(ending)).and_then(|n| u64::from_str_radix(n, 16).ok()));
    }
    found.sort_unstable();
    Ok(found)
}

/// Checks that all files in the log's folder, or in a copy of it, can be read.
pub fn check_readable(folder: &Path) -> io::Result<()> {
    let logs = files(folder)?.into_iter().map(|file| folder.join(name(file)));
    let snapshots = snapshots(folder)?.into_iter().map(|newest| snapshot(folder, newest));
    for path in logs.chain(snapshots) {
        let read = open_regular(&path).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
        read.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    }
    Ok(())
}

/// The snapshots of the catalog in the log's folder, or in a copy of it, oldest first.
pub fn snapshots(folder: &Path) -> io::Result<Vec<u64>> {
    numbered(folder, ".snapshot")
}

/// The path of the snapshot at commit `sequence`.
pub fn snapshot(folder: &Path, sequence: u64) -> PathBuf {
    folder.join(format!("{sequence:016x}.snapshot"))
}
