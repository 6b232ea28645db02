//! [`Opened`]: what the kernel has open.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

use terrace_tree::Open;

/// A file or view that the kernel has open.
pub struct Opened {
    open: Open,
    /// Whether the kernel reads it through the page cache.
    pub is_cached: bool,
    /// Whether it is not yet known that the opening is over.
    is_opening: AtomicBool,
}

impl Deref for Opened {
    type Target = Open;

    fn deref(&self) -> &Open {
        &self.open
    }
}

impl Opened {
    /// Makes a handle that bypasses the page cache.
    pub fn direct(open: Open) -> Opened {
        Opened { open, is_cached: false, is_opening: AtomicBool::new(false) }
    }

    /// Makes a handle that reads through the page cache.
    pub fn cached(open: Open) -> Opened {
        Opened { open, is_cached: true, is_opening: AtomicBool::new(true) }
    }

    /// Whether it is not yet known that the opening is over.
    pub fn is_opening(&self) -> bool {
        // Relaxed: at worst its end is noted twice, or by a later request.
        self.is_opening.load(Ordering::Relaxed)
    }

    /// Notes that the opening is over.
    pub fn end_opening(&self) {
        self.is_opening.store(false, Ordering::Relaxed); // see above
    }
}
