//! Bitshuffle: bits of equal rank side by side. A block is shuffled, then each eight bytes of a plane, the same bytes of
//! eight elements, become a byte for each bit.

use super::{BLOCK_BYTES, shuffle};

/// Spreads a block's elements, which begin with element `first` of all, over the planes of bits.
pub fn apply(width: usize, block: &[u8], first: usize, planes: &mut [u8]) {
    let mut bytes = [0; BLOCK_BYTES];
    let bytes = &mut bytes[..block.len()];
    shuffle::apply(width, block, 0, bytes);
    let (all, eighths) = (planes.len() / width / 8, block.len() / width / 8);
    let mut bits = [[0; BLOCK_BYTES / 8]; 8];
    for (rank, plane) in bytes.chunks_exact(eighths * 8).enumerate() {
        for (at, eight) in plane.as_chunks::<8>().0.iter().enumerate() {
            bits.iter_mut().zip(transposed(*eight)).for_each(|(bits, byte)| bits[at] = byte);
        }
        for (bit, bits) in bits.iter().enumerate() {
            planes[(rank * 8 + bit) * all + first / 8..][..eighths].copy_from_slice(&bits[..eighths]);
        }
    }
}

/// Undoes [`apply`]: fills the block from the planes.
pub fn undo(width: usize, planes: &[u8], first: usize, block: &mut [u8]) {
    let mut bytes = [0; BLOCK_BYTES];
    let bytes = &mut bytes[..block.len()];
    let (all, eighths) = (planes.len() / width / 8, block.len() / width / 8);
    for (rank, plane) in bytes.chunks_exact_mut(eighths * 8).enumerate() {
        let bits: [&[u8]; 8] = std::array::from_fn(|bit| &planes[(rank * 8 + bit) * all + first / 8..][..eighths]);
        for (at, eight) in plane.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *eight = transposed(bits.map(|bits| bits[at]));
        }
    }
    shuffle::undo(width, bytes, 0, block);
}

/// Bit `i` of byte `j` becomes bit `j` of byte `i`: squares of one, two and four bits swap places across the diagonal.
fn transposed(eight: [u8; 8]) -> [u8; 8] {
    let mut x = u64::from_le_bytes(eight);
    for (shift, mask) in [(7, 0x00AA_00AA_00AA_00AA), (14, 0x0000_CCCC_0000_CCCC), (28, 0x0000_0000_F0F0_F0F0)] {
        let swap = (x ^ (x >> shift)) & mask;
        x ^= swap ^ (swap << shift);
    }
    x.to_le_bytes()
}
