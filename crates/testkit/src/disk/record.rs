//! The files of a recorded disk on the real one: `record` (one entry for each write and flush), `data` (the bytes written)
//! and `current` (the disk as it is now).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of an entry in `record`.
const ENTRY_BYTES: usize = 32;

/// One request that the disk received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Bytes, which are in `data` from `at` on; `None` if all of them are zero, and not in `data`.
    Write { offset: u64, length: u64, at: Option<u64> },
    /// All writes before it are durable.
    Flush,
}

impl Entry {
    fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let (kind, offset, length, at) = match self {
            Entry::Write { offset, length, at: Some(at) } => (0, offset, length, at),
            Entry::Write { offset, length, at: None } => (1, offset, length, 0),
            Entry::Flush => (2u64, 0, 0, 0),
        };
        let mut bytes = [0; ENTRY_BYTES];
        for (part, value) in bytes.chunks_exact_mut(8).zip([kind, offset, length, at]) {
            part.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    fn parse(bytes: &[u8]) -> Entry {
        let value =
            |index: usize| bytes[8 * index..][..8].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let at = (value(0) == 0).then(|| value(3));
        if value(0) == 2 { Entry::Flush } else { Entry::Write { offset: value(1), length: value(2), at } }
    }
}

/// Counts the entries so far.
pub(super) fn count_entries(folder: &Path) -> io::Result<usize> {
    Ok(folder.join("record").metadata()?.len() as usize / ENTRY_BYTES)
}

/// Reads all entries so far.
pub(super) fn read_entries(folder: &Path) -> io::Result<Vec<Entry>> {
    Ok(std::fs::read(folder.join("record"))?.chunks_exact(ENTRY_BYTES).map(Entry::parse).collect())
}

/// The server's part: applies requests and records them.
pub(super) struct Recorder {
    current: File,
    record: File,
    data: File,
    entries: u64,
    data_bytes: u64,
}

impl Recorder {
    /// Records in `folder`, which contains `current` already. An earlier record there is discarded.
    pub(super) fn new(folder: &Path) -> io::Result<Recorder> {
        let current = File::options().read(true).write(true).open(folder.join("current"))?;
        let (record, data) = (File::create(folder.join("record"))?, File::create(folder.join("data"))?);
        Ok(Recorder { current, record, data, entries: 0, data_bytes: 0 })
    }

    pub(super) fn size(&self) -> io::Result<u64> {
        Ok(self.current.metadata()?.len())
    }

    pub(super) fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut done = 0;
        while done < length {
            match self.current.read_at(&mut bytes[done..], offset + done as u64)? {
                0 => break,
                count => done += count,
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.current.write_all_at(bytes, offset)?;
        let zero = bytes.iter().all(|byte| *byte == 0);
        if !zero {
            self.data.write_all_at(bytes, self.data_bytes)?;
        }
        let at = (!zero).then_some(self.data_bytes);
        self.data_bytes += if zero { 0 } else { bytes.len() as u64 };
        self.add(Entry::Write { offset, length: bytes.len() as u64, at })
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.add(Entry::Flush)
    }

    /// Adds an entry, after its bytes, so that a reader never sees one whose bytes are missing.
    fn add(&mut self, entry: Entry) -> io::Result<()> {
        self.record.write_all_at(&entry.to_bytes(), self.entries * ENTRY_BYTES as u64)?;
        self.entries += 1;
        Ok(())
    }
}
