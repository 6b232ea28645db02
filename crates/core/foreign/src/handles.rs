//! Handles of what C has open: numbers that are never reused, so a closed or invalid handle is always detected.
//!
//! The maps are replaced as a whole and never locked: after a fork, the child would inherit the lock, but not the thread that holds it.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;

use crate::BadArgument;

/// Handles are multiples of this, like addresses of structures, and never null.
const HANDLE_STEP: usize = 16;
/// Relaxed: only the numbers matter; `Handles::open` publishes what they stand for.
static NEXT_HANDLE: AtomicUsize = AtomicUsize::new(HANDLE_STEP);

/// The open things of one kind.
pub struct Handles<T> {
    open: LazyLock<ArcSwap<HashMap<usize, Arc<T>>>>,
    noun: &'static str,
}

impl<T> Handles<T> {
    /// Makes an empty map for things of this name.
    pub const fn new(noun: &'static str) -> Handles<T> {
        Handles { open: LazyLock::new(ArcSwap::default), noun }
    }

    /// Returns a new handle; [`Handles::take`] releases it.
    pub fn keep(&self, thing: T) -> *mut T {
        let handle = NEXT_HANDLE.fetch_add(HANDLE_STEP, Ordering::Relaxed);
        let thing = Arc::new(thing);
        self.open.rcu(|open| {
            let mut open = HashMap::clone(open);
            open.insert(handle, thing.clone());
            open
        });
        ptr::without_provenance_mut(handle)
    }

    /// Returns the thing that a handle stands for.
    pub fn find(&self, handle: *const T) -> Result<Arc<T>, BadArgument> {
        self.open.load().get(&handle.addr()).cloned().ok_or_else(|| self.not_open(handle))
    }

    /// Removes a handle and returns its thing. If two threads take the same handle, exactly one gets it.
    pub fn take(&self, handle: *const T) -> Result<Arc<T>, BadArgument> {
        let before = self.open.rcu(|open| {
            let mut open = HashMap::clone(open);
            open.remove(&handle.addr());
            open
        });
        before.get(&handle.addr()).cloned().ok_or_else(|| self.not_open(handle))
    }

    fn not_open(&self, handle: *const T) -> BadArgument {
        let why =
            if handle.is_null() { "is null" } else { "is not open: it was closed, or is none that the library gave" };
        BadArgument(format!("the {} {why}", self.noun))
    }
}
