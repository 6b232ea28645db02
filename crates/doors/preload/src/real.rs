//! The C library's own functions, behind ours.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    DIR, FILE, dirent64, fd_set, gid_t, mode_t, nfds_t, off_t, pid_t, pollfd, sigset_t, size_t, ssize_t, timespec,
    timeval, uid_t,
};

use crate::tree_entry::{EntryOrder, TreeEntry, TreeStream};

/// A function of the libraries that follow this one in the linker's order. Found at the first call, which may come before any constructor
/// runs.
struct NextFunction {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl NextFunction {
    const fn new(name: &'static CStr) -> NextFunction {
        NextFunction { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    #[inline]
    fn find(&self) -> *mut c_void {
        // Relaxed: threads that look at once find the same function.
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.find_again() } else { found }
    }

    #[cold]
    fn find_again(&self) -> *mut c_void {
        // SAFETY: the name ends with a zero byte. `dlsym` allocates nothing when it finds a function.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        let found = if found.is_null() { missing as *mut c_void } else { found };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Stands for functions that an older C library lacks. All that may be missing return a number.
extern "C" fn missing() -> isize {
    crate::errors::set_error_number(libc::ENOSYS);
    -1
}

/// Returns the text of a function's name, which ends with a zero byte.
pub const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

macro_rules! next_functions {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => { $(
        #[inline]
        pub unsafe fn $name($($argument: $kind),*) -> $result {
            static NEXT_FUNCTION: NextFunction = NextFunction::new(c_name(concat!(stringify!($name), "\0")));
            // SAFETY: the C library's function of this name has this signature. A variadic one finds its arguments in the same registers.
            let function: unsafe extern "C-unwind" fn($($kind),*) -> $result = unsafe { std::mem::transmute(NEXT_FUNCTION.find()) };
            // SAFETY: the caller passes on its own caller's arguments, or valid ones.
            unsafe { function($($argument),*) }
        }
    )* };
}

/// Returns the address of the C library's `dlopen`.
#[cfg(target_arch = "x86_64")]
pub extern "C" fn dlopen_address() -> *mut c_void {
    static DLOPEN_FUNCTION: NextFunction = NextFunction::new(c"dlopen");
    DLOPEN_FUNCTION.find()
}

next_functions! {
    fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long;
    fn openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn eventfd(start: c_uint, flags: c_int) -> c_int;
    fn epoll_create1(flags: c_int) -> c_int;
    fn inotify_init1(flags: c_int) -> c_int;
    fn timerfd_create(clock: c_int, flags: c_int) -> c_int;
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    fn dup(fd: c_int) -> c_int;
    fn dup2(fd: c_int, to: c_int) -> c_int;
    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int;
    fn ioctl(fd: c_int, request: c_ulong, argument: c_ulong) -> c_int;
    fn read(fd: c_int, out: *mut c_void, length: size_t) -> ssize_t;
    fn pread(fd: c_int, out: *mut c_void, length: size_t, offset: off_t) -> ssize_t;
    fn readv(fd: c_int, parts: *const libc::iovec, count: c_int) -> ssize_t;
    fn preadv(fd: c_int, parts: *const libc::iovec, count: c_int, offset: off_t) -> ssize_t;
    fn preadv2(fd: c_int, parts: *const libc::iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn write(fd: c_int, bytes: *const c_void, length: size_t) -> ssize_t;
    fn pwrite(fd: c_int, bytes: *const c_void, length: size_t, offset: off_t) -> ssize_t;
    fn writev(fd: c_int, parts: *const libc::iovec, count: c_int) -> ssize_t;
    fn pwritev(fd: c_int, parts: *const libc::iovec, count: c_int, offset: off_t) -> ssize_t;
    fn pwritev2(fd: c_int, parts: *const libc::iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t;
    fn aio_read(request: *mut c_void) -> c_int;
    fn aio_write(request: *mut c_void) -> c_int;
    fn aio_fsync(operation: c_int, request: *mut c_void) -> c_int;
    fn lio_listio(mode: c_int, list: *const *mut c_void, count: c_int, event: *mut c_void) -> c_int;
    fn fsync(fd: c_int) -> c_int;
    fn fdatasync(fd: c_int) -> c_int;
    fn syncfs(fd: c_int) -> c_int;
    fn sync_file_range(fd: c_int, offset: off_t, length: off_t, flags: c_uint) -> c_int;
    fn truncate(path: *const c_char, length: off_t) -> c_int;
    fn ftruncate(fd: c_int, length: off_t) -> c_int;
    fn fallocate(fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int;
    fn posix_fallocate(fd: c_int, offset: off_t, length: off_t) -> c_int;
    fn posix_fadvise(fd: c_int, offset: off_t, length: off_t, advice: c_int) -> c_int;
    fn readahead(fd: c_int, offset: off_t, length: size_t) -> ssize_t;
    fn copy_file_range(from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, length: size_t, flags: c_uint) -> ssize_t;
    fn sendfile(to: c_int, from: c_int, at: *mut off_t, length: size_t) -> ssize_t;
    fn splice(from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, length: size_t, flags: c_uint) -> ssize_t;
    fn mmap(at: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void;
    fn opendir(path: *const c_char) -> *mut DIR;
    fn fdopendir(fd: c_int) -> *mut DIR;
    fn readdir64(stream: *mut DIR) -> *mut dirent64;
    fn readdir64_r(stream: *mut DIR, entry: *mut dirent64, result: *mut *mut dirent64) -> c_int;
    fn closedir(stream: *mut DIR) -> c_int;
    fn rewinddir(stream: *mut DIR) -> ();
    fn seekdir(stream: *mut DIR, position: libc::c_long) -> ();
    fn telldir(stream: *mut DIR) -> libc::c_long;
    fn dirfd(stream: *mut DIR) -> c_int;
    fn mkdirat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int;
    fn mknodat(dir: c_int, path: *const c_char, mode: mode_t, device: libc::dev_t) -> c_int;
    fn unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int;
    fn renameat2(from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char, flags: c_uint) -> c_int;
    fn linkat(from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char, flags: c_int) -> c_int;
    fn symlinkat(to: *const c_char, dir: c_int, path: *const c_char) -> c_int;
    fn readlinkat(dir: c_int, path: *const c_char, out: *mut c_char, size: size_t) -> ssize_t;
    fn realpath(path: *const c_char, out: *mut c_char) -> *mut c_char;
    fn chdir(path: *const c_char) -> c_int;
    fn fchdir(fd: c_int) -> c_int;
    fn getcwd(out: *mut c_char, size: size_t) -> *mut c_char;
    fn faccessat(dir: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int;
    fn fchmod(fd: c_int, mode: mode_t) -> c_int;
    fn fchmodat(dir: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int;
    fn fchown(fd: c_int, user: uid_t, group: gid_t) -> c_int;
    fn fchownat(dir: c_int, path: *const c_char, user: uid_t, group: gid_t, flags: c_int) -> c_int;
    fn utimensat(dir: c_int, path: *const c_char, times: *const timespec, flags: c_int) -> c_int;
    fn futimens(fd: c_int, times: *const timespec) -> c_int;
    fn umask(mask: mode_t) -> mode_t;
    fn pathconf(path: *const c_char, name: c_int) -> libc::c_long;
    fn statfs(path: *const c_char, out: *mut libc::statfs) -> c_int;
    fn fstatfs(fd: c_int, out: *mut libc::statfs) -> c_int;
    fn statvfs(path: *const c_char, out: *mut libc::statvfs) -> c_int;
    fn fstatvfs(fd: c_int, out: *mut libc::statvfs) -> c_int;
    fn getxattr(path: *const c_char, name: *const c_char, out: *mut c_void, size: size_t) -> ssize_t;
    fn lgetxattr(path: *const c_char, name: *const c_char, out: *mut c_void, size: size_t) -> ssize_t;
    fn fgetxattr(fd: c_int, name: *const c_char, out: *mut c_void, size: size_t) -> ssize_t;
    fn listxattr(path: *const c_char, out: *mut c_char, size: size_t) -> ssize_t;
    fn llistxattr(path: *const c_char, out: *mut c_char, size: size_t) -> ssize_t;
    fn flistxattr(fd: c_int, out: *mut c_char, size: size_t) -> ssize_t;
    fn setxattr(path: *const c_char, name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> c_int;
    fn lsetxattr(path: *const c_char, name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> c_int;
    fn fsetxattr(fd: c_int, name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> c_int;
    fn removexattr(path: *const c_char, name: *const c_char) -> c_int;
    fn lremovexattr(path: *const c_char, name: *const c_char) -> c_int;
    fn fremovexattr(fd: c_int, name: *const c_char) -> c_int;
    fn flock(fd: c_int, operation: c_int) -> c_int;
    fn lockf(fd: c_int, command: c_int, length: off_t) -> c_int;
    fn inotify_add_watch(watcher: c_int, path: *const c_char, mask: u32) -> c_int;
    fn poll(all: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    fn ppoll(all: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn select(count: c_int, reads: *mut fd_set, writes: *mut fd_set, errors: *mut fd_set, timeout: *mut timeval) -> c_int;
    fn pselect(count: c_int, reads: *mut fd_set, writes: *mut fd_set, errors: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn epoll_ctl(watcher: c_int, operation: c_int, fd: c_int, event: *mut libc::epoll_event) -> c_int;
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE;
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
    fn tmpfile() -> *mut FILE;
    fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn vfwprintf(stream: *mut FILE, format: *const libc::wchar_t, arguments: *mut c_void) -> c_int;
    fn __vfwprintf_chk(stream: *mut FILE, flag: c_int, format: *const libc::wchar_t, arguments: *mut c_void) -> c_int;
    fn fgetwc(stream: *mut FILE) -> u32;
    fn fgetws(out: *mut libc::wchar_t, room: c_int, stream: *mut FILE) -> *mut libc::wchar_t;
    fn ungetwc(letter: u32, stream: *mut FILE) -> u32;
    fn fputwc(letter: libc::wchar_t, stream: *mut FILE) -> u32;
    fn fputws(text: *const libc::wchar_t, stream: *mut FILE) -> c_int;
    fn nftw64(path: *const c_char, visit: *const c_void, limit: c_int, flags: c_int) -> c_int;
    fn ftw64(path: *const c_char, visit: *const c_void, limit: c_int) -> c_int;
    fn fts_open(paths: *const *const c_char, options: c_int, order: Option<EntryOrder>) -> *mut TreeStream;
    fn fts_read(walk: *mut TreeStream) -> *mut TreeEntry;
    fn fts_children(walk: *mut TreeStream, options: c_int) -> *mut TreeEntry;
    fn fts_close(walk: *mut TreeStream) -> c_int;
    fn glob64(pattern: *const c_char, flags: c_int, error: *mut c_void, out: *mut libc::glob64_t) -> c_int;
    fn fork() -> pid_t;
    fn execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn execveat(dir: c_int, path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char, flags: c_int) -> c_int;
    fn fexecve(fd: c_int, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const libc::posix_spawn_file_actions_t, attributes: *const libc::posix_spawnattr_t, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int;
    fn posix_spawnp(pid: *mut pid_t, path: *const c_char, actions: *const libc::posix_spawn_file_actions_t, attributes: *const libc::posix_spawnattr_t, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int;
    fn posix_spawn_file_actions_addchdir_np(actions: *mut libc::posix_spawn_file_actions_t, path: *const c_char) -> c_int;
    fn posix_spawn_file_actions_addfchdir_np(actions: *mut libc::posix_spawn_file_actions_t, fd: c_int) -> c_int;
    fn system(command: *const c_char) -> c_int;
    fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE;
    fn daemon(stays: c_int, keeps: c_int) -> c_int;
    fn pthread_create(thread: *mut libc::pthread_t, attributes: *const libc::pthread_attr_t, run: extern "C" fn(*mut c_void) -> *mut c_void, argument: *mut c_void) -> c_int;
}
