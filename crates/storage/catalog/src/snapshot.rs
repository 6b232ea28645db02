//! Snapshots: the whole catalog at one commit, from which a rebuild starts. See `docs/format.md`.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use heed::{PutFlags, RoTxn, RwTxn};
use terrace_system::open_regular;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::environment::Environment;
use super::follow::{Followed, followed_in};
use super::members::Served;
use super::{Catalog, decode, encode, keys};
use crate::log::Tail;
use crate::seal::Seal;
use crate::{Error, Result};

const SNAPSHOT_MAGIC: [u8; 4] = *b"TRSN";
const SNAPSHOT_VERSION: u8 = 1;
/// A lost log had fewer incarnations than this that the catalog of its successor has not seen.
const MAX_UNKNOWN_INCARNATIONS: u32 = 1024;
/// Records are collected into chunks of about this many bytes.
const CHUNK_BYTES: usize = 256 << 10;
/// The longest possible chunk: one that is almost full, plus the longest record.
const MAX_CHUNK_BYTES: usize = CHUNK_BYTES + (64 << 10);

impl Catalog {
    /// Writes every record, as of one commit, into a new file, and makes the file durable. Returns the log's end at that commit,
    /// and the last commit that a sync mark covers.
    pub fn write_snapshot(&self, path: &Path) -> Result<(Tail, u64)> {
        let describe = |env: &Environment, txn: &RoTxn<'_>| Ok((self.tail_in(env, txn)?, self.synced_in(env, txn)?));
        self.write_all_records(path, describe, |_, value| Ok(Some(Cow::Borrowed(value))))
    }

    /// Like [`Catalog::write_snapshot`], for other nodes of a shared log. Returns how far the snapshot has followed it.
    pub fn write_snapshot_for_others(&self, path: &Path) -> Result<Followed> {
        self.write_all_records(path, followed_in, |_, value| Ok(Some(Cow::Borrowed(value))))
    }

    /// Like [`Catalog::write_snapshot_for_others`], with which a new log begins in the place of a lost one, as if this were its first
    /// record, and left this `chain`. No node has joined that log, and no client is known there.
    pub fn write_snapshot_for_new_log(&self, path: &Path, chain: u64) -> Result<Followed> {
        let begin = |env: &Environment, txn: &RoTxn<'_>| Ok(Followed { slot: 1, chain, ..followed_in(env, txn)? });
        self.write_all_records(path, begin, |key, value| match key.first() {
            Some(&keys::INCARNATION_LETTER | &keys::SESSION_LETTER) => Ok(None),
            // The new log gives numbers to incarnations from the beginning.
            Some(&keys::SERVED_LETTER) => {
                let served: Served = decode(value, "the record of a served target")?;
                Ok(Some(Cow::Owned(encode(&Served { incarnation: 0, ..served })?)))
            }
            // Those that joined the lost log unknown to this catalog have made segments, which must not be made again.
            _ if key == keys::JOINED_KEY => {
                let joined: u32 = decode(value, "the number of incarnations")?;
                Ok(Some(Cow::Owned(encode(&joined.saturating_add(MAX_UNKNOWN_INCARNATIONS))?)))
            }
            _ if key == keys::FOLLOWED_KEY => {
                let followed: Followed = decode(value, "the place in the shared log")?;
                Ok(Some(Cow::Owned(encode(&Followed { slot: 1, chain, ..followed })?)))
            }
            _ => Ok(Some(Cow::Borrowed(value))),
        })
    }

