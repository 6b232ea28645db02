//! The global heap of an HDF5 file: byte strings, such as texts of different lengths, to which attributes refer.

use crate::model::Misfit;

/// The smallest size of a collection that HDF5 reads.
const MIN_COLLECTION_BYTES: usize = 4096;
const HEADER_BYTES: usize = 16;

/// A collection of byte strings.
#[derive(Default)]
pub struct Heap {
    /// Its address in the file.
    address: u64,
    objects: Vec<u8>,
    count: u16,
}

impl Heap {
    /// Makes a heap that will be at this address.
    pub fn at(address: u64) -> Heap {
        Heap { address, ..Heap::default() }
    }

    /// Adds the bytes of `length` elements, and returns a reference to them. No elements take no space.
    pub fn add(&mut self, length: u32, bytes: &[u8]) -> Result<[u8; 16], Misfit> {
        let mut reference = [0; 16];
        let (count, rest) = reference.split_at_mut(4);
        count.copy_from_slice(&length.to_le_bytes());
        if length == 0 {
            return Ok(reference);
        }
        let number = self.count.checked_add(1);
        self.count = number.ok_or_else(|| Misfit::NoHdf5("its attributes have more than 65,535 texts".to_owned()))?;
        let (address, index) = rest.split_at_mut(8);
        address.copy_from_slice(&self.address.to_le_bytes());
        index.copy_from_slice(&u32::from(self.count).to_le_bytes());
        self.write_header(self.count, 1, bytes.len());
        self.objects.extend(bytes);
        self.objects.resize(self.objects.len().next_multiple_of(8), 0);
        Ok(reference)
    }

    /// Writes the header of an object; its bytes follow.
    fn write_header(&mut self, index: u16, references: u16, size: usize) {
        self.objects.extend(index.to_le_bytes());
        self.objects.extend(references.to_le_bytes());
        self.objects.extend([0; 4]);
        self.objects.extend((size as u64).to_le_bytes());
    }

    /// Returns the bytes of the collection; none if it is empty.
    pub fn finish(mut self) -> Vec<u8> {
        if self.count == 0 {
            return Vec::new();
        }
        let used = HEADER_BYTES + self.objects.len();
        // The rest is an object of free space, whose size includes its own header.
        let size = (used + HEADER_BYTES).max(MIN_COLLECTION_BYTES);
        self.write_header(0, 0, size - used);
        let mut out = b"GCOL\x01\0\0\0".to_vec();
        out.extend((size as u64).to_le_bytes());
        out.extend(self.objects);
        out.resize(size, 0);
        out
    }
}
