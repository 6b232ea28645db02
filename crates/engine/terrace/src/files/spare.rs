//! A pool of buffers for dirty bytes.

use rustix_futex_sync::Mutex;

/// At most this many buffers are kept for reuse.
const MAX_SPARE_BUFFERS: usize = 8;
/// Pieces shorter than a block divided by this have memory of their own.
const SHORT_BUFFER_DIVISOR: usize = 4;

/// Buffers of a block's length, which are reused because the first access to fresh memory costs more than copying the bytes.
pub struct Spare {
    block: usize,
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl Spare {
    /// Creates an empty pool for buffers of `block` bytes.
    pub fn new(block: usize) -> Spare {
        Spare { block, buffers: Mutex::default() }
    }

    /// Returns the length of a block.
    pub fn block(&self) -> u64 {
        self.block as u64
    }

    /// Adds bytes to a piece of a block. A piece that becomes long moves to a buffer that holds the whole block.
    pub fn lengthen(&self, piece: &mut Vec<u8>, more: &[u8]) {
        let length = piece.len() + more.len();
        if length > piece.capacity() && length >= self.block / SHORT_BUFFER_DIVISOR {
            let mut longer = self.buffers.lock().pop().unwrap_or_else(|| Vec::with_capacity(self.block));
            longer.extend_from_slice(piece);
            *piece = longer;
        }
        piece.extend_from_slice(more);
    }

    /// Returns a piece's memory to the pool.
    pub fn give(&self, mut piece: Vec<u8>) {
        piece.clear();
        let mut buffers = self.buffers.lock();
        if piece.capacity() >= self.block && buffers.len() < MAX_SPARE_BUFFERS {
            buffers.push(piece);
        }
    }
}