    fn write_all_records<T>(
        &self,
        path: &Path,
        describe: impl FnOnce(&Environment, &RoTxn<'_>) -> Result<T>,
        change: impl for<'v> Fn(&[u8], &'v [u8]) -> Result<Option<Cow<'v, [u8]>>>,
    ) -> Result<T> {
        let context = || format!("writing {}", path.display());
        // A file that is there may keep room for this one, which a full disk would not give a second time.
        let file = File::options().create(true).write(true).truncate(false).mode(0o600).open(path);
        let mut out = BufWriter::new(file.map_err(Error::io(context()))?);
        let env = self.env()?;
        let txn = env.read_txn()?;
        let described = describe(&env, &txn)?;
        let mut chunks = Chunks { store: self.log.store(), out: &mut out, records: 0, bytes: Vec::new(), total: 0 };
        chunks.begin().map_err(Error::io(context()))?;
        for entry in env.records.iter(&txn)? {
            let (key, value) = entry?;
            if key.first() == Some(&keys::LEASE_LETTER) {
                continue;
            }
            if let Some(value) = change(key, value)? {
                chunks.add(key, &value).map_err(Error::io(context()))?;
            }
        }
        chunks.end().map_err(Error::io(context()))?;
        // Before the file is synced, which may take seconds: meanwhile LMDB could use no page again that a commit frees.
        drop(txn);
        let mut file = out.into_inner().map_err(|e| Error::io(context())(e.into_error()))?;
        file.stream_position().and_then(|length| file.set_len(length)).map_err(Error::io(context()))?;
        // The caller renames the file and then deletes the log that it replaces, so its bytes must be durable before that.
        file.sync_all().map_err(Error::io(context()))?;
        Ok(described)
    }

    /// Replaces all records by those of a snapshot that has followed the shared log further, in one transaction: readers see the old or
    /// the new ones. This node's leases and its next number stay. Returns false, and changes nothing, if the snapshot is not whole or
    /// not newer.
    pub fn replace_by_snapshot(&self, path: &Path) -> Result<bool> {
        let env = self.env()?;
        let mut txn = env.write_txn()?;
        let before = followed_in(&env, &txn)?.slot;
        let mut own: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for prefix in [&[keys::LEASE_LETTER][..], keys::NEXT_ID] {
            for entry in env.records.prefix_iter(&txn, prefix)? {
                own.push(entry.map(|(key, value)| (key.to_vec(), value.to_vec()))?);
            }
        }
        env.records.clear(&mut txn)?;
        if !self.fill(&env, &mut txn, path)? || followed_in(&env, &txn)?.slot <= before {
            txn.abort();
            return Ok(false);
        }
        for (key, value) in own {
            env.records.put(&mut txn, &key, &value)?;
        }
        self.environment.commit(txn)?;
        Ok(true)
    }

    /// Fills this new catalog from a snapshot. Returns false, and changes nothing, if the snapshot is not whole.
    pub fn load_snapshot(&self, path: &Path) -> Result<bool> {
        let env = self.env()?;
        let mut txn = env.write_txn()?;
        let whole = self.fill(&env, &mut txn, path)?;
        if whole {
            self.environment.commit(txn)?
        } else {
            txn.abort()
        }
        Ok(whole)
    }

    /// Adds the records of a snapshot where there are none. Returns whether the snapshot is whole.
    fn fill(&self, env: &Environment, txn: &mut RwTxn<'_>, path: &Path) -> Result<bool> {
        let file = open_regular(path).map_err(Error::io(format!("opening {}", path.display())))?;
        let mut input = BufReader::with_capacity(MAX_CHUNK_BYTES, file);
        read_chunks(&mut input, self.log.store(), |key, value| {
            Ok(env.records.put_with_flags(txn, PutFlags::APPEND, key, value)?)
        })
    }
}

/// Reads the log's end from a snapshot. `None` if the snapshot is not whole.
pub fn snapshot_tail(path: &Path, store: u64) -> Result<Option<Tail>> {
    let file = open_regular(path).map_err(Error::io(format!("opening {}", path.display())))?;
    let mut tail = None;
    let whole = read_chunks(&mut BufReader::with_capacity(MAX_CHUNK_BYTES, file), store, |key, value| {
        if key == keys::TAIL_KEY {
            tail = Some(decode(value, "the log's tail")?);
        }
        Ok(())
    })?;
    Ok(tail.filter(|_| whole))
}

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

