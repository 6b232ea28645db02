//! Marks threads that run the engine, whose own calls go to the C library.

use std::cell::Cell;

thread_local! {
    /// How often this thread has entered the engine and not left it. It needs neither memory nor a destructor, so it may be used in a
    /// call that the memory allocator makes.
    static ENGINE_DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, this thread's calls go to the C library.
pub struct Inside(());

impl Inside {
    /// Marks this thread.
    pub fn enter() -> Inside {
        ENGINE_DEPTH.set(ENGINE_DEPTH.get() + 1);
        Inside(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        ENGINE_DEPTH.set(ENGINE_DEPTH.get() - 1);
    }
}

/// Whether this thread runs the engine.
#[inline]
pub fn is_inside() -> bool {
    ENGINE_DEPTH.get() > 0
}

/// Marks this thread for ever: the engine has started it.
pub fn stay() {
    std::mem::forget(Inside::enter());
}
