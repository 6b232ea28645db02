//! Streams of the C library over descriptors of the store's files, and standard streams that become such ones.
//!
//! The C library's own streams enter the kernel without a call that could be intercepted. So a stream of a file of the store is one of
//! `fopencookie`, and if a standard descriptor becomes a file of the store, its stream is replaced by such a one, for good: it works for
//! any descriptor.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{FILE, off_t, size_t, ssize_t};

use crate::calls::{bytes, closing};
use crate::errors::{CallResult, refuse};
use crate::{numbers, table};

/// Where a stream of the C library keeps the start of its unwritten bytes, and its descriptor. Programs are compiled with these offsets,
/// so they stay.
const WRITE_BASE_BYTES: usize = 32;
const DESCRIPTOR_BYTES: usize = 112;
/// Where it keeps the data for wide characters, and the mark of streams that have none.
const WIDE_DATA_BYTES: usize = 160;
const NO_WIDE_DATA: isize = -1;
/// The flag of a stream that has failed.
const FAILED_FLAG: c_int = 0x20;
/// Whether the standard stream of a descriptor was replaced.
static IS_REPLACED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

#[repr(C)]
struct CookieFunctions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: unsafe extern "C" fn(*mut c_void, *mut off_t, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

#[allow(non_upper_case_globals)]
unsafe extern "C" {
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: CookieFunctions) -> *mut FILE;
    fn __fpending(stream: *mut FILE) -> size_t;
    fn __fpurge(stream: *mut FILE);
    fn __flbf(stream: *mut FILE) -> c_int;
}

/// The cookie is the descriptor.
fn of_cookie(cookie: *mut c_void) -> c_int {
    cookie as usize as c_int
}

unsafe extern "C" fn read_cookie(cookie: *mut c_void, out: *mut c_char, length: size_t) -> ssize_t {
    // SAFETY: the C library gives a buffer of this length.
    unsafe { bytes::read(of_cookie(cookie), out.cast(), length) }
}

unsafe extern "C" fn write_cookie(cookie: *mut c_void, given: *const c_char, length: size_t) -> ssize_t {
    // For an error, the C library expects 0.
    // SAFETY: as above.
    unsafe { bytes::write(of_cookie(cookie), given.cast(), length).max(0) }
}

unsafe extern "C" fn seek_cookie(cookie: *mut c_void, offset: *mut off_t, whence: c_int) -> c_int {
    // SAFETY: the C library gives an offset.
    unsafe {
        let at = bytes::lseek(of_cookie(cookie), *offset, whence);
        if at < 0 {
            return -1;
        }
        *offset = at;
        0
    }
}

unsafe extern "C" fn close_cookie(cookie: *mut c_void) -> c_int {
    // SAFETY: it takes a number only.
    unsafe { closing::close(of_cookie(cookie)) }
}

/// The standard streams, as programs name them.
pub fn standard_streams() -> [*mut FILE; 3] {
    // SAFETY: the C library, or `take_over`, has set them.
    unsafe { [stdin, stdout, stderr] }
}

/// The stream of standard input, as programs name it.
pub fn standard_input() -> *mut FILE {
    // SAFETY: the C library, or `take_over`, has set it.
    unsafe { stdin }
}

/// The stream of standard output, as programs name it.
pub fn standard_output() -> *mut FILE {
    // SAFETY: as above.
    unsafe { stdout }
}

/// Whether the C library would end the program if it read or wrote wide characters through a stream, as through those of `fopencookie`.
///
/// # Safety
/// The stream is valid.
pub unsafe fn has_bytes_only(stream: *mut FILE) -> bool {
    // SAFETY: the field is at this place in every stream.
    unsafe { stream.cast::<u8>().add(WIDE_DATA_BYTES).cast::<isize>().read() == NO_WIDE_DATA }
}

/// Lets `ferror` return that a stream has failed.
///
/// # Safety
/// The stream is valid.
pub unsafe fn mark_failed(stream: *mut FILE) {
    // SAFETY: the flags are the first field.
    unsafe { *stream.cast::<c_int>() |= FAILED_FLAG };
}

/// Makes a stream of a descriptor. It may read and write: the descriptor knows what is allowed, and may be replaced by another one.
///
/// # Safety
/// The descriptor is that of a file of the store.
pub unsafe fn stream(fd: c_int) -> CallResult<*mut FILE> {
    let appends = table::get(fd).is_some_and(|open| open.flags() & libc::O_APPEND != 0);
    let mode = if appends { c"a+" } else { c"r+" };
    let functions = CookieFunctions { read: read_cookie, write: write_cookie, seek: seek_cookie, close: close_cookie };
    // SAFETY: the stream is new, and as long as every stream.
    unsafe {
        let stream = fopencookie(fd as usize as *mut c_void, mode.as_ptr(), functions);
        if stream.is_null() {
            return refuse(crate::errors::error_number());
        }
        // So that `fileno` knows it. The library itself does not use it for such a stream.
        stream.cast::<u8>().add(DESCRIPTOR_BYTES).cast::<c_int>().write(fd);
        Ok(stream)
    }
}

/// Replaces a standard stream if its descriptor has become a file of the store.
pub fn adopt(fd: c_int) {
    let Some(replaced) = usize::try_from(fd).ok().and_then(|fd| IS_REPLACED.get(fd)) else { return };
    // Relaxed: the swap alone lets one caller through.
    if !numbers::has(fd) || replaced.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: programs do not use a stream while they replace its descriptor. The pointers are the C library's, or a program's copies of
    // them, which the library itself uses, too.
    let adopted = unsafe {
        let place = match fd {
            0 => &raw mut stdin,
            1 => &raw mut stdout,
            _ => &raw mut stderr,
        };
        stream(fd).map(|new| take_over(place, new, fd))
    };
    if adopted.is_err() {
        replaced.store(false, Ordering::Relaxed);
    }
}

/// Puts a stream in the place of a standard one, with the bytes that were not written yet.
unsafe fn take_over(place: *mut *mut FILE, new: *mut FILE, fd: c_int) {
    // SAFETY: both streams are valid; as many bytes as `__fpending` says begin where the field says.
    unsafe {
        let old = *place;
        let buffering = match () {
            () if fd == libc::STDERR_FILENO => Some(libc::_IONBF),
            () if __flbf(old) != 0 => Some(libc::_IOLBF),
            () => None,
        };
        if let Some(buffering) = buffering {
            libc::setvbuf(new, std::ptr::null_mut(), buffering, 0);
        }
        let pending = if fd == libc::STDIN_FILENO { 0 } else { __fpending(old) };
        if pending > 0 {
            let bytes = *old.cast::<u8>().add(WRITE_BASE_BYTES).cast::<*const c_void>();
            libc::fwrite(bytes, 1, pending, new);
            __fpurge(old);
        }
        *place = new;
    }
}
