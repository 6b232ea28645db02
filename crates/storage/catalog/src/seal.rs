//! Bytes that tell to which store they belong.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes with a checksum that only one store's id gives.
#[derive(Debug)]
pub struct Seal {
    bytes: Vec<u8>,
    checksum: u64,
}

impl Seal {
    /// The seal of these bytes, whose checksum is seeded with the store's id.
    pub fn new(bytes: Vec<u8>, checksum: u64) -> Seal {
        Seal { bytes, checksum }
    }

    /// Returns whether the bytes are whole and belong to the store with this id.
    pub fn is_of(&self, store: u64) -> bool {
        xxh3_64_with_seed(&self.bytes, store) == self.checksum
    }

    /// The number of bytes that a comparison reads.
    pub fn length(&self) -> usize {
        self.bytes.len()
    }
}
