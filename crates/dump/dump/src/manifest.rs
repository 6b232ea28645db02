//! What a dump leaves beside chunks: records that tell what is where.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use terrace::{Ack, PutOptions, Store};

use crate::chunk::Hash;
use crate::{Error, Result};

/// Of which chunks a rank's buffers are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// As [`Complete::attempt`].
    pub attempt: u64,
    /// Each buffer's length in bytes.
    pub buffers: Vec<u64>,
    /// The distinct chunks.
    pub chunks: Vec<Held>,
    /// For each chunk of each buffer in turn, its number among `chunks`.
    pub sequence: Vec<u32>,
}

impl Manifest {
    /// Where chunks stand: for each in turn its number among `chunks`, its buffer and its first byte there.
    ///
    /// # Errors
    /// [`Error::Damaged`] where chunks and buffers do not fit together.
    pub fn positions(&self) -> Result<Vec<Position>> {
        let damaged = || Error::damaged("a manifest", "its chunks are not as long as its buffers");
        let mut sequence = self.sequence.iter();
        let mut positions = Vec::with_capacity(self.sequence.len());
        for (buffer, length) in self.buffers.iter().enumerate() {
            let mut start = 0;
            while start < *length {
                let chunk = *sequence.next().ok_or_else(damaged)?;
                let held = self.chunks.get(chunk as usize).filter(|held| held.length > 0).ok_or_else(damaged)?;
                positions.push(Position { chunk, buffer: buffer as u32, start, length: held.length });
                start += u64::from(held.length);
            }
            if start > *length {
                return Err(damaged());
            }
        }
        if sequence.next().is_some() { Err(damaged()) } else { Ok(positions) }
    }
}

/// Where a chunk stands.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// The chunk's number in the manifest.
    pub chunk: u32,
    /// The buffer.
    pub buffer: u32,
    /// The first byte in it.
    pub start: u64,
    /// The chunk's length in bytes.
    pub length: u32,
}

/// A chunk, and who has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The chunk.
    pub hash: Hash,
    /// Its length in bytes.
    pub length: u32,
    /// The stores that have it, by their numbers in the dump's [`Complete::stores`].
    pub stores: SmallVec<[u32; 4]>,
}

/// What all ranks of a dump have in common. Its being there is what makes the dump exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Complete {
    /// A random number: should a version be made twice, as only stores that were away knew that it was there, nothing of
    /// the one is taken for the other's.
    pub attempt: u64,
    /// The length in bytes of each buffer of each rank.
    pub buffers: Vec<Vec<u64>>,
    /// On how many nodes each chunk is.
    pub copies: u32,
    /// The nodes' stores.
    pub stores: Vec<u64>,
}

/// Where in a store chunks are that a dump needs of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// The keys of packs.
    pub packs: Vec<String>,
    /// Each chunk with its place.
    pub chunks: Vec<(Hash, Place)>,
}

/// A chunk's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The pack's number in the index.
    pub pack: u32,
    /// The chunk's first byte in it.
    pub offset: u32,
    /// Its length in bytes.
    pub length: u32,
}

impl Index {
    /// Takes in what another index knows.
    pub fn append(&mut self, other: Index) {
        let first = self.packs.len() as u32;
        self.packs.extend(other.packs);
        let chunks = other.chunks.into_iter();
        self.chunks.extend(chunks.map(|(hash, place)| (hash, Place { pack: place.pack + first, ..place })));
    }
}

/// How all of a dump's objects are stored: once, as the dump itself is the replication.
pub fn once() -> PutOptions {
    PutOptions { replicas: Some(1), ack: Some(Ack::Placed), ..PutOptions::default() }
}

/// Stores a record.
pub fn put(store: &Store, key: &str, record: &impl Serialize) -> Result<()> {
    store.put_bytes(key.as_bytes(), &encode(record)?, &once())?;
    Ok(())
}

/// Reads a record.
pub fn get<T: DeserializeOwned>(store: &Store, key: &str) -> Result<T> {
    decode(key, &store.get(key.as_bytes())?)
}

/// A record's bytes.
pub fn encode(record: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(record).map_err(|e| Error::damaged("a record", e))
}

/// The record that bytes hold, which came from `what`.
pub fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|e| Error::damaged(what, e))
}
