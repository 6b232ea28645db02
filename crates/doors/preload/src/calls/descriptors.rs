//! Descriptors: `close_range`, `dup`, `fcntl`, `ioctl`.

use std::ffi::{c_int, c_uint, c_ulong};

use crate::answer::{give, guard};
use crate::calls::closing::forget;
pub use crate::calls::closing::{close, kernels};
use crate::calls::{by_descriptor, locks, streams, twins};
use crate::errors::{of_kernel, refuse};
use crate::inside::is_inside;
use crate::unseen::is_unseen;
use crate::{numbers, opened, real, table};

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let stays_open = flags & libc::CLOSE_RANGE_CLOEXEC as c_int != 0;
    // The engine's descriptors are closed by `exec` anyway.
    if stays_open || opened::if_open().is_none() && !numbers::has_any() {
        // SAFETY: it takes numbers only.
        return unsafe { real::close_range(first, last, flags) };
    }
    let number = |bound: c_uint| c_int::try_from(bound).unwrap_or(c_int::MAX);
    for fd in table::range(number(first), number(last)) {
        // The call cannot return this error. The engine's log reports bytes that were not written.
        let _ = guard(|| forget(fd));
    }
    // A process that the library has not seen being made may have inherited the lock from a thread that it lacks. It has no engine.
    let _alone = (!is_unseen()).then(numbers::lock);
    let mut start = first;
    for engines in numbers::engines_within(first, last) {
        if start < engines {
            // SAFETY: as above.
            unsafe { real::close_range(start, engines - 1, flags) };
        }
        start = engines + 1;
    }
    // SAFETY: as above.
    if start <= last { unsafe { real::close_range(start, last, flags) } } else { 0 }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    // It never fails, as `close_range` does not for valid numbers.
    // SAFETY: as above.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

/// Enters a copy of a descriptor.
fn copied(from: c_int, to: c_int) -> c_int {
    if to < 0 {
        return to;
    }
    let copied = match table::get(from) {
        Some(open) => give(table::add(to, open)),
        None => kernels(to),
    };
    streams::adopt(copied);
    copied
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    let copy = || {
        let _change = numbers::change_programs();
        // SAFETY: it takes a number only.
        unsafe { real::dup(fd) }
    };
    copied(fd, copy())
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(fd: c_int, to: c_int) -> c_int {
    // SAFETY: as above.
    replace(fd, to, || unsafe { real::dup2(fd, to) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: as above.
    replace(fd, to, || unsafe { real::dup3(fd, to, flags) })
}

fn replace(fd: c_int, to: c_int, copy: impl FnOnce() -> c_int) -> c_int {
    let copy = || {
        let _change = numbers::change_programs();
        // The engine would read and write the program's file.
        if numbers::is_engines(to) { give(refuse(libc::EBUSY)) } else { copy() }
    };
    if fd == to || !numbers::has(fd) && !numbers::has(to) {
        return copy();
    }
    // Valid, or nothing may be closed. SAFETY: it asks for flags only.
    if unsafe { real::fcntl(fd, libc::F_GETFD, 0) } < 0 {
        return -1;
    }
    // `dup2` does not report the error of what it closes.
    let _ = guard(|| forget(to));
    copied(fd, copy())
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    let (is_inside, copies) = (is_inside(), matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC));
    let kernel = || {
        let _change = (copies && !is_inside).then(numbers::change_programs);
        // SAFETY: the caller passes what the command needs.
        unsafe { real::fcntl(fd, command, argument) }
    };
    if copies && is_inside {
        return numbers::open_apart(kernel);
    }
    by_descriptor(fd, kernel, |open| match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => Ok(copied(fd, of_kernel(kernel())?)),
        libc::F_GETFD | libc::F_SETFD => of_kernel(kernel()),
        libc::F_GETFL => Ok(open.flags() | libc::O_LARGEFILE),
        libc::F_SETFL => {
            open.set_flags(argument as c_int);
            Ok(0)
        }
        libc::F_GETLK | libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_GETLK | libc::F_OFD_SETLK | libc::F_OFD_SETLKW => {
            // SAFETY: these commands take a `flock`.
            unsafe { locks::control(open, command, argument as *mut libc::flock) }
        }
        _ => refuse(libc::EINVAL),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: c_ulong) -> c_int {
    // Files of a store are no terminals, and share no blocks with other files.
    // SAFETY: the caller passes what the request needs.
    by_descriptor(fd, || unsafe { real::ioctl(fd, request, argument) }, |_| refuse(libc::ENOTTY))
}

twins! {
    dup2(fd: c_int, to: c_int) -> c_int: __dup2;
    fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int: fcntl64, __fcntl;
}
