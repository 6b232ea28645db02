//! Waiting for descriptors: files of the store are always ready, as all files are.

use std::ffi::{c_char, c_int};
use std::slice;

use libc::{fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

use crate::answer::give;
use crate::errors::refuse;
use crate::paths::{LastLink, by_path};
use crate::{numbers, real, table};

/// Hides files of the store from `poll`, which does not wait if there are any. Returns their entries.
unsafe fn polled(all: *mut pollfd, count: nfds_t, poll: impl FnOnce(bool) -> c_int) -> c_int {
    if !numbers::has_any() || all.is_null() {
        return poll(false);
    }
    // SAFETY: the caller gives a list of this length.
    let entries = unsafe { slice::from_raw_parts_mut(all, count as usize) };
    let ours: Vec<(usize, c_int)> =
        entries.iter().map(|entry| entry.fd).enumerate().filter(|(_, fd)| numbers::has(*fd)).collect();
    for (at, _) in &ours {
        entries[*at].fd = -1;
    }
    let found = poll(!ours.is_empty());
    let mut ready = 0;
    for (at, fd) in ours {
        entries[at].fd = fd;
        entries[at].revents = entries[at].events & (libc::POLLIN | libc::POLLOUT | libc::POLLRDNORM | libc::POLLWRNORM);
        ready += c_int::from(entries[at].revents != 0);
    }
    if found < 0 { found } else { found + ready }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn poll(all: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the caller gives a list of this length.
    unsafe { polled(all, count, |at_once| real::poll(all, count, if at_once { 0 } else { timeout })) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll_chk(all: *mut pollfd, count: nfds_t, timeout: c_int, _room: usize) -> c_int {
    // SAFETY: as above.
    unsafe { poll(all, count, timeout) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ppoll(
    all: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let none = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    unsafe { polled(all, count, |at_once| real::ppoll(all, count, if at_once { &none } else { timeout }, mask)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __ppoll_chk(
    all: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    _room: usize,
) -> c_int {
    // SAFETY: as above.
    unsafe { ppoll(all, count, timeout, mask) }
}

/// The files of the store in a set of `select`, which are taken out of it.
unsafe fn take_ours(count: c_int, set: *mut fd_set) -> Vec<c_int> {
    if set.is_null() {
        return Vec::new();
    }
    let fds = table::range(0, count.min(libc::FD_SETSIZE as c_int) - 1);
    // SAFETY: the numbers are below the size of a set.
    unsafe {
        let ours: Vec<c_int> = fds.into_iter().filter(|fd| libc::FD_ISSET(*fd, set)).collect();
        ours.iter().for_each(|fd| libc::FD_CLR(*fd, set));
        ours
    }
}

unsafe fn selected(count: c_int, sets: [*mut fd_set; 3], select: impl FnOnce(bool) -> c_int) -> c_int {
    if !numbers::has_any() {
        return select(false);
    }
    // SAFETY: the caller gives sets or null.
    unsafe {
        let ours = sets.map(|set| take_ours(count, set));
        let ready = ours[0].len() + ours[1].len();
        let found = select(ready > 0);
        if found < 0 {
            return found;
        }
        for (set, ours) in sets.into_iter().zip(&ours).take(2) {
            ours.iter().for_each(|fd| libc::FD_SET(*fd, set));
        }
        found + ready as c_int
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn select(
    count: c_int,
    reads: *mut fd_set,
    writes: *mut fd_set,
    errors: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    let mut none = timeval { tv_sec: 0, tv_usec: 0 };
    // SAFETY: the caller gives sets or null.
    unsafe {
        selected(count, [reads, writes, errors], |at_once| {
            real::select(count, reads, writes, errors, if at_once { &mut none } else { timeout })
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pselect(
    count: c_int,
    reads: *mut fd_set,
    writes: *mut fd_set,
    errors: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let none = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    unsafe {
        selected(count, [reads, writes, errors], |at_once| {
            real::pselect(count, reads, writes, errors, if at_once { &none } else { timeout }, mask)
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_ctl(
    watcher: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut libc::epoll_event,
) -> c_int {
    match numbers::has(fd) {
        // As the kernel answers for files.
        true => give(refuse(libc::EPERM)),
        // SAFETY: the caller's arguments, as they are.
        false => unsafe { real::epoll_ctl(watcher, operation, fd, event) },
    }
}

/// Nobody tells the kernel about changes in the store, so programs ask again and again instead.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn inotify_add_watch(watcher: c_int, path: *const c_char, mask: u32) -> c_int {
    // SAFETY: the caller gives a path.
    unsafe {
        by_path(
            libc::AT_FDCWD,
            path,
            LastLink::Keep,
            |_, path| real::inotify_add_watch(watcher, path, mask),
            |_, _| refuse(libc::ENOSYS),
        )
    }
}