struct Chunks<'a, W: Write> {
    store: u64,
    out: &'a mut W,
    records: u32,
    bytes: Vec<u8>,
    total: u64,
}

impl<W: Write> Chunks<'_, W> {
    fn begin(&mut self) -> io::Result<()> {
        self.out.write_all(&SNAPSHOT_MAGIC)?;
        self.out.write_all(&[SNAPSHOT_VERSION, 0, 0, 0])?;
        self.out.write_all(&self.store.to_le_bytes())
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
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
    fn end(&mut self) -> io::Result<()> {
        if self.records > 0 {
            self.flush()?;
        }
        self.flush()
    }
}

/// Calls `each` with the records of a snapshot, and returns whether it is whole.
fn read_chunks(input: &mut impl Read, store: u64, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<bool> {
    let mut head = [0; 16];
    if input.read_exact(&mut head).is_err()
        || head[..4] != SNAPSHOT_MAGIC
        || head[4] != SNAPSHOT_VERSION
        || head[8..] != store.to_le_bytes()
    {
        return Ok(false);
    }
    let (mut total, mut bytes) = (0, Vec::new());
    while input.read_exact(&mut head).is_ok() {
        let length = number(&head[..4]);
        let records = number(&head[4..8]);
        if length > MAX_CHUNK_BYTES {
            return Ok(false);
        }
        bytes.resize(length, 0);
        let whole = input.read_exact(&mut bytes).is_ok();
        if !whole || xxh3_64_with_seed(&bytes, store ^ total).to_le_bytes() != head[8..] {
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
        let mut chunks = Chunks { store: 7, out: &mut out, records: 0, bytes: Vec::new(), total: 0 };
        chunks.begin().expect("begins");
        records.iter().for_each(|(key, value)| chunks.add(key, value).expect("adds"));
        chunks.end().expect("ends");
        out
    }

    fn read(mut bytes: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut found = Vec::new();
        let whole = read_chunks(&mut bytes, 7, |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            Ok(())
        });
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
            prop_assert_eq!(read(&bytes), Some(records));
            let at = damage.index(bytes.len());
            prop_assert_eq!(read(&bytes[..at]), None);
            // Three bytes of the header mean nothing.
            if !(5..8).contains(&at) {
                let mut flipped = bytes;
                flipped[at] ^= 1 << bit;
                prop_assert_eq!(read(&flipped), None);
            }
        }
    }

    /// Nodes joined a log after its last snapshot was written, and made segments, before all was lost but the snapshot.
    #[test]
    fn a_new_log_gives_no_number_of_an_incarnation_that_it_does_not_know() {
        let dir = tempfile::tempdir().expect("a folder");
        let open = |name: &str| {
            let log = crate::log::Log::open(&dir.path().join(name).join("log"), 1).expect("a log");
            Catalog::open(&dir.path().join(name).join("catalog"), log).expect("a catalog")
        };
        let join = |catalog: &Catalog, slot: u64, incarnation: u64| {
            let steps = vec![terrace_format::Step::Join { node: incarnation.to_string() }];
            let proposal = terrace_format::Proposal { incarnation, number: 0, time: 0, steps };
            catalog.follow(slot, &[proposal.encode(1)]).expect("follows");
            catalog.member(incarnation).expect("reads").expect("has joined").short
        };
        let old = open("old");
        join(&old, 1, 10);
        let file = dir.path().join("snapshot");
        old.write_snapshot_for_new_log(&file, 7).expect("writes");
        let unknown: Vec<u32> = (2..100).map(|slot| join(&old, slot, 10 + slot)).collect();
        let new = open("new");
        assert!(new.load_snapshot(&file).expect("reads"));
        // The new log's incarnations begin with lower numbers.
        let short = join(&new, 2, 3);
        assert!(!unknown.contains(&short) && new.member(10).expect("reads").is_none());
    }
}
