//! The program's heap, at fixed addresses. It is one range of addresses with all its blocks and the allocator's own state, so that its pages
//! are all that there is to know about it.

use std::cell::Cell;
use std::ptr;

use dlmalloc::{Allocator, Dlmalloc};
use libc::c_void;
use rustix_futex_sync::Mutex;

use crate::ranges::{Addresses, PAGE_BYTES};

/// The program's heap, far from all that the kernel places itself: programs from 0x5555_5555_4000 on, and mappings downwards from 0x7fff_f7ff_f000,
/// or, without a limit of the stack, from 0x1555_5555_5000; old kernels then place them upwards from 0x2aaa_aaaa_b000 on. A block's address tells its heap, so one
/// of the C library's must never be here.
pub static PROGRAM_HEAP: Heap = Heap { start: 0x1800_0000_0000, lock: Mutex::new(()) };

/// Nothing else is mapped within this distance behind the heap's start.
const MAX_HEAP_BYTES: usize = 0x1000_0000_0000;
/// A heap grows and shrinks by this number of bytes.
const GROWTH_BYTES: usize = 1 << 20;
/// The machine has less memory than this.
const MAX_GROWTH_BYTES: usize = MAX_HEAP_BYTES / 2;
/// The pages of a block from this size on are given back when it is freed, and come as zeros when it is cleared.
const MIN_DISCARDED_BYTES: usize = 1 << 18;
/// The allocator writes this near the ends of free blocks at most.
const FREE_BLOCK_MARGIN_BYTES: usize = 128;
/// Before each block, the allocator has its size, with flags in the lowest bits.
const BLOCK_HEAD_BYTES: usize = size_of::<usize>();
const BLOCK_FLAGS_MASK: usize = 7;

/// Allocates pages at a heap's end.
struct HeapPages {
    end: Cell<usize>,
}

/// A heap, with its allocator at its start.
pub struct Heap {
    start: usize,
    /// Held for a call of the allocator. It is not in the heap: a restart would replace it.
    lock: Mutex<()>,
}

// SAFETY: `alloc` returns new pages behind all others, which nobody else uses.
unsafe impl Allocator for HeapPages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let start = self.end.get();
        let size = size.next_multiple_of(GROWTH_BYTES);
        if size > MAX_GROWTH_BYTES || !map(start..start + size) {
            return (ptr::null_mut(), 0, 0);
        }
        self.end.set(start + size);
        (start as *mut u8, size, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    fn free_part(&self, start: *mut u8, old_size: usize, new_size: usize) -> bool {
        let end = start as usize + old_size;
        if end != self.end.get() {
            return false;
        }
        self.end.set(start as usize + new_size);
        unmap(start as usize + new_size..end)
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE_BYTES
    }
}

/// Maps pages, unless something is there.
pub fn map(range: Addresses) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new pages replace no others.
    let mapped = unsafe { libc::mmap(range.start as *mut c_void, range.len(), access, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return false;
    }
    // Kernels before 4.17 take the address for advice.
    let is_there = mapped as usize == range.start;
    if !is_there {
        unmap(mapped as usize..mapped as usize + range.len());
    }
    is_there
}

fn unmap(range: Addresses) -> bool {
    // SAFETY: callers pass pages of the heap without blocks, or pages that were just mapped.
    unsafe { libc::munmap(range.start as *mut c_void, range.len()) == 0 }
}

/// Makes the pages of a range what they were at first: zeros, or those of a file.
///
/// # Safety
/// The pages are mapped, and nobody needs their content.
pub unsafe fn discard(range: Addresses) {
    // SAFETY: as the caller guarantees. The kernel refuses only pages that are locked in memory.
    let done = unsafe { libc::madvise(range.start as *mut c_void, range.len(), libc::MADV_DONTNEED) };
    if done != 0 {
        // SAFETY: as above.
        unsafe { ptr::write_bytes(range.start as *mut u8, 0, range.len()) };
    }
}

impl Heap {
    /// Returns whether an address is of the heap.
    pub fn has(&self, address: *const c_void) -> bool {
        (self.start..self.start + MAX_HEAP_BYTES).contains(&(address as usize))
    }

    /// Makes the heap, which is empty. Returns whether its addresses are free.
    pub fn create(&self) -> bool {
        const { assert!(size_of::<Dlmalloc<HeapPages>>() <= PAGE_BYTES) };
        let first = self.start..self.start + PAGE_BYTES;
        if !map(first.clone()) {
            return false;
        }
        let mut allocator = Dlmalloc::new_with_allocator(HeapPages { end: Cell::new(first.end) });
        allocator.set_granularity(GROWTH_BYTES);
        // SAFETY: the page was just mapped, and the allocator fits.
        unsafe { self.allocator().write(allocator) };
        true
    }

