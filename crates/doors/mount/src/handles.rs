//! The handles of files and directories that the kernel has open.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix_futex_sync::RwLock;

/// A map of open items by handle. Handles are never reused.
pub struct Handles<T> {
    /// Relaxed: only the numbers matter; the lock of `all` publishes the items.
    next: AtomicU64,
    all: RwLock<HashMap<u64, Arc<T>>>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Handles { next: AtomicU64::new(1), all: RwLock::default() }
    }
}

impl<T> Handles<T> {
    /// Stores an item and returns its handle.
    pub fn keep(&self, thing: T) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.all.write().insert(number, Arc::new(thing));
        number
    }

    /// Returns the item of a handle.
    pub fn get(&self, number: u64) -> Option<Arc<T>> {
        self.all.read().get(&number).cloned()
    }

    /// Calls `each` with all items. It must open and close none.
    pub fn each(&self, each: impl FnMut(&T)) {
        self.all.read().values().map(|item| &**item).for_each(each);
    }

    /// Removes an item.
    pub fn give_up(&self, number: u64) -> Option<Arc<T>> {
        self.all.write().remove(&number)
    }
}
