//! Turns results into the return values of C. No panic passes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::errors::{CReturn, CallResult, ErrorNumber, error_number, refuse, set_error_number};
use crate::inside::Inside;

/// Runs the engine for a call. The error number stays as it was if the call succeeds.
pub fn guard<T>(run: impl FnOnce() -> CallResult<T>) -> CallResult<T> {
    let _inside = Inside::enter();
    let before = error_number();
    // After a panic, only the call's own values may be half changed, and they are dropped; the engine's locks are not poisoned.
    let run = || catch_unwind(AssertUnwindSafe(run)).unwrap_or(refuse(libc::EIO));
    let done = if is_thread_ending() { run_elsewhere(run) } else { run() };
    set_error_number(before);
    done
}

/// A variable with a destructor. It is made before the engine's own, and is destroyed after them.
struct ThreadMark;

impl Drop for ThreadMark {
    fn drop(&mut self) {}
}

/// Whether this thread's variables were destroyed, which the engine needs.
fn is_thread_ending() -> bool {
    thread_local!(static THREAD_MARK: ThreadMark = const { ThreadMark });
    THREAD_MARK.try_with(|_| ()).is_err()
}

/// A value that another thread uses while this one waits.
struct LentAcross<T>(T);

// SAFETY: see `run_elsewhere`.
unsafe impl<T> Send for LentAcross<T> {}

impl<T> LentAcross<T> {
    fn take(self) -> T {
        self.0
    }
}

/// Runs the engine on a new thread. When a program ends, the C library first destroys the variables of the thread that ends it, and then
/// runs the program's own handlers, which close files.
fn run_elsewhere<T>(run: impl FnOnce() -> CallResult<T>) -> CallResult<T> {
    let run = LentAcross(run);
    let on_thread = || LentAcross(run.take()());
    // SAFETY of `LentAcross`: this thread waits, so there is one user at a time; what the calls are given is the caller's, not this thread's.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, on_thread);
        thread.ok().and_then(|thread| thread.join().ok()).map_or(refuse(libc::EIO), LentAcross::take)
    })
}

/// Returns a result to C.
pub fn give<T: CReturn>(result: CallResult<T>) -> T {
    result.unwrap_or_else(|ErrorNumber(number)| {
        set_error_number(number);
        T::FAILURE_VALUE
    })
}

/// Runs the engine for a call, and returns its result to C.
pub fn answer<T: CReturn>(run: impl FnOnce() -> CallResult<T>) -> T {
    give(guard(run))
}

/// Writes a line to standard error, for errors that no return value carries.
pub fn complain(line: &str) {
    let line = format!("terrace: {line}\n");
    // SAFETY: the bytes are alive. If standard error is closed, nobody reads the line anyway.
    unsafe { crate::real::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}
