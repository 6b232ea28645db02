//! Attributes: `stat` and its twins, `statx`, `access`.

use std::ffi::{c_char, c_int, c_uint};

use terrace::files::Stat;
use terrace_posix::{to_stat, to_statx};
use terrace_prefix::access::may_access;

use crate::calls::{by_descriptor, twins};
use crate::errors::{CallResult, refuse};
use crate::paths::{LastLink, by_path};
use crate::pointers::put;
use crate::{kernel, numbers, opened, real};

fn last_link(flags: c_int) -> LastLink {
    if flags & libc::AT_SYMLINK_NOFOLLOW != 0 { LastLink::Keep } else { LastLink::Follow }
}

/// Whether a call means the descriptor itself, because its path is empty.
unsafe fn means_descriptor(dir: c_int, path: *const c_char, flags: c_int) -> bool {
    // SAFETY: the path ends with a zero byte.
    flags & libc::AT_EMPTY_PATH != 0 && numbers::has(dir) && !path.is_null() && unsafe { *path == 0 }
}

/// Refuses what a file's attributes do not allow the caller.
pub fn check_access(stat: &Stat, wanted: c_int) -> CallResult<()> {
    if may_access(stat, wanted) { Ok(()) } else { refuse(libc::EACCES) }
}

/// The attributes of a path that was looked up, or the error of one that leads to nothing.
pub fn existing(path: &[u8], stat: Option<Stat>) -> CallResult<Stat> {
    match stat {
        Some(stat) => Ok(stat),
        None => Ok(opened::get()?.files.stat(path)?),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fstatat(dir: c_int, path: *const c_char, out: *mut libc::stat, flags: c_int) -> c_int {
    // SAFETY: the caller gives a path and a buffer.
    unsafe {
        if means_descriptor(dir, path, flags) {
            return fstat(dir, out);
        }
        by_path(
            dir,
            path,
            last_link(flags),
            |dir, path| kernel::fstatat(dir, path, out, flags),
            |path, stat| {
                put(to_stat(&existing(path, stat)?, path, opened::get()?.device), out)?;
                Ok(0)
            },
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fstat(fd: c_int, out: *mut libc::stat) -> c_int {
    // SAFETY: as above.
    unsafe {
        by_descriptor(
            fd,
            || kernel::fstat(fd, out),
            |open| {
                put(to_stat(&open.stat()?, &open.path(), opened::get()?.device), out)?;
                Ok(0)
            },
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn stat(path: *const c_char, out: *mut libc::stat) -> c_int {
    // SAFETY: as above.
    unsafe { fstatat(libc::AT_FDCWD, path, out, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lstat(path: *const c_char, out: *mut libc::stat) -> c_int {
    // SAFETY: as above.
    unsafe { fstatat(libc::AT_FDCWD, path, out, libc::AT_SYMLINK_NOFOLLOW) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn statx(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    out: *mut libc::statx,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        if means_descriptor(dir, path, flags) {
            return by_descriptor(
                dir,
                || -1,
                |open| {
                    put(to_statx(&open.stat()?, &open.path(), opened::get()?.device), out)?;
                    Ok(0)
                },
            );
        }
        by_path(
            dir,
            path,
            last_link(flags),
            |dir, path| kernel::statx(dir, path, flags, mask, out),
            |path, stat| {
                put(to_statx(&existing(path, stat)?, path, opened::get()?.device), out)?;
                Ok(0)
            },
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __xstat(_version: c_int, path: *const c_char, out: *mut libc::stat) -> c_int {
    // SAFETY: as above. Only one version of the structure exists where a word has 64 bits.
    unsafe { stat(path, out) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __lxstat(_version: c_int, path: *const c_char, out: *mut libc::stat) -> c_int {
    // SAFETY: as above.
    unsafe { lstat(path, out) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __fxstat(_version: c_int, fd: c_int, out: *mut libc::stat) -> c_int {
    // SAFETY: as above.
    unsafe { fstat(fd, out) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __fxstatat(
    _version: c_int,
    dir: c_int,
    path: *const c_char,
    out: *mut libc::stat,
    flags: c_int,
) -> c_int {
    // SAFETY: as above.
    unsafe { fstatat(dir, path, out, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn faccessat(dir: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller gives a path.
    unsafe {
        if means_descriptor(dir, path, flags) {
            return by_descriptor(dir, || -1, |open| check_access(&open.stat()?, mode).map(|()| 0));
        }
        by_path(
            dir,
            path,
            last_link(flags),
            |dir, path| real::faccessat(dir, path, mode, flags),
            |path, stat| match stat {
                Some(stat) => check_access(&stat, mode).map(|()| 0),
                None => existing(path, None).map(|_| 0),
            },
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { faccessat(libc::AT_FDCWD, path, mode, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn euidaccess(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { faccessat(libc::AT_FDCWD, path, mode, libc::AT_EACCESS) }
}

twins! {
    stat(path: *const c_char, out: *mut libc::stat) -> c_int: stat64;
    lstat(path: *const c_char, out: *mut libc::stat) -> c_int: lstat64;
    fstat(fd: c_int, out: *mut libc::stat) -> c_int: fstat64;
    fstatat(dir: c_int, path: *const c_char, out: *mut libc::stat, flags: c_int) -> c_int: fstatat64;
    __xstat(version: c_int, path: *const c_char, out: *mut libc::stat) -> c_int: __xstat64;
    __lxstat(version: c_int, path: *const c_char, out: *mut libc::stat) -> c_int: __lxstat64;
    __fxstat(version: c_int, fd: c_int, out: *mut libc::stat) -> c_int: __fxstat64;
    __fxstatat(version: c_int, dir: c_int, path: *const c_char, out: *mut libc::stat, flags: c_int) -> c_int: __fxstatat64;
    euidaccess(path: *const c_char, mode: c_int) -> c_int: eaccess;
}
