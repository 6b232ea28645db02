//! Threads that the engine starts are marked, so that their calls go to the C library.

use std::ffi::{c_int, c_void};

use libc::{pthread_attr_t, pthread_t};

use crate::{inside, real};

type ThreadStart = extern "C" fn(*mut c_void) -> *mut c_void;

/// A thread of the engine.
struct EngineThread {
    run: ThreadStart,
    argument: *mut c_void,
}

extern "C" fn run_inside(thread: *mut c_void) -> *mut c_void {
    // SAFETY: `pthread_create` below made it for this thread alone.
    let EngineThread { run, argument } = *unsafe { Box::from_raw(thread.cast::<EngineThread>()) };
    inside::stay();
    run(argument)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    run: ThreadStart,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller's arguments, or ones that live until the thread has taken them.
    unsafe {
        if !inside::is_inside() {
            return real::pthread_create(thread, attributes, run, argument);
        }
        let inner = Box::into_raw(Box::new(EngineThread { run, argument }));
        let failed = real::pthread_create(thread, attributes, run_inside, inner.cast());
        if failed != 0 {
            drop(Box::from_raw(inner));
        }
        failed
    }
}
