//! The file of a snapshot: chunks of records, each with a checksum. See `docs/format.md`.

use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use terrace_system::open_regular;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::seal::Seal;
use crate::{Error, Result};

const SNAPSHOT_MAGIC: [u8; 4] = *b"TRSN";
const SNAPSHOT_VERSION: u8 = 1;
/// Records are collected into chunks of about this many bytes.
const CHUNK_BYTES: usize = 256 << 10;
/// The longest possible chunk: one that is almost full, plus the longest record.
const MAX_CHUNK_BYTES: usize = CHUNK_BYTES + (64 << 10);

/// Reads the first records of a snapshot, which tell its store. None if nothing of it is there.
pub fn first_chunk(path: &Path) -> io::Result<Option<Seal>> {
    let mut input = open_regular(path)?;
    let mut heads = [0; 32];
    if input.read_exact(&mut heads).is_err() {
        return Ok(None);
    }
    let (length, checksum) = (number(&heads[16..20]), &heads[24..]);
    let mut bytes = vec![0; length.min(MAX_CHUNK_BYTES)];
    let is_there = input.read_exact(&mut bytes).is_ok();
    Ok(is_there.then(|| Seal::new(bytes, number(checksum) as u64)))
}

/// Writes records in chunks.
pub struct Chunks<'a, W: Write> {
    store: u64,
    out: &'a mut W,
    records: u32,
    bytes: Vec<u8>,
    total: u64,
}

impl<'a, W: Write> Chunks<'a, W> {
    /// Begins a snapshot of a store.
    pub fn begin(store: u64, out: &'a mut W) -> io::Result<Self> {
        out.write_all(&SNAPSHOT_MAGIC)?;
        out.write_all(&[SNAPSHOT_VERSION, 0, 0, 0])?;
        out.write_all(&store.to_le_bytes())?;
        Ok(Chunks { store, out, records: 0, bytes: Vec::new(), total: 0 })
    }

    pub fn add(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.records += 1;
        if self.bytes.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&(self.bytes.len() as u32).to_le_bytes())?;
        self.out.write_all(&self.records.to_le_bytes())?;
        self.out.write_all(&xxh3_64_with_seed(&self.bytes, self.store ^ self.total).to_le_bytes())?;
        self.out.write_all(&self.bytes)?;
        self.total += u64::from(self.records);
        self.records = 0;
        self.bytes.clear();
        Ok(())
    }

    /// Ends the snapshot with an empty chunk, which proves that no chunk before it is missing.
    pub fn end(mut self) -> io::Result<()> {
        if self.records > 0 {
            self.flush()?;
        }
        self.flush()
    }
}

/// Returns whether a snapshot is whole.
pub fn is_whole(path: &Path, store: u64) -> Result<bool> {
    read_file(path, store, |_, _| Ok(()))
}

/// Calls `each` with the records of a snapshot, and returns whether it is whole.
///
/// # Errors
/// If the file cannot be read. It may be whole then.
pub fn read_file(path: &Path, store: u64, each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<bool> {
    let failed = || Error::io(format!("reading {}", path.display()));
    let file = open_regular(path).map_err(failed())?;
    read(&mut BufReader::with_capacity(MAX_CHUNK_BYTES, file), store, failed, each)
}

fn read<Failed: FnOnce(io::Error) -> Error>(
    input: &mut impl Read,
    store: u64,
    failed: impl Fn() -> Failed,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<bool> {
    let mut fill = |bytes: &mut [u8]| match input.read_exact(bytes) {
        // It ends here.
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        filled => filled.map(|()| true).map_err(failed()),
    };
    let mut head = [0; 16];
    if !fill(&mut head)?
        || head[..4] != SNAPSHOT_MAGIC
        || head[4] != SNAPSHOT_VERSION
        || head[8..] != store.to_le_bytes()
    {
        return Ok(false);
    }
    let (mut total, mut bytes) = (0, Vec::new());
    while fill(&mut head)? {
        let length = number(&head[..4]);
        let records = number(&head[4..8]);
        if length > MAX_CHUNK_BYTES {
            return Ok(false);
        }
        bytes.resize(length, 0);
        if !fill(&mut bytes)? || xxh3_64_with_seed(&bytes, store ^ total).to_le_bytes() != head[8..] {
            return Ok(false);
        }
        if records == 0 {
            return Ok(true);
        }
        let mut rest = bytes.as_slice();
        for _ in 0..records {
            let Some((key, value, left)) = record(rest) else { return Ok(false) };
            each(key, value)?;
            rest = left;
        }
        total += records as u64;
    }
    Ok(false)
}

/// Splits the first record off: its key, its value, and the rest.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(6)?;
    let (key, rest) = rest.split_at_checked(number(&head[..2]))?;
    let (value, rest) = rest.split_at_checked(number(&head[2..]))?;
    Some((key, value, rest))
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |n, &byte| n << 8 | usize::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(records: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut chunks = Chunks::begin(7, &mut out).expect("begins");
        records.iter().for_each(|(key, value)| chunks.add(key, value).expect("adds"));
        chunks.end().expect("ends");
        out
    }

    fn read_back(mut bytes: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut found = Vec::new();
        let whole = read(
            &mut bytes,
            7,
            || Error::io("reading"),
            |key, value| {
                found.push((key.to_vec(), value.to_vec()));
                Ok(())
            },
        );
        whole.expect("no error").then_some(found)
    }

    proptest! {
        #[test]
        fn a_snapshot_is_read_back_whole_or_not_at_all(
            records in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..1000), prop::collection::vec(any::<u8>(), 0..2000)), 0..20),
            times in 1usize..40, damage in any::<prop::sample::Index>(), bit in 0u8..8,
        ) {
            let records: Vec<_> = records.iter().cycle().take(records.len() * times).cloned().collect();
            let bytes = written(&records);
            prop_assert_eq!(read_back(&bytes), Some(records));
            let at = damage.index(bytes.len());
            prop_assert_eq!(read_back(&bytes[..at]), None);
            // Three bytes of the header mean nothing.
            if !(5..8).contains(&at) {
                let mut flipped = bytes;
                flipped[at] ^= 1 << bit;
                prop_assert_eq!(read_back(&flipped), None);
            }
        }
    }
}
