//! The system calls of `stat`, which C libraries wrap in different ways. Their structure is the C library's.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint};
use std::mem::MaybeUninit;

use crate::real;

/// The system call, which older C libraries wrap otherwise. Its structure is the C library's.
pub unsafe fn fstatat(dir: c_int, path: *const c_char, out: *mut libc::stat, flags: c_int) -> c_int {
    // SAFETY: the caller gives a path and a buffer.
    unsafe {
        real::syscall(libc::SYS_newfstatat, dir.into(), path as c_long, out as c_long, flags.into(), 0, 0) as c_int
    }
}

/// Returns the kernel's attributes of a descriptor.
pub fn stat_open(fd: c_int) -> Option<libc::stat> {
    let mut stat = MaybeUninit::uninit();
    // SAFETY: the kernel fills the buffer, or fails.
    unsafe { (fstat(fd, stat.as_mut_ptr()) == 0).then(|| stat.assume_init()) }
}

/// Returns the kernel's attributes of a path.
pub fn stat_path(path: &CStr) -> Option<libc::stat> {
    let mut stat = MaybeUninit::uninit();
    // SAFETY: as above.
    unsafe { (fstatat(libc::AT_FDCWD, path.as_ptr(), stat.as_mut_ptr(), 0) == 0).then(|| stat.assume_init()) }
}

/// The system call.
pub unsafe fn fstat(fd: c_int, out: *mut libc::stat) -> c_int {
    // SAFETY: the caller gives a buffer.
    unsafe { real::syscall(libc::SYS_fstat, fd.into(), out as c_long, 0, 0, 0, 0) as c_int }
}

/// The system call, which older C libraries lack.
pub unsafe fn statx(dir: c_int, path: *const c_char, flags: c_int, mask: c_uint, out: *mut libc::statx) -> c_int {
    let (path, mask) = (path as c_long, mask.into());
    // SAFETY: the caller gives a path and a buffer.
    unsafe { real::syscall(libc::SYS_statx, dir.into(), path, flags.into(), mask, out as c_long, 0) as c_int }
}
