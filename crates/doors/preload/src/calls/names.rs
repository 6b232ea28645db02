//! Names: `mkdir`, `rmdir`, `unlink`, `rename`.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::mode_t;
use terrace_prefix::access::caller;

use crate::answer::{answer, give};
use crate::calls::stat;
use crate::errors::{CallResult, refuse};
use crate::paths::{LastLink, Route, by_path, find};
use crate::pointers::is_wild;
use crate::{opened, real, table};

/// The mask of new files' permissions, or this if it is not known yet.
const UNKNOWN_MASK: u32 = u32::MAX;
/// Relaxed: it is one number, and the system, too, leaves threads that race for it to their luck.
static MASK_HERE: AtomicU32 = AtomicU32::new(UNKNOWN_MASK);

/// The mask of new files' permissions.
pub fn mask() -> mode_t {
    match MASK_HERE.load(Ordering::Relaxed) {
        UNKNOWN_MASK => {
            // The system tells it only to those who change it. Nobody else changes it here meanwhile but a thread that this races with.
            // SAFETY: these calls take numbers only.
            unsafe { umask(umask(0o077)) };
            MASK_HERE.load(Ordering::Relaxed)
        }
        known => known,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umask(mask: mode_t) -> mode_t {
    MASK_HERE.store(mask & 0o777, Ordering::Relaxed);
    // SAFETY: it takes a number only.
    unsafe { real::umask(mask) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mkdirat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the caller gives a path.
    unsafe {
        by_path(
            dir,
            path,
            LastLink::Keep,
            |dir, path| real::mkdirat(dir, path, mode),
            |path, stat| {
                if stat.is_some() {
                    return refuse(libc::EEXIST);
                }
                opened::get()?.files.make_directory(path, mode & !mask(), caller())?;
                Ok(0)
            },
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: as above.
    unsafe { mkdirat(libc::AT_FDCWD, path, mode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mknodat(dir: c_int, path: *const c_char, mode: mode_t, device: libc::dev_t) -> c_int {
    // SAFETY: as above.
    unsafe {
        by_path(
            dir,
            path,
            LastLink::Keep,
            |dir, path| real::mknodat(dir, path, mode, device),
            |path, stat| {
                match mode & libc::S_IFMT {
                    _ if stat.is_some() => return refuse(libc::EEXIST),
                    0 | libc::S_IFREG => {
                        drop(opened::get()?.files.create(path, mode & 0o7777 & !mask(), caller(), true)?)
                    }
                    // Only a file system gives pipes, sockets and devices a meaning.
                    _ => return refuse(libc::EPERM),
                }
                Ok(0)
            },
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mknod(path: *const c_char, mode: mode_t, device: libc::dev_t) -> c_int {
    // SAFETY: as above.
    unsafe { mknodat(libc::AT_FDCWD, path, mode, device) }
}

/// Programs that were linked to a C library before 2.33 call it so. `_version` is that of the structure of the device's number.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __xmknodat(
    _version: c_int,
    dir: c_int,
    path: *const c_char,
    mode: mode_t,
    device: *const libc::dev_t,
) -> c_int {
    // SAFETY: as above. The caller gives a device, which only devices need.
    unsafe { mknodat(dir, path, mode, if device.is_null() { 0 } else { *device }) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __xmknod(
    version: c_int,
    path: *const c_char,
    mode: mode_t,
    device: *const libc::dev_t,
) -> c_int {
    // SAFETY: as above.
    unsafe { __xmknodat(version, libc::AT_FDCWD, path, mode, device) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mkfifoat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: as above.
    unsafe { mknodat(dir, path, libc::S_IFIFO | mode, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mkfifo(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: as above.
    unsafe { mkfifoat(libc::AT_FDCWD, path, mode) }
}

/// Returns the error of removing what a path names, if it ends in a dot or two.
unsafe fn error_of_dots(path: *const c_char) -> Option<c_int> {
    // SAFETY: the caller gives a path.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let path = path.strip_suffix(b"/").unwrap_or(path);
    match path.rsplit(|&byte| byte == b'/').next() {
        Some(b".") => Some(libc::EINVAL),
        Some(b"..") => Some(libc::ENOTEMPTY),
        _ => None,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn unlinkat(dir: c_int, given: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as above.
    unsafe {
        by_path(
            dir,
            given,
            LastLink::Keep,
            |dir, path| real::unlinkat(dir, path, flags),
            |path, _| {
                let files = &opened::get()?.files;
                match (flags & libc::AT_REMOVEDIR != 0, error_of_dots(given)) {
                    (true, Some(number)) => return refuse(number),
                    (true, None) => files.remove_directory(path)?,
                    (false, _) => files.remove(path)?,
                }
                Ok(0)
            },
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: as above.
    unsafe { unlinkat(libc::AT_FDCWD, path, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rmdir(path: *const c_char) -> c_int {
    // SAFETY: as above.
    unsafe { unlinkat(libc::AT_FDCWD, path, libc::AT_REMOVEDIR) }
}

/// The C library's `remove` uses calls of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn remove(path: *const c_char) -> c_int {
    // SAFETY: as above.
    unsafe {
        let mut found = std::mem::MaybeUninit::uninit();
        if stat::lstat(path, found.as_mut_ptr()) != 0 {
            return -1;
        }
        match found.assume_init().st_mode & libc::S_IFMT {
            libc::S_IFDIR => rmdir(path),
            _ => unlink(path),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn renameat2(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    if is_wild(from) || is_wild(to) {
        return give(refuse(libc::EFAULT));
    }
    // SAFETY: the caller gives two paths.
    let routes = unsafe {
        find(from_dir, from, LastLink::Keep).and_then(|first| Ok((first, find(to_dir, to, LastLink::Keep)?)))
    };
    let (first, second) = match routes {
        Ok(routes) => routes,
        Err(error) => return give(Err(error)),
    };
    match (&first, &second) {
        // SAFETY: as above.
        (Some(Route::Below(..)), Some(Route::Below(..)))
            if unsafe { error_of_dots(from).or(error_of_dots(to)).is_some() } =>
        {
            give(refuse(libc::EBUSY))
        }
        (Some(Route::Below(from, _)), Some(Route::Below(to, _))) => answer(|| rename_below(from, to, flags)),
        (Some(Route::Below(..)), _) | (_, Some(Route::Below(..))) => give(refuse(libc::EXDEV)),
        _ => {
            let place = |route: &Option<Route>, dir, path| match route {
                Some(Route::Elsewhere(other)) => (libc::AT_FDCWD, other.as_ptr()),
                _ => (dir, path),
            };
            let ((from_dir, from), (to_dir, to)) = (place(&first, from_dir, from), place(&second, to_dir, to));
            // SAFETY: as above.
            unsafe { real::renameat2(from_dir, from, to_dir, to, flags) }
        }
    }
}

fn rename_below(from: &[u8], to: &[u8], flags: c_uint) -> CallResult<c_int> {
    if flags & !libc::RENAME_NOREPLACE != 0 {
        return refuse(libc::EINVAL);
    }
    opened::get()?.files.rename(from, to, flags == 0)?;
    table::rename(from, to);
    Ok(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn renameat(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
) -> c_int {
    // SAFETY: as above.
    unsafe { renameat2(from_dir, from, to_dir, to, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: as above.
    unsafe { renameat2(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) }
}
