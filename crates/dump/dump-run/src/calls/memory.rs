//! The calls that allocate memory. A block for the program is of its heap; one for MPI or the C library is of the C library's, or of the heap
//! for handles. A block's address tells who frees it.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use libc::size_t;

use super::behind::Behind;
use crate::handle_heap::HANDLE_HEAP;
use crate::heap::{self, PROGRAM_HEAP};
use crate::{handles, objects};

/// The alignment of blocks without an own one.
const USUAL_ALIGNMENT_BYTES: usize = 16;

unsafe extern "C" {
    fn __libc_malloc(size: size_t) -> *mut c_void;
    fn __libc_calloc(count: size_t, size: size_t) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, size: size_t) -> *mut c_void;
    fn __libc_memalign(align: size_t, size: size_t) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
}

with_caller! {
    malloc("rsi") => allocate;
    calloc("rdx") => allocate_zeros;
    realloc("rdx") => reallocate;
    memalign("rdx") => allocate_aligned;
    aligned_alloc("rdx") => allocate_aligned;
    valloc("rsi") => allocate_page;
    pvalloc("rsi") => allocate_pages;
    posix_memalign("rcx") => allocate_to;
    strdup("rsi") => copy_text;
    strndup("rdx") => copy_start;
}

/// Allocates a block for a handle, if one is made now. None if there is no place for it in the heap for handles.
fn allocate_for_handle(size: usize) -> Option<*mut c_void> {
    if handles::is_making() { HANDLE_HEAP.allocate(size) } else { None }
}

/// Tells the program that there is no memory, if so.
fn told(block: *mut c_void) -> *mut c_void {
    if block.is_null() {
        // SAFETY: the C library's place for the number is valid.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
    }
    block
}

extern "C" fn allocate(size: size_t, caller: usize) -> *mut c_void {
    if objects::is_program(caller) {
        return told(PROGRAM_HEAP.allocate(USUAL_ALIGNMENT_BYTES, size));
    }
    if let Some(block) = allocate_for_handle(size) {
        return block;
    }
    // SAFETY: as the caller of `malloc` calls it.
    unsafe { __libc_malloc(size) }
}

extern "C" fn allocate_zeros(count: size_t, size: size_t, caller: usize) -> *mut c_void {
    if objects::is_program(caller) {
        return told(count.checked_mul(size).map_or(ptr::null_mut(), |size| PROGRAM_HEAP.allocate_zeros(size)));
    }
    if let Some(size) = count.checked_mul(size)
        && let Some(block) = allocate_for_handle(size)
    {
        // SAFETY: the block has at least this number of bytes.
        unsafe { ptr::write_bytes(block.cast::<u8>(), 0, size) };
        return block;
    }
    // SAFETY: as the caller of `calloc` calls it.
    unsafe { __libc_calloc(count, size) }
}

extern "C" fn reallocate(block: *mut c_void, size: size_t, caller: usize) -> *mut c_void {
    if block.is_null() {
        return allocate(size, caller);
    }
    if size == 0 {
        // SAFETY: the caller of `realloc` passes a block in use.
        unsafe { free(block) };
        return ptr::null_mut();
    }
    // SAFETY: as above. A handle's block has `before` bytes, and the new one at least `size`.
    unsafe {
        if PROGRAM_HEAP.has(block) {
            return told(PROGRAM_HEAP.reallocate(block, size));
        }
        let Some(before) = HANDLE_HEAP.size_of(block) else { return __libc_realloc(block, size) };
        let moved = allocate(size, caller);
        if !moved.is_null() {
            ptr::copy_nonoverlapping(block.cast::<u8>(), moved.cast(), before.min(size));
            HANDLE_HEAP.free(block);
        }
        moved
    }
}

extern "C" fn allocate_aligned(align: size_t, size: size_t, caller: usize) -> *mut c_void {
    if objects::is_program(caller) {
        // As the C library, which takes the next power of two.
        let align = align.max(USUAL_ALIGNMENT_BYTES).checked_next_power_of_two();
        return told(align.map_or(ptr::null_mut(), |align| PROGRAM_HEAP.allocate(align, size)));
    }
    // SAFETY: as the caller calls it.
    unsafe { __libc_memalign(align, size) }
}

extern "C" fn allocate_page(size: size_t, caller: usize) -> *mut c_void {
    allocate_aligned(crate::ranges::PAGE_BYTES, size, caller)
}

extern "C" fn allocate_pages(size: size_t, caller: usize) -> *mut c_void {
    // No block is as long as the greatest number, in place of one that does not exist.
    allocate_page(size.checked_next_multiple_of(crate::ranges::PAGE_BYTES).unwrap_or(usize::MAX), caller)
}

extern "C" fn allocate_to(out: *mut *mut c_void, align: size_t, size: size_t, caller: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    let block = allocate_aligned(align, size, caller);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller of `posix_memalign` passes a valid place.
    unsafe { out.write(block) };
    0
}

extern "C" fn copy_text(text: *const c_char, caller: usize) -> *mut c_char {
    // SAFETY: the caller of `strdup` passes a text.
    copy(text, unsafe { libc::strlen(text) }, caller)
}

extern "C" fn copy_start(text: *const c_char, most: size_t, caller: usize) -> *mut c_char {
    // SAFETY: the caller of `strndup` passes a text, or at least this number of bytes.
    copy(text, unsafe { libc::strnlen(text, most) }, caller)
}

fn copy(text: *const c_char, length: usize, caller: usize) -> *mut c_char {
    let copied = allocate(length + 1, caller).cast::<c_char>();
    if !copied.is_null() {
        // SAFETY: the text has this number of bytes, and the copy one more.
        unsafe {
            ptr::copy_nonoverlapping(text, copied, length);
            copied.add(length).write(0);
        }
    }
    copied
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: the caller passes a block in use, or null.
    unsafe {
        if PROGRAM_HEAP.has(block) {
            PROGRAM_HEAP.free(block);
        } else if !HANDLE_HEAP.free(block) {
            __libc_free(block);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> size_t {
    static SIZE_BEHIND: Behind = Behind::new("malloc_usable_size\0");
    if PROGRAM_HEAP.has(block) {
        // SAFETY: the caller passes a block in use.
        return unsafe { heap::usable_size(block) };
    }
    if let Some(size) = HANDLE_HEAP.size_of(block) {
        return size;
    }
    // SAFETY: the C library's function has this signature.
    unsafe { std::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void) -> size_t>(SIZE_BEHIND.find())(block) }
}
