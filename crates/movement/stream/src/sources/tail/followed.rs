//! A followed file: its identity and the bytes added to it.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use crate::entry::{Entry, Lane, Position};
use crate::ledger::{LANE_PREFIX, Ledger};
use crate::request::{Name, Place, Request};

/// The size of a part, which becomes one request.
const PART_BYTES: u64 = 1 << 20;
/// The number of leading bytes whose change reveals that a file was truncated and refilled.
const HEAD_BYTES: u64 = 256;

/// Device, inode and time of birth.
pub type Id = (u64, u64, u64);

/// A file that is followed.
pub struct Followed {
    pub destination: Name,
    /// Its present path.
    pub path: PathBuf,
    /// The number of times that it was truncated.
    pub generation: u64,
    /// The position up to which it was pulled.
    pub offset: u64,
    pub size: u64,
    pub file: Option<File>,
}

pub fn id(metadata: &fs::Metadata) -> Id {
    let birth = metadata.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    (metadata.dev(), metadata.ino(), birth.map_or(0, |at| at.as_nanos() as u64))
}

pub fn lane(id: Id, generation: u64) -> String {
    format!("{LANE_PREFIX}{:x}-{:x}-{:x}-{generation:x}", id.0, id.1, id.2)
}

pub fn parse_lane(name: &str) -> Option<(Id, u64)> {
    let mut numbers = name.strip_prefix(LANE_PREFIX)?.split('-').map(|part| u64::from_str_radix(part, 16).ok());
    let mut next = || numbers.next().flatten();
    Some(((next()?, next()?, next()?), next()?))
}

/// Hashes the leading bytes of a file whose first `offset` bytes were delivered.
pub fn head(file: &File, offset: u64) -> std::io::Result<u64> {
    let mut bytes = vec![0; offset.min(HEAD_BYTES) as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(xxh3_64(&bytes))
}

pub fn open(path: &Path) -> std::io::Result<File> {
    // Neither follow a symbolic link that replaced the file, nor wait for the writer of a pipe.
    File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

impl Followed {
    /// Whether the leading bytes differ from those that were delivered.
    pub fn is_refilled(&self, id: Id, ledger: &Ledger) -> bool {
        let done = ledger.done(&self.destination, &lane(id, self.generation)).ok().flatten();
        let file = self.file.as_ref().and_then(|file| file.try_clone().ok()).or_else(|| open(&self.path).ok());
        let head = done.and_then(|done| Some((head(&file?, done.0).ok()?, done.1)));
        head.is_some_and(|(now, then)| now != then)
    }

    /// Returns the added bytes, at most one part, as the next entry of source number `source`; `None` if the file cannot be read.
    pub fn part(&mut self, id: Id, source: usize, next: &mut u64) -> Option<Entry> {
        let opened;
        let file = match &self.file {
            Some(file) => file,
            None => {
                opened = open(&self.path).ok()?;
                &opened
            }
        };
        let mut bytes = vec![0; (self.size - self.offset).min(PART_BYTES) as usize];
        file.read_exact_at(&mut bytes, self.offset).ok()?;
        let end = self.offset + bytes.len() as u64;
        let until = Position(end, head(file, end).ok()?);
        self.offset = end;
        *next += 1;
        let (destination, place) = (self.destination.clone(), Place::Append);
        let request = Request { destination, place, bytes: Bytes::from(bytes), ends: false };
        let lane = Lane { name: lane(id, self.generation).into(), until, device: id.0, inode: id.1 };
        Some(Entry { request, source, position: Position(*next, 0), file: None, lane: Some(lane) })
    }
}
