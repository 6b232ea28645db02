//! Links.

use std::ffi::{CStr, c_char, c_int};

use libc::{size_t, ssize_t};
use terrace::Kind;
use terrace_prefix::access::caller;

use crate::answer::give;
use crate::calls::stat;
use crate::errors::{CallResult, refuse};
use crate::paths::{LastLink, Route, by_path, find};
use crate::pointers::{is_wild, put_bytes};
use crate::{opened, real};

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn symlinkat(to: *const c_char, dir: c_int, path: *const c_char) -> c_int {
    // SAFETY: the caller gives a text and a path.
    unsafe {
        by_path(
            dir,
            path,
            LastLink::Keep,
            |dir, path| real::symlinkat(to, dir, path),
            |path, found| {
                if is_wild(to) {
                    return refuse(libc::EFAULT);
                }
                if found.is_some() {
                    return refuse(libc::EEXIST);
                }
                opened::get()?.files.make_link(path, CStr::from_ptr(to).to_bytes(), caller())?;
                Ok(0)
            },
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn symlink(to: *const c_char, path: *const c_char) -> c_int {
    // SAFETY: as above.
    unsafe { symlinkat(to, libc::AT_FDCWD, path) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readlinkat(dir: c_int, path: *const c_char, out: *mut c_char, size: size_t) -> ssize_t {
    // SAFETY: the caller gives a path, and a buffer of this length.
    unsafe {
        by_path(
            dir,
            path,
            LastLink::Keep,
            |dir, path| real::readlinkat(dir, path, out, size),
            |path, found| {
                if stat::existing(path, found)?.kind != Kind::Symlink || size == 0 {
                    return refuse(libc::EINVAL);
                }
                let to = opened::get()?.files.read_link(path)?;
                let length = to.len().min(size);
                put_bytes(&to[..length], out.cast())?;
                Ok(length as ssize_t)
            },
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readlink(path: *const c_char, out: *mut c_char, size: size_t) -> ssize_t {
    // SAFETY: as above.
    unsafe { readlinkat(libc::AT_FDCWD, path, out, size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __readlink_chk(
    path: *const c_char,
    out: *mut c_char,
    size: size_t,
    room: size_t,
) -> ssize_t {
    // SAFETY: as above.
    unsafe { readlinkat(libc::AT_FDCWD, path, out, size.min(room)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __readlinkat_chk(
    dir: c_int,
    path: *const c_char,
    out: *mut c_char,
    size: size_t,
    room: size_t,
) -> ssize_t {
    // SAFETY: as above.
    unsafe { readlinkat(dir, path, out, size.min(room)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn linkat(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    if is_wild(from) || is_wild(to) {
        return give(refuse(libc::EFAULT));
    }
    // SAFETY: the caller gives two paths.
    let routes: CallResult<_> = unsafe {
        find(from_dir, from, LastLink::Keep).and_then(|first| Ok((first, find(to_dir, to, LastLink::Keep)?)))
    };
    match routes {
        Err(error) => give(Err(error)),
        // SAFETY: as above.
        Ok((None, None)) => unsafe { real::linkat(from_dir, from, to_dir, to, flags) },
        // The store has no hard links.
        Ok((Some(Route::Below(..)), Some(Route::Below(..)))) => give(refuse(libc::EPERM)),
        Ok(_) => give(refuse(libc::EXDEV)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn link(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: as above.
    unsafe { linkat(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) }
}
