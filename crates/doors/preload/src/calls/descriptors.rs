//! Descriptors: `close`, `dup`, `fcntl`, `ioctl`.

use std::ffi::{c_int, c_uint, c_ulong};

use crate::answer::{answer, give, guard};
use crate::calls::{by_descriptor, locks, stdio, twins};
use crate::errors::{CallResult, of_kernel, refuse};
use crate::inside::is_inside;
use crate::unseen::is_unseen;
use crate::{numbers, opened, real, table};

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    let is_inside = is_inside();
    if !is_inside && numbers::is_engines(fd) {
        // The program has not opened it.
        return give(refuse(libc::EBADF));
    }
    if !numbers::has(fd) {
        let _change = is_inside.then(numbers::change_engines);
        numbers::let_go(fd);
        // SAFETY: it takes a number only.
        return unsafe { real::close(fd) };
    }
    answer(|| {
        let flushed = forget(fd);
        // SAFETY: as above.
        of_kernel(unsafe { real::close(fd) })?;
        flushed.map(|()| 0)
    })
}

/// Takes a descriptor that the kernel is about to close out of the table, and writes its file's buffered bytes.
fn forget(fd: c_int) -> CallResult<()> {
    table::remove(fd).map_or(Ok(()), |open| open.finish())
}

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

/// Notes that the kernel has just given a number for another file than one of the store. A program that has closed it by a call of its own has
/// left it in the table.
pub fn kernels(fd: c_int) -> c_int {
    if numbers::has(fd) {
        // The call that opens a file cannot return this error. The engine's log reports bytes that were not written.
        let _ = guard(|| forget(fd));
    }
    fd
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
    stdio::adopt(copied);
    copied
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    // SAFETY: it takes a number only.
    copied(fd, unsafe { real::dup(fd) })
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
    if numbers::is_engines(to) {
        // The engine would read and write the program's file.
        return give(refuse(libc::EBUSY));
    }
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
    // SAFETY: the caller passes what the command needs.
    let kernel = || unsafe { real::fcntl(fd, command, argument) };
    if is_inside() && command == libc::F_DUPFD_CLOEXEC {
        let _change = numbers::change_engines();
        return numbers::keep_apart(kernel());
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
    close(fd: c_int) -> c_int: __close, __close_nocancel;
    dup2(fd: c_int, to: c_int) -> c_int: __dup2;
    fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int: fcntl64, __fcntl;
}
