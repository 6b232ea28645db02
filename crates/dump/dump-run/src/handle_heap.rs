//! The heap of what MPI allocates while the program makes a communicator or the like. It belongs to MPI, and no checkpoint has it.
//!
//! The blocks of each size have places of their own, in the order of their allocation. So a communicator or type has the same address in each
//! process, whatever else MPI allocates meanwhile, such as buffers for messages that arrive.

use std::ptr;

use libc::c_void;
use rustix_futex_sync::Mutex;

use crate::heap;
use crate::ranges::Addresses;

/// The heap for handles.
pub static HANDLE_HEAP: HandleHeap = HandleHeap(Mutex::new([Blocks { next: 0, free: None }; SIZE_COUNT]));

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

/// The lock is held for a change of the lists, in which nothing is allocated.
pub struct HandleHeap(Mutex<[Blocks; SIZE_COUNT]>);

/// The blocks of one size.
#[derive(Clone, Copy)]
struct Blocks {
    /// The offset of the first place that was never used.
    next: usize,
    /// The block that was freed last. It contains the address of the one that was freed before, or 0.
    free: Option<usize>,
}

/// Returns the number of a size.
fn size_number(size: usize) -> usize {
    size.max(1).div_ceil(SIZE_STEP_BYTES) - 1
}

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
        let length = (number + 1) * SIZE_STEP_BYTES;
        let mut sizes = self.0.lock();
        let blocks = &mut sizes[number];
        if let Some(block) = blocks.free {
            // SAFETY: a freed block belongs to the heap, which has written the address.
            let before = unsafe { ptr::with_exposed_provenance::<usize>(block).read() };
            blocks.free = Some(before).filter(|before| *before != 0);
            return Some(ptr::with_exposed_provenance_mut(block));
        }
        let offset = blocks.next;
        if offset + length > BYTES_PER_SIZE {
            return None;
        }
        blocks.next += length;
        Some(ptr::with_exposed_provenance_mut(HEAP_START + number * BYTES_PER_SIZE + offset))
    }

    /// Returns the number of bytes of a block; None if it is not of this heap.
    pub fn size_of(&self, block: *const c_void) -> Option<usize> {
        let address = block.addr();
        HEAP_ADDRESSES.contains(&address).then(|| ((address - HEAP_START) / BYTES_PER_SIZE + 1) * SIZE_STEP_BYTES)
    }

    /// Frees a block.
    ///
    /// # Safety
    /// It is one of this heap's, and in use.
    pub unsafe fn free(&self, block: *mut c_void) {
        let mut sizes = self.0.lock();
        let blocks = &mut sizes[(block.addr() - HEAP_START) / BYTES_PER_SIZE];
        // SAFETY: nobody uses the block any more, and it has room for an address.
        unsafe { block.cast::<usize>().write(blocks.free.unwrap_or(0)) };
        blocks.free = Some(block.expose_provenance());
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
