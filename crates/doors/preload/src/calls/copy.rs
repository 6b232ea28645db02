//! Copies between descriptors: `copy_file_range`, `sendfile`, `splice`.

use std::ffi::{c_int, c_uint, c_void};

use libc::{off_t, size_t, ssize_t};

use crate::answer::give;
use crate::calls::{bytes, twins};
use crate::errors::{CallResult, of_kernel, refuse};
use crate::pointers::is_wild;
use crate::{numbers, real};

/// The most bytes that one call copies. Callers go on with the rest.
const COPY_BYTES: usize = 1 << 20;

/// Copies bytes if either end is a file of the store, through the calls that read and write it.
unsafe fn copy(from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, length: size_t) -> ssize_t {
    if [from_at, to_at].into_iter().any(|at| !at.is_null() && is_wild(at)) {
        return give(refuse(libc::EFAULT));
    }
    let mut buffer = vec![0u8; length.min(COPY_BYTES)];
    // SAFETY: the buffer has this length, and the caller gives offsets or null.
    let moved: CallResult<ssize_t> = unsafe {
        let out = buffer.as_mut_ptr().cast::<c_void>();
        let read = match from_at.is_null() {
            true => bytes::read(from, out, buffer.len()),
            false => bytes::pread(from, out, buffer.len(), *from_at),
        };
        of_kernel(read).and_then(|have| {
            let mut done = 0;
            while done < have {
                let (rest, left) = (buffer.as_ptr().add(done as usize).cast(), (have - done) as usize);
                let written = match to_at.is_null() {
                    true => bytes::write(to, rest, left),
                    false => bytes::pwrite(to, rest, left, *to_at + done as off_t),
                };
                match of_kernel(written) {
                    Ok(length) => done += length,
                    Err(_) if done > 0 => break,
                    Err(error) => return Err(error),
                }
            }
            if from_at.is_null() {
                if done < have {
                    // What was read and not written is read again.
                    bytes::lseek(from, (done - have) as off_t, libc::SEEK_CUR);
                }
            } else {
                *from_at += done as off_t;
            }
            if !to_at.is_null() {
                *to_at += done as off_t;
            }
            Ok(done)
        })
    };
    give(moved)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn copy_file_range(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    length: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: the caller gives offsets or null.
    unsafe {
        match numbers::has(from) || numbers::has(to) {
            true => copy(from, from_at, to, to_at, length),
            false => real::copy_file_range(from, from_at, to, to_at, length, flags),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile(to: c_int, from: c_int, at: *mut off_t, length: size_t) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        match numbers::has(from) || numbers::has(to) {
            true => copy(from, at, to, std::ptr::null_mut(), length),
            false => real::sendfile(to, from, at, length),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    length: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        match numbers::has(from) || numbers::has(to) {
            true => copy(from, from_at, to, to_at, length),
            false => real::splice(from, from_at, to, to_at, length, flags),
        }
    }
}

twins! {
    sendfile(to: c_int, from: c_int, at: *mut off_t, length: size_t) -> ssize_t: sendfile64;
}
