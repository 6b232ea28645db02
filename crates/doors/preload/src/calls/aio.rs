//! Asynchronous requests: `aio_read`, `aio_write`, `aio_fsync`, `lio_listio`. Those for files of the store are complete when the call
//! returns.
//!
//! The C library's `aio_error`, `aio_return`, `aio_suspend` and `aio_cancel` only look at the result in a request, which is set here.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::slice;

use libc::{off_t, size_t, ssize_t};

use crate::calls::{bytes, sync, twins};
use crate::errors::error_number;
use crate::{numbers, real};

/// `aiocb`, with the fields that the C library keeps to itself.
#[repr(C)]
pub struct AioRequest {
    fd: c_int,
    operation: c_int,
    priority: c_int,
    buffer: *mut c_void,
    length: size_t,
    event: AioEvent,
    next: *mut c_void,
    queue_priority: c_int,
    policy: c_int,
    error: c_int,
    returned: ssize_t,
    offset: off_t,
    reserved: [c_char; 32],
}

/// `sigevent`, with the field that `libc` keeps to itself: the function that a thread of its own runs.
#[repr(C)]
pub struct AioEvent {
    value: *mut c_void,
    signal: c_int,
    notify: c_int,
    function: Option<extern "C" fn(*mut c_void) -> *mut c_void>,
    thread: *const libc::pthread_attr_t,
    reserved: [u64; 4],
}

// Programs are compiled with these layouts, so they stay.
const _: () = assert!(size_of::<AioRequest>() == size_of::<libc::aiocb>());
const _: () = assert!(offset_of!(AioRequest, offset) == offset_of!(libc::aiocb, aio_offset));
const _: () = assert!(size_of::<AioEvent>() == size_of::<libc::sigevent>());

/// Carries out a request for a file of the store, and tells the program as it has asked.
unsafe fn complete(request: *mut AioRequest, run: impl FnOnce(&AioRequest) -> ssize_t) -> c_int {
    // SAFETY: the caller gives a request, which nobody else uses before it is complete.
    let request = unsafe { &mut *request };
    let before = error_number();
    request.returned = run(request);
    request.error = if request.returned < 0 { error_number() } else { 0 };
    crate::errors::set_error_number(before);
    // SAFETY: as above.
    unsafe { notify_program(&request.event) };
    0
}

/// Tells the program that requests are complete.
unsafe fn notify_program(event: &AioEvent) {
    // A signal that cannot be queued, and a thread that cannot be started, are lost in the C library's own requests, too.
    match (event.notify, event.function) {
        (libc::SIGEV_SIGNAL, _) => {
            // SAFETY: it takes numbers only, and a value that it passes on.
            unsafe { libc::sigqueue(libc::getpid(), event.signal, libc::sigval { sival_ptr: event.value }) };
        }
        (libc::SIGEV_THREAD, Some(function)) => {
            let mut thread = 0;
            // SAFETY: the program gives the function, its value and the thread's attributes. What the function returns is not used.
            unsafe {
                if libc::pthread_create(&mut thread, event.thread, function, event.value) == 0 {
                    libc::pthread_detach(thread);
                }
            }
        }
        _ => {}
    }
}

fn read_at(request: &AioRequest) -> ssize_t {
    // SAFETY: the program gives a buffer of this length.
    unsafe { bytes::pread(request.fd, request.buffer, request.length, request.offset) }
}

fn write_at(request: &AioRequest) -> ssize_t {
    // SAFETY: as above.
    unsafe { bytes::pwrite(request.fd, request.buffer, request.length, request.offset) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn aio_read(request: *mut AioRequest) -> c_int {
    // SAFETY: the caller gives a request.
    unsafe { if numbers::has((*request).fd) { complete(request, read_at) } else { real::aio_read(request.cast()) } }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn aio_write(request: *mut AioRequest) -> c_int {
    // SAFETY: as above.
    unsafe { if numbers::has((*request).fd) { complete(request, write_at) } else { real::aio_write(request.cast()) } }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn aio_fsync(operation: c_int, request: *mut AioRequest) -> c_int {
    // SAFETY: as above.
    unsafe {
        match numbers::has((*request).fd) {
            true => complete(request, |request| sync::fsync(request.fd) as ssize_t),
            false => real::aio_fsync(operation, request.cast()),
        }
    }
}

/// Requests for files of the store are carried out here, the others by the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lio_listio(
    mode: c_int,
    list: *const *mut AioRequest,
    count: c_int,
    event: *mut AioEvent,
) -> c_int {
    // SAFETY: the caller gives a list of this length, of requests or null.
    unsafe {
        let all = if count > 0 { slice::from_raw_parts(list, count as usize) } else { &[] };
        let is_ours = |request: &*mut AioRequest| !request.is_null() && numbers::has((**request).fd);
        if !all.iter().any(is_ours) {
            return real::lio_listio(mode, list.cast(), count, event.cast());
        }
        for request in all.iter().copied().filter(is_ours) {
            match (*request).operation {
                libc::LIO_READ => complete(request, read_at),
                libc::LIO_WRITE => complete(request, write_at),
                _ => 0,
            };
        }
        let others: Vec<*mut AioRequest> = all.iter().copied().filter(|request| !is_ours(request)).collect();
        let done = real::lio_listio(mode, others.as_ptr().cast(), others.len() as c_int, event.cast());
        // Its own error is the result of one of its requests, as here.
        let failed = |request: &*mut AioRequest| is_ours(request) && (**request).error != 0;
        match done == 0 && all.iter().any(failed) {
            true => crate::answer::give(crate::errors::refuse(libc::EIO)),
            false => done,
        }
    }
}

twins! {
    aio_read(request: *mut AioRequest) -> c_int: aio_read64;
    aio_write(request: *mut AioRequest) -> c_int: aio_write64;
    aio_fsync(operation: c_int, request: *mut AioRequest) -> c_int: aio_fsync64;
    lio_listio(mode: c_int, list: *const *mut AioRequest, count: c_int, event: *mut AioEvent) -> c_int: lio_listio64;
}
