//! `glob`: the C library's, which looks through our directory streams.

use std::ffi::{c_char, c_int, c_void};

use libc::{DIR, GLOB_ALTDIRFUNC, dirent64, glob64_t};

use crate::calls::{directories, stat, twins};
use crate::{real, settings};

/// `glob_t`, with the fields that `libc` keeps to itself.
#[repr(C)]
struct GlobFunctions {
    found: [usize; 3],
    flags: c_int,
    close: unsafe extern "C-unwind" fn(*mut DIR) -> c_int,
    read: unsafe extern "C-unwind" fn(*mut DIR) -> *mut dirent64,
    open: unsafe extern "C-unwind" fn(*const c_char) -> *mut DIR,
    keep: unsafe extern "C-unwind" fn(*const c_char, *mut libc::stat) -> c_int,
    follow: unsafe extern "C-unwind" fn(*const c_char, *mut libc::stat) -> c_int,
}

const _: () = assert!(size_of::<GlobFunctions>() == size_of::<glob64_t>());

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn glob(
    pattern: *const c_char,
    flags: c_int,
    error: *mut c_void,
    out: *mut glob64_t,
) -> c_int {
    // SAFETY: the caller gives a pattern, a function or null, and room for the answer.
    unsafe {
        if settings::prefix().is_empty() || flags & GLOB_ALTDIRFUNC != 0 {
            return real::glob64(pattern, flags, error, out);
        }
        let functions = out.cast::<GlobFunctions>();
        (&raw mut (*functions).close).write(directories::closedir);
        (&raw mut (*functions).read).write(directories::readdir64);
        (&raw mut (*functions).open).write(directories::opendir);
        (&raw mut (*functions).keep).write(stat::lstat);
        (&raw mut (*functions).follow).write(stat::stat);
        real::glob64(pattern, flags | GLOB_ALTDIRFUNC, error, out)
    }
}

twins! {
    glob(pattern: *const c_char, flags: c_int, error: *mut c_void, out: *mut glob64_t) -> c_int: glob64;
}
