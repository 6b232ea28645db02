//! `syscall`: programs make some calls by their numbers, because older C libraries lack functions for them. Those that programs were seen to make so
//! are served. Any other one is the kernel's: a call with a descriptor of the store fails there.

use std::ffi::{c_char, c_int, c_long, c_uint};

use crate::calls::{bytes, copy, descriptors, names, open, stat};
use crate::{real, settings};

/// Each argument is read, because it is in a register or on the stack, whether it was passed or not.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    // SAFETY: the caller passes what the call of this number needs.
    unsafe {
        if settings::prefix().is_empty() {
            return real::syscall(number, a, b, c, d, e, f);
        }
        let path = |argument: c_long| argument as *const c_char;
        let (fd, flags) = (a as c_int, d as c_int);
        match number {
            libc::SYS_openat => open::openat(fd, path(b), c as c_int, d as libc::mode_t).into(),
            libc::SYS_openat2 => open::openat2(fd, path(b), c as *const _, d as usize),
            libc::SYS_close => descriptors::close(fd).into(),
            libc::SYS_close_range => descriptors::close_range(a as c_uint, b as c_uint, c as c_int).into(),
            libc::SYS_dup => descriptors::dup(fd).into(),
            libc::SYS_dup3 => descriptors::dup3(fd, b as c_int, c as c_int).into(),
            libc::SYS_statx => stat::statx(fd, path(b), c as c_int, d as c_uint, e as *mut _).into(),
            libc::SYS_newfstatat => stat::fstatat(fd, path(b), c as *mut _, flags).into(),
            libc::SYS_faccessat2 => stat::faccessat(fd, path(b), c as c_int, flags).into(),
            libc::SYS_renameat2 => names::renameat2(fd, path(b), c as c_int, path(d), e as c_uint).into(),
            libc::SYS_copy_file_range => {
                copy::copy_file_range(fd, b as *mut _, c as c_int, d as *mut _, e as usize, f as c_uint) as c_long
            }
            // The offset's upper half, `e`, is empty where a word has 64 bits.
            libc::SYS_preadv => bytes::preadv(fd, b as *const _, c as c_int, d) as c_long,
            libc::SYS_pwritev => bytes::pwritev(fd, b as *const _, c as c_int, d) as c_long,
            libc::SYS_preadv2 => bytes::preadv2(fd, b as *const _, c as c_int, d, f as c_int) as c_long,
            libc::SYS_pwritev2 => bytes::pwritev2(fd, b as *const _, c as c_int, d, f as c_int) as c_long,
            _ => real::syscall(number, a, b, c, d, e, f),
        }
    }
}
