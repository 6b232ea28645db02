//! Locks: taken on an object's [`LockFile`].

use std::ffi::c_int;
use std::os::fd::AsRawFd;

use libc::off_t;
use terrace_prefix::locks::LockFile;

use crate::calls::{by_descriptor, twins};
use crate::description::OpenDescription;
use crate::errors::{CallResult, ErrorNumber, of_kernel, refuse};
use crate::{opened, pointers, real};

/// Returns the descriptor of a description's lock file.
fn lock_file(open: &OpenDescription) -> CallResult<c_int> {
    if let Some(file) = open.lock_file.get() {
        return Ok(file.as_raw_fd());
    }
    // Locks of one node mean nothing to the others.
    if opened::get()?.files.store().is_shared() {
        return refuse(libc::ENOLCK);
    }
    let file = LockFile::open(open.object());
    let file = file.map_err(|error| ErrorNumber(error.raw_os_error().unwrap_or(libc::ENOLCK)))?;
    Ok(open.lock_file.get_or_init(|| file).as_raw_fd())
}

/// Answers the commands of `fcntl` for locks. What was written under a lock is placed before it is given up.
///
/// # Safety
/// `lock` is valid.
pub unsafe fn control(open: &OpenDescription, command: c_int, lock: *mut libc::flock) -> CallResult<c_int> {
    pointers::check(lock, 1)?;
    let file = lock_file(open)?;
    // SAFETY: as the caller says.
    let asked = unsafe { &mut *lock };
    let start = match c_int::from(asked.l_whence) {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => open.offset(),
        libc::SEEK_END => i64::try_from(open.stat()?.length).unwrap_or(i64::MAX),
        _ => return refuse(libc::EINVAL),
    };
    let asks_only = matches!(command, libc::F_GETLK | libc::F_OFD_GETLK);
    // The lock file may be read and written, so the kernel does not look whether this file may.
    let barring_access = match c_int::from(asked.l_type) {
        libc::F_RDLCK => libc::O_WRONLY,
        libc::F_WRLCK => libc::O_RDONLY,
        _ => libc::O_ACCMODE,
    };
    if !asks_only && open.flags() & libc::O_ACCMODE == barring_access {
        return refuse(libc::EBADF);
    }
    if asked.l_type == libc::F_UNLCK as i16 && !asks_only {
        open.flush()?;
    }
    let mut absolute = *asked;
    absolute.l_whence = libc::SEEK_SET as i16;
    absolute.l_start = asked.l_start.saturating_add(start);
    // SAFETY: the lock is our own copy.
    let done = of_kernel(unsafe { real::fcntl(file, command, (&raw mut absolute) as _) })?;
    if asks_only {
        *asked = absolute;
    }
    Ok(done)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn flock(fd: c_int, operation: c_int) -> c_int {
    // SAFETY: it takes numbers only.
    by_descriptor(
        fd,
        || unsafe { real::flock(fd, operation) },
        |open| {
            if operation & libc::LOCK_UN != 0 {
                open.flush()?;
            }
            let file = lock_file(open)?;
            // SAFETY: as above.
            of_kernel(unsafe { real::flock(file, operation) })
        },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lockf(fd: c_int, command: c_int, length: off_t) -> c_int {
    // SAFETY: as above.
    by_descriptor(
        fd,
        || unsafe { real::lockf(fd, command, length) },
        |open| {
            // SAFETY: it consists of numbers, for which zero is valid.
            let mut lock: libc::flock = unsafe { std::mem::zeroed() };
            (lock.l_whence, lock.l_len) = (libc::SEEK_CUR as i16, length);
            lock.l_type = if command == libc::F_ULOCK { libc::F_UNLCK as i16 } else { libc::F_WRLCK as i16 };
            let how = match command {
                libc::F_LOCK => libc::F_SETLKW,
                libc::F_TLOCK | libc::F_ULOCK => libc::F_SETLK,
                libc::F_TEST => libc::F_GETLK,
                _ => return refuse(libc::EINVAL),
            };
            // SAFETY: the lock is our own.
            let done = unsafe { control(open, how, &mut lock)? };
            match command == libc::F_TEST && lock.l_type != libc::F_UNLCK as i16 {
                true => refuse(libc::EACCES),
                false => Ok(done),
            }
        },
    )
}

twins! {
    lockf(fd: c_int, command: c_int, length: off_t) -> c_int: lockf64;
}
