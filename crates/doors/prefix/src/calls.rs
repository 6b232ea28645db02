//! Runs the engine for a call of C. No panic passes.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the engine. Returns none if it panicked.
pub fn run<T>(call: impl FnOnce() -> T) -> Option<T> {
    // After a panic, only the call's own values may be half changed, and they are dropped; the engine's locks are not poisoned.
    let call = || catch_unwind(AssertUnwindSafe(call)).ok();
    if is_thread_ending() { run_elsewhere(call) } else { call() }
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
fn run_elsewhere<T>(call: impl FnOnce() -> Option<T>) -> Option<T> {
    let call = LentAcross(call);
    let on_thread = || LentAcross(call.take()());
    // SAFETY of `LentAcross`: this thread waits, so there is one user at a time; what the calls are given is the caller's, not this thread's.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, on_thread);
        thread.ok().and_then(|thread| thread.join().ok()).and_then(LentAcross::take)
    })
}