    /// Keeps other threads from the heap until [`unlock_after_fork`](Heap::unlock_after_fork).
    pub fn lock_for_fork(&self) {
        std::mem::forget(self.lock.lock());
    }

    /// # Safety
    /// This thread, or its copy in a forked process, has called [`lock_for_fork`](Heap::lock_for_fork).
    pub unsafe fn unlock_after_fork(&self) {
        // SAFETY: as the caller guarantees.
        unsafe { self.lock.force_unlock() };
    }

    fn allocator(&self) -> *mut Dlmalloc<HeapPages> {
        self.start as *mut Dlmalloc<HeapPages>
    }

    /// Uses the allocator of the heap, which has been made.
    fn with<T>(&self, work: impl FnOnce(&mut Dlmalloc<HeapPages>) -> T) -> T {
        let _lock = self.lock.lock();
        // SAFETY: the allocator is only used while the lock is held.
        work(unsafe { &mut *self.allocator() })
    }

    /// Returns the addresses of the heap.
    pub fn addresses(&self) -> Addresses {
        self.start..self.with(|allocator| allocator.allocator().end.get())
    }

    /// Allocates a block; null if there is no memory.
    pub fn allocate(&self, align: usize, size: usize) -> *mut c_void {
        // SAFETY: the allocator's own conditions hold: the alignment is a power of two.
        self.with(|allocator| unsafe { allocator.c_memalign(align, size).cast() })
    }

    /// Allocates a block of zeros. The pages of a large one are not touched.
    pub fn allocate_zeros(&self, size: usize) -> *mut c_void {
        let block = self.allocate(1, size);
        if !block.is_null() {
            clear(block as usize..block as usize + size);
        }
        block
    }

    /// Changes the size of a block, which may move. Null if there is no memory; then the block is still there.
    ///
    /// # Safety
    /// The block is one of this heap's, and in use.
    pub unsafe fn reallocate(&self, block: *mut c_void, size: usize) -> *mut c_void {
        // SAFETY: as the caller guarantees.
        self.with(|allocator| unsafe { allocator.c_realloc(block.cast(), size).cast() })
    }

    /// Frees a block. The pages of a large one are given back.
    ///
    /// # Safety
    /// The block is one of this heap's, and in use.
    pub unsafe fn free(&self, block: *mut c_void) {
        let start = block as usize;
        // SAFETY: as the caller guarantees. The allocator needs nothing of the block but its ends.
        unsafe {
            let size = usable_size(block);
            if size >= MIN_DISCARDED_BYTES {
                discard(inner_pages(&(start + FREE_BLOCK_MARGIN_BYTES..start + size - FREE_BLOCK_MARGIN_BYTES)));
            }
            self.with(|allocator| allocator.c_free(block.cast()));
        }
    }
}

/// Maps more pages behind the heap, for that of a checkpoint. Returns whether there was room.
pub fn reserve(pages: Addresses) -> bool {
    pages.is_empty() || map(pages)
}

/// Unmaps pages behind the heap.
pub fn give_back(pages: Addresses) {
    if !pages.is_empty() {
        unmap(pages);
    }
}

fn clear(block: Addresses) {
    // SAFETY: the block belongs to the caller, who needs no content of it.
    let write_zeros = |part: Addresses| unsafe { ptr::write_bytes(part.start as *mut u8, 0, part.len()) };
    if block.len() < MIN_DISCARDED_BYTES {
        return write_zeros(block);
    }
    let pages = inner_pages(&block);
    write_zeros(block.start..pages.start);
    // SAFETY: as above.
    unsafe { discard(pages.clone()) };
    write_zeros(pages.end..block.end);
}

/// Returns the pages that lie completely in a range, which is longer than a page.
fn inner_pages(range: &Addresses) -> Addresses {
    range.start.next_multiple_of(PAGE_BYTES)..range.end / PAGE_BYTES * PAGE_BYTES
}

/// Returns the number of bytes that a block has for the program.
///
/// # Safety
/// The block is one of a heap's, and in use.
pub unsafe fn usable_size(block: *const c_void) -> usize {
    // SAFETY: the block is in use, so this word is the size of the block together with the word itself.
    let head = unsafe { block.cast::<usize>().sub(1).read() };
    (head & !BLOCK_FLAGS_MASK) - BLOCK_HEAD_BYTES
}
