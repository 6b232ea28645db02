//! `mmap`: a mapping of a file of the store is memory of the process, filled with the file's bytes.

use std::ffi::{c_int, c_void};
use std::slice;

use libc::{off_t, size_t};

use crate::answer::{give, guard};
use crate::calls::twins;
use crate::description::OpenDescription;
use crate::errors::{CallResult, refuse};
use crate::{real, table};

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mmap(
    at: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    if flags & libc::MAP_ANONYMOUS == 0
        && let Some(open) = table::get(fd)
    {
        // SAFETY: the caller may map there.
        let mapped = guard(|| unsafe { fill(&open, at, length, protection, flags, offset) });
        return if mapped.is_ok() { give(mapped) } else { give::<isize>(mapped.map(|_| 0)) as *mut c_void };
    }
    // SAFETY: the caller's arguments, as they are.
    unsafe { real::mmap(at, length, protection, flags, fd, offset) }
}

/// Maps memory and fills it. A shared mapping may only be read, and does not show what is written to the file later.
unsafe fn fill(
    open: &OpenDescription,
    at: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    offset: off_t,
) -> CallResult<*mut c_void> {
    let file = open.readable().or(refuse(libc::EACCES))?;
    let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    if shared && (protection & libc::PROT_WRITE != 0 || open.flags() & libc::O_ACCMODE != libc::O_RDONLY) {
        // It could not be kept right: other processes would not see what is written.
        return refuse(libc::ENODEV);
    }
    let Ok(start) = u64::try_from(offset) else { return refuse(libc::EINVAL) };
    let flags = flags & !libc::MAP_TYPE | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the caller may map there; the new memory is this function's until it returns.
    unsafe {
        let memory = real::mmap(at, length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return refuse(crate::errors::error_number());
        }
        let filled = file.read_at(start, slice::from_raw_parts_mut(memory.cast(), length));
        if let Err(error) = filled {
            libc::munmap(memory, length);
            return Err(error.into());
        }
        libc::mprotect(memory, length, protection);
        Ok(memory)
    }
}

twins! {
    mmap(at: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void: mmap64;
}
