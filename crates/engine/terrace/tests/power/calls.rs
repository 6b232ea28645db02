//! The calls that change files. Each is a moment at which the power may go, just before it is carried out. What maps
//! files for writing (LMDB's table of readers, words that processes share) is seen when the next call is.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void};

use super::{Disk, disk};

thread_local! {
    /// Whether this thread is in a watched call: what it writes there is not watched, such as why it panics.
    static INSIDE_CALL: Cell<bool> = const { Cell::new(false) };
}

/// Runs a system call; the disk looks at it before or after. Calls are watched one at a time.
fn watched(call: impl FnOnce() -> i64, after: impl FnOnce(&mut Disk)) -> i64 {
    if INSIDE_CALL.replace(true) {
        return call();
    }
    let result = watch(call, after);
    INSIDE_CALL.set(false);
    result
}

fn watch(call: impl FnOnce() -> i64, after: impl FnOnce(&mut Disk)) -> i64 {
    let mut guard = disk();
    if let Some(disk) = guard.as_mut() {
        disk.call();
    }
    let result = call();
    if let Some(disk) = guard.as_mut()
        && result >= 0
    {
        after(disk);
    }
    result
}

/// Takes the place of a function of the C library by the system call that it makes, with the same arguments.
macro_rules! watch_calls {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty = $number:ident($($passed:expr),*);)*) => {$(
        // SAFETY: it does what the C library's function does, by the same system call.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            watched(|| unsafe { libc::syscall(libc::$number, $($passed),*) }, |_| {}) as $result
        }
    )*};
}

const CURRENT_FOLDER: c_int = libc::AT_FDCWD;

watch_calls! {
    write(fd: c_int, bytes: *const c_void, length: usize) -> isize = SYS_write(fd, bytes, length);
    writev(fd: c_int, parts: *const libc::iovec, count: c_int) -> isize = SYS_writev(fd, parts, count);
    pwrite(fd: c_int, bytes: *const c_void, length: usize, at: i64) -> isize = SYS_pwrite64(fd, bytes, length, at);
    pwrite64(fd: c_int, bytes: *const c_void, length: usize, at: i64) -> isize = SYS_pwrite64(fd, bytes, length, at);
    pwritev(fd: c_int, parts: *const libc::iovec, count: c_int, at: i64) -> isize = SYS_pwritev(fd, parts, count, at, 0);
    pwritev64(fd: c_int, parts: *const libc::iovec, count: c_int, at: i64) -> isize = SYS_pwritev(fd, parts, count, at, 0);
    ftruncate(fd: c_int, length: i64) -> c_int = SYS_ftruncate(fd, length);
    ftruncate64(fd: c_int, length: i64) -> c_int = SYS_ftruncate(fd, length);
    fallocate(fd: c_int, mode: c_int, at: i64, length: i64) -> c_int = SYS_fallocate(fd, mode, at, length);
    fallocate64(fd: c_int, mode: c_int, at: i64, length: i64) -> c_int = SYS_fallocate(fd, mode, at, length);
    rename(from: *const c_char, to: *const c_char) -> c_int = SYS_renameat(CURRENT_FOLDER, from, CURRENT_FOLDER, to);
    renameat(from_fd: c_int, from: *const c_char, to_fd: c_int, to: *const c_char) -> c_int
        = SYS_renameat(from_fd, from, to_fd, to);
    renameat2(from_fd: c_int, from: *const c_char, to_fd: c_int, to: *const c_char, flags: c_uint) -> c_int
        = SYS_renameat2(from_fd, from, to_fd, to, flags);
    link(from: *const c_char, to: *const c_char) -> c_int = SYS_linkat(CURRENT_FOLDER, from, CURRENT_FOLDER, to, 0);
    linkat(from_fd: c_int, from: *const c_char, to_fd: c_int, to: *const c_char, flags: c_int) -> c_int
        = SYS_linkat(from_fd, from, to_fd, to, flags);
    unlink(path: *const c_char) -> c_int = SYS_unlinkat(CURRENT_FOLDER, path, 0);
    unlinkat(fd: c_int, path: *const c_char, flags: c_int) -> c_int = SYS_unlinkat(fd, path, flags);
    rmdir(path: *const c_char) -> c_int = SYS_unlinkat(CURRENT_FOLDER, path, libc::AT_REMOVEDIR);
    mkdir(path: *const c_char, mode: libc::mode_t) -> c_int = SYS_mkdirat(CURRENT_FOLDER, path, mode);
    mkdirat(fd: c_int, path: *const c_char, mode: libc::mode_t) -> c_int = SYS_mkdirat(fd, path, mode);
}

// SAFETY of both: as above.

#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    watched(|| unsafe { libc::syscall(libc::SYS_fsync, fd) }, |disk| disk.synced(fd)) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    watched(|| unsafe { libc::syscall(libc::SYS_fdatasync, fd) }, |disk| disk.synced(fd)) as c_int
}
