//! Buffers for bytes that are kept back.

use rustix_futex_sync::Mutex;

/// At most this many buffers are kept for reuse.
const MAX_SPARE_BUFFERS: usize = 8;
/// Pieces shorter than this fraction of a block get their own memory.
const SHORT_BUFFER_DIVISOR: usize = 4;

/// Buffers as long as a block, used again: the first touch of fresh memory costs more than the bytes that are copied there.
pub struct Spare {
    block: usize,
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl Spare {
    /// Creates an empty pool for buffers of `block` bytes.
    pub fn new(block: usize) -> Spare {
        Spare { block, buffers: Mutex::default() }
    }

    /// How long a block is.
    pub fn block(&self) -> u64 {
        self.block as u64
    }

    /// Adds bytes to a piece of a block. One that gets long goes on in a buffer that the whole block fits in.
    pub fn lengthen(&self, piece: &mut Vec<u8>, more: &[u8]) {
        let length = piece.len() + more.len();
        if length > piece.capacity() && length >= self.block / SHORT_BUFFER_DIVISOR {
            let mut longer = self.buffers.lock().pop().unwrap_or_else(|| Vec::with_capacity(self.block));
            longer.extend_from_slice(piece);
            *piece = longer;
        }
        piece.extend_from_slice(more);
    }

    /// Gives a piece's memory back.
    pub fn give(&self, mut piece: Vec<u8>) {
        piece.clear();
        let mut buffers = self.buffers.lock();
        if piece.capacity() >= self.block && buffers.len() < MAX_SPARE_BUFFERS {
            buffers.push(piece);
        }
    }
}
