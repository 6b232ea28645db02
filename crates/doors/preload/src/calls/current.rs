//! The current directory, and the paths that programs are told.

use std::ffi::{CString, c_char, c_int};

use libc::size_t;
use terrace::Kind;

use crate::answer::{answer, give};
use crate::calls::stat;
use crate::errors::{CallResult, refuse};
use crate::paths::{LastLink, by_path, shown};
use crate::{folder, opened, real, table};

/// Refuses what is no directory of the store.
pub fn check_directory(path: &[u8]) -> CallResult<()> {
    match opened::get()?.files.stat(path)?.kind {
        Kind::Directory => Ok(()),
        _ => refuse(libc::ENOTDIR),
    }
}

fn enter(path: &[u8]) -> CallResult<c_int> {
    check_directory(path)?;
    folder::enter(path.to_vec()).map(|()| 0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn chdir(path: *const c_char) -> c_int {
    let elsewhere = |path| {
        // SAFETY: the path ends with a zero byte.
        let changed = unsafe { real::chdir(path) };
        if changed == 0 {
            folder::leave();
        }
        changed
    };
    // SAFETY: the caller gives a path.
    unsafe { by_path(libc::AT_FDCWD, path, LastLink::Follow, |_, path| elsewhere(path), |path, _| enter(path)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fchdir(fd: c_int) -> c_int {
    match table::get(fd) {
        Some(open) => answer(|| enter(&open.path())),
        None => {
            // SAFETY: it takes a number only.
            let changed = unsafe { real::fchdir(fd) };
            if changed == 0 {
                folder::leave();
            }
            changed
        }
    }
}

/// Copies a path into a caller's buffer, or into one from `malloc` if there is none.
unsafe fn hand_out(path: &[u8], out: *mut c_char, size: size_t) -> CallResult<*mut c_char> {
    let path = CString::new(path).or(refuse(libc::EINVAL))?;
    let bytes = path.as_bytes_with_nul();
    // SAFETY: the caller's buffer has `size` bytes, or is allocated here.
    unsafe {
        let out = match out.is_null() {
            true if size > 0 && size < bytes.len() => return refuse(libc::ERANGE),
            true => libc::malloc(size.max(bytes.len())).cast::<c_char>(),
            false if size < bytes.len() => return refuse(libc::ERANGE),
            false => out,
        };
        if out.is_null() {
            return refuse(libc::ENOMEM);
        }
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), out, bytes.len());
        Ok(out)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getcwd(out: *mut c_char, size: size_t) -> *mut c_char {
    if crate::inside::is_inside() {
        // SAFETY: the caller gives a buffer of this length.
        return unsafe { real::getcwd(out, size) };
    }
    match folder::get() {
        // SAFETY: as above.
        None => unsafe { real::getcwd(out, size) },
        Some(_) if size == 0 && !out.is_null() => give(refuse(libc::EINVAL)),
        // SAFETY: as above.
        Some(path) => answer(|| unsafe { hand_out(&shown(&path), out, size) }),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __getcwd_chk(out: *mut c_char, size: size_t, room: size_t) -> *mut c_char {
    if size > room {
        std::process::abort();
    }
    // SAFETY: the buffer is long enough, which is checked.
    unsafe { getcwd(out, size) }
}

/// Older programs give a buffer of `PATH_MAX` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getwd(out: *mut c_char) -> *mut c_char {
    if out.is_null() {
        return give(refuse(libc::EINVAL));
    }
    // SAFETY: the caller gives a buffer of this length.
    unsafe { getcwd(out, libc::PATH_MAX as size_t) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __getwd_chk(out: *mut c_char, room: size_t) -> *mut c_char {
    // SAFETY: as above.
    unsafe { if out.is_null() { getwd(out) } else { getcwd(out, room.min(libc::PATH_MAX as size_t)) } }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn get_current_dir_name() -> *mut c_char {
    // SAFETY: the function allocates the buffer.
    unsafe { getcwd(std::ptr::null_mut(), 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn realpath(path: *const c_char, out: *mut c_char) -> *mut c_char {
    let size = if out.is_null() { 0 } else { libc::PATH_MAX as usize };
    // SAFETY: the caller gives a path, and a buffer of `PATH_MAX` bytes or none.
    unsafe {
        by_path(
            libc::AT_FDCWD,
            path,
            LastLink::Follow,
            |_, path| real::realpath(path, out),
            |path, found| {
                stat::existing(path, found)?;
                hand_out(&shown(path), out, size)
            },
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __realpath_chk(path: *const c_char, out: *mut c_char, _room: size_t) -> *mut c_char {
    // SAFETY: as above.
    unsafe { realpath(path, out) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn canonicalize_file_name(path: *const c_char) -> *mut c_char {
    // SAFETY: as above.
    unsafe { realpath(path, std::ptr::null_mut()) }
}
