//! The records that a dump stores beside its chunks, and which locate them.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use terrace::{Ack, PutOptions, Store};

use crate::chunk::Hash;
use crate::{Error, Result};

/// The chunks that make up a rank's buffers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The number of the dump attempt, as in [`Complete::attempt`].
    pub attempt: u64,
    /// Each buffer's length in bytes.
    pub buffers: Vec<u64>,
    /// The distinct chunks.
    pub chunks: Vec<Held>,
    /// For each chunk of each buffer in turn, its number among `chunks`.
    pub sequence: Vec<u32>,
}

impl Manifest {
    /// Returns the position of each chunk of the sequence: its number among `chunks`, its buffer and its first byte
    /// there.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the lengths of chunks and buffers disagree.
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

/// The position of a chunk in a buffer.
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

/// A chunk and the stores that have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The chunk.
    pub hash: Hash,
    /// Its length in bytes.
    pub length: u32,
    /// The stores that have it, by their numbers in the dump's [`Complete::stores`].
    pub stores: SmallVec<[u32; 4]>,
}

/// The record that all ranks of a dump share. A dump exists if and only if this record does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Complete {
    /// A random number. If a version is made twice, because only unavailable stores knew the first one, this number
    /// keeps the records of the two apart.
    pub attempt: u64,
    /// The length in bytes of each buffer of each rank.
    pub buffers: Vec<Vec<u64>>,
    /// The number of nodes that have each chunk.
    pub copies: u32,
    /// The nodes' stores.
    pub stores: Vec<u64>,
}

/// The places of the chunks in a store that a dump needs.
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
    /// Appends the packs and chunks of another index.
    pub fn append(&mut self, other: Index) {
        let first = self.packs.len() as u32;
        self.packs.extend(other.packs);
        let chunks = other.chunks.into_iter();
        // A damaged index may name a pack of any number; no pack has the highest one.
        self.chunks
            .extend(chunks.map(|(hash, place)| (hash, Place { pack: place.pack.saturating_add(first), ..place })));
    }
}

/// Returns the options for all objects of a dump. They have one replica, because the dump itself replicates chunks over
/// nodes.
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

/// Encodes a record.
pub fn encode(record: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(record).map_err(|e| Error::damaged("a record", e))
}

/// Decodes a record; `what` names its origin in errors.
pub fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|e| Error::damaged(what, e))
}
