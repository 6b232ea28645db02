//! Step 1: divides buffers into chunks, which their hashes identify.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use fastcdc::v2020::FastCDC;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The identity of a chunk: the BLAKE3 hash of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Hash(pub [u8; Hash::LENGTH_BYTES]);

impl Hash {
    /// The length of a hash in bytes.
    pub const LENGTH_BYTES: usize = blake3::OUT_LEN;

    /// Hashes `bytes`.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash(blake3::hash(bytes).into())
    }

    /// Returns a number from the first bytes of the hash. It is uniformly distributed and has the same order as the
    /// hash.
    pub fn number(&self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0[..8]);
        u64::from_be_bytes(first)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}..", self.number())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::hash::Hash for Hash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.number());
    }
}

/// A map by chunk. It uses the number of the hash directly, which is uniformly distributed already.
pub type ByHash<T> = HashMap<Hash, T, BuildHasherDefault<Same>>;

/// A hasher that returns its input.
#[derive(Default)]
pub struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 << 8) | u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// How buffers are divided into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Chunking {
    /// At multiples of this number of bytes. Finds equal pages of memory, at the lowest cost.
    Fixed(u32),
    /// At boundaries that the content determines, about this number of bytes apart (FastCDC, 2020). Finds equal bytes wherever they have moved to.
    Content(u32),
}

impl Default for Chunking {
    fn default() -> Self {
        Chunking::Fixed(4096)
    }
}

impl Chunking {
    /// The valid chunk sizes in bytes.
    pub const VALID_SIZES_BYTES: std::ops::RangeInclusive<u32> = 256..=4 << 20;

    /// # Errors
    /// [`Error::Refused`] if the size is not in [`Chunking::VALID_SIZES_BYTES`].
    pub fn check(self) -> Result<()> {
        let (Chunking::Fixed(size) | Chunking::Content(size)) = self;
        match Chunking::VALID_SIZES_BYTES.contains(&size) {
            true => Ok(()),
            false => Err(Error::Refused(format!("chunks of {size} bytes; choose 256 bytes to 4 MiB, usually 4 KiB"))),
        }
    }

    /// Returns the maximum length of a chunk in bytes.
    pub fn longest(self) -> usize {
        match self {
            Chunking::Fixed(size) => size as usize,
            Chunking::Content(size) => size as usize * 4,
        }
    }

    /// Returns the chunks of a buffer, in order.
    pub fn cut<'a>(self, buffer: &'a [u8]) -> Box<dyn Iterator<Item = &'a [u8]> + 'a> {
        match self {
            Chunking::Fixed(size) => Box::new(buffer.chunks(size as usize)),
            Chunking::Content(size) => {
                // FastCDC requires even sizes.
                let size = size & !7;
                let cuts = FastCDC::new(buffer, size as usize / 4, size as usize, size as usize * 4);
                Box::new(cuts.map(|cut| &buffer[cut.offset..cut.offset + cut.length]))
            }
        }
    }
}

/// The distinct chunks of a rank's buffers, and their positions.
pub struct Chunks<'a> {
    /// The distinct chunks, in the order of their first occurrence.
    pub distinct: Vec<Chunk<'a>>,
    /// For each chunk of each buffer in turn, its number among `distinct`.
    pub sequence: Vec<u32>,
}

/// A chunk.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// Its identity.
    pub hash: Hash,
    /// Its bytes, borrowed from the buffer.
    pub bytes: &'a [u8],
}

impl<'a> Chunks<'a> {
    /// Divides buffers into chunks and removes duplicates.
    pub fn of(buffers: &[&'a [u8]], chunking: Chunking) -> Chunks<'a> {
        let mut numbers: ByHash<u32> = ByHash::default();
        let (mut distinct, mut sequence) = (Vec::new(), Vec::new());
        for bytes in buffers.iter().flat_map(|buffer| chunking.cut(buffer)) {
            let hash = Hash::of(bytes);
            let number = *numbers.entry(hash).or_insert_with(|| {
                distinct.push(Chunk { hash, bytes });
                distinct.len() as u32 - 1
            });
            sequence.push(number);
        }
        Chunks { distinct, sequence }
    }

    /// Divides buffers into chunks and keeps duplicates.
    pub fn all(buffers: &[&'a [u8]], chunking: Chunking) -> Chunks<'a> {
        let cut = buffers.iter().flat_map(|buffer| chunking.cut(buffer));
        let distinct: Vec<Chunk<'a>> = cut.map(|bytes| Chunk { hash: Hash::of(bytes), bytes }).collect();
        Chunks { sequence: (0..distinct.len() as u32).collect(), distinct }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        // Few kinds of pages, so that some are equal.
        prop::collection::vec((0u8..6, 1usize..700), 0..40)
            .prop_map(|runs| runs.into_iter().flat_map(|(byte, length)| vec![byte; length]).collect())
    }

    proptest! {
        #[test]
        fn chunks_put_together_are_the_buffers(a in bytes(), b in bytes(), size in 256u32..2000, content: bool) {
            let chunking = if content { Chunking::Content(size) } else { Chunking::Fixed(size) };
            let chunks = Chunks::of(&[&a, &b], chunking);
            let whole: Vec<u8> = chunks.sequence.iter().flat_map(|n| chunks.distinct[*n as usize].bytes).copied().collect();
            prop_assert_eq!(whole, [&a[..], &b].concat());
            for (i, one) in chunks.distinct.iter().enumerate() {
                prop_assert_eq!(one.hash, Hash::of(one.bytes));
                prop_assert!(chunks.distinct[..i].iter().all(|other| other.bytes != one.bytes));
            }
        }
    }

    #[test]
    fn chunks_by_content_are_found_again_where_bytes_were_put_before_them() {
        let bytes: Vec<u8> =
            (0..200_000u64).flat_map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()).collect();
        let moved = [b"some bytes more".as_slice(), &bytes].concat();
        let chunking = Chunking::Content(4096);
        let one = Chunks::of(&[&bytes], chunking).distinct.len();
        let both = Chunks::of(&[&bytes, &moved], chunking).distinct.len();
        assert!(one > 100 && both < one + 10, "{one} chunks, {both} with what has moved");
    }
}
