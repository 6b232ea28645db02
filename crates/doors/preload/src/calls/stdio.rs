//! `fopen` and its relatives.

use std::ffi::{CStr, c_char, c_int};

use libc::FILE;

use crate::answer::{answer, give};
pub use crate::calls::streams::{adopt, has_bytes_only, mark_failed, standard_input, standard_output};
use crate::calls::streams::{standard_streams, stream};
use crate::calls::{descriptors, open, twins};
use crate::errors::{CallResult, refuse};
use crate::paths::{LastLink, by_path};
use crate::{numbers, real};

/// Reads the flags of `open` in a stream's mode.
unsafe fn flags_of(mode: *const c_char) -> CallResult<c_int> {
    // SAFETY: the mode ends with a zero byte.
    let mode = unsafe { CStr::from_ptr(mode) }.to_bytes();
    // Behind a comma follows a character set.
    let mode = mode.split(|&letter| letter == b',').next().unwrap_or_default();
    let both = mode.contains(&b'+');
    let access = |one| if both { libc::O_RDWR } else { one };
    let flags = match mode.first() {
        Some(b'r') => access(libc::O_RDONLY),
        Some(b'w') => access(libc::O_WRONLY) | libc::O_CREAT | libc::O_TRUNC,
        Some(b'a') => access(libc::O_WRONLY) | libc::O_CREAT | libc::O_APPEND,
        _ => return refuse(libc::EINVAL),
    };
    let with = |letter, flag| if mode.contains(&letter) { flag } else { 0 };
    Ok(flags | with(b'x', libc::O_EXCL) | with(b'e', libc::O_CLOEXEC))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the caller gives a path and a mode.
    unsafe {
        by_path(
            libc::AT_FDCWD,
            path,
            LastLink::Follow,
            |_, path| real::fopen64(path, mode),
            |path, found| {
                let fd = open::open_below(path, found, flags_of(mode)?, 0o666)?;
                stream(fd).inspect_err(|_| {
                    descriptors::close(fd);
                })
            },
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: the caller gives a mode.
    unsafe { if numbers::has(fd) { answer(|| stream(fd)) } else { real::fdopen(fd, mode) } }
}

/// Opens another file behind a stream, if either is of the store: behind a stream of our own, or behind a standard stream.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn freopen(path: *const c_char, mode: *const c_char, old: *mut FILE) -> *mut FILE {
    // SAFETY: the caller gives a path or null, a mode, and a stream.
    unsafe {
        let fd = libc::fileno(old);
        let below = matches!(
            crate::paths::find(libc::AT_FDCWD, path, LastLink::Follow),
            Ok(Some(crate::paths::Route::Below(..)))
        );
        if path.is_null() || !below && !numbers::has(fd) {
            return real::freopen64(path, mode, old);
        }
        let standard = standard_streams().contains(&old);
        if !numbers::has(fd) && !standard {
            // It cannot be made one of ours.
            return give(refuse(libc::EOPNOTSUPP));
        }
        libc::fflush(old);
        let flags = match flags_of(mode) {
            Ok(flags) => flags,
            Err(error) => return give(Err(error)),
        };
        let new = open::open(path, flags, 0o666);
        if new < 0 {
            return std::ptr::null_mut();
        }
        let moved = descriptors::dup2(new, fd);
        descriptors::close(new);
        if moved < 0 {
            return std::ptr::null_mut();
        }
        libc::clearerr(old);
        match fd {
            0..3 if standard => standard_streams()[fd as usize],
            _ => {
                libc::rewind(old);
                old
            }
        }
    }
}

twins! {
    fopen(path: *const c_char, mode: *const c_char) -> *mut FILE: fopen64;
    freopen(path: *const c_char, mode: *const c_char, old: *mut FILE) -> *mut FILE: freopen64;
}
