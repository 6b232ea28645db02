//! The heap of what MPI allocates while the program makes a communicator or the like. It belongs to MPI, and no checkpoint has it.
//!
//! The blocks of each size have places of their own, and a new one takes the first that is free. So a communicator or type has the same address in
//! each process, whatever else MPI allocates meanwhile, such as buffers for messages that arrive; also if it was freed and made again.

use std::ptr;

use libc::c_void;
use rustix_futex_sync::Mutex;

use crate::heap;
use crate::ranges::Addresses;

/// The heap for handles.
pub static HANDLE_HEAP: HandleHeap = HandleHeap(Mutex::new([[0; PLACE_WORDS]; SIZE_COUNT]));

/// Far from all that the kernel places itself, and from the program's heap.
const HEAP_START: usize = 0x3000_0000_0000;
/// Sizes are rounded up to a multiple of this, which is the alignment of blocks.
const SIZE_STEP_BYTES: usize = 16;
/// Larger blocks are the C library's.
const MAX_BLOCK_BYTES: usize = SIZE_COUNT * SIZE_STEP_BYTES;
const SIZE_COUNT: usize = 256;
/// The addresses for the blocks of one size.
const BYTES_PER_SIZE: usize = 4 << 20;
const HEAP_ADDRESSES: Addresses = HEAP_START..HEAP_START + SIZE_COUNT * BYTES_PER_SIZE;
/// The words of a bit for each place of one size.
const PLACE_WORDS: usize = 16;

/// A bit for each place that is in use, by size. The lock is held for a change, in which nothing is allocated.
pub struct HandleHeap(Mutex<[[u64; PLACE_WORDS]; SIZE_COUNT]>);

/// Returns the number of a size.
fn size_number(size: usize) -> usize {
    size.max(1).div_ceil(SIZE_STEP_BYTES) - 1
}

const _: () = assert!(PLACE_WORDS * u64::BITS as usize * MAX_BLOCK_BYTES <= BYTES_PER_SIZE);

impl HandleHeap {
    /// Makes the heap, which is empty. Returns whether its addresses are free.
    pub fn create(&self) -> bool {
        heap::map(HEAP_ADDRESSES)
    }

    /// Allocates a block. None if it is too large, or if there are too many of its size.
    pub fn allocate(&self, size: usize) -> Option<*mut c_void> {
        if size > MAX_BLOCK_BYTES {
            return None;
        }
        let number = size_number(size);
        let mut sizes = self.0.lock();
        let (at, word) = sizes[number].iter_mut().enumerate().find(|(_, word)| **word != u64::MAX)?;
        let bit = word.trailing_ones() as usize;
        *word |= 1 << bit;
        let offset = (at * u64::BITS as usize + bit) * (number + 1) * SIZE_STEP_BYTES;
        Some(ptr::with_exposed_provenance_mut(HEAP_START + number * BYTES_PER_SIZE + offset))
    }

    /// Returns the number of bytes of a block; None if it is not of this heap.
    pub fn size_of(&self, block: *const c_void) -> Option<usize> {
        let address = block.addr();
        HEAP_ADDRESSES.contains(&address).then(|| ((address - HEAP_START) / BYTES_PER_SIZE + 1) * SIZE_STEP_BYTES)
    }

    /// Frees a block. Returns false if it is not of this heap.
    pub fn free(&self, block: *const c_void) -> bool {
        let Some(length) = self.size_of(block) else { return false };
        let place = (block.addr() - HEAP_START) % BYTES_PER_SIZE / length;
        let bits = u64::BITS as usize;
        self.0.lock()[size_number(length)][place / bits] &= !(1 << (place % bits));
        true
    }

    /// Keeps other threads from the heap until [`unlock_after_fork`](HandleHeap::unlock_after_fork).
    pub fn lock_for_fork(&self) {
        std::mem::forget(self.0.lock());
    }

    /// # Safety
    /// This thread, or its copy in a forked process, has called [`lock_for_fork`](HandleHeap::lock_for_fork).
    pub unsafe fn unlock_after_fork(&self) {
        // SAFETY: as the caller guarantees.
        unsafe { self.0.force_unlock() };
    }
}
