//! What the kernel has open.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix_futex_sync::RwLock;

/// Things by numbers that are never given twice.
pub struct Handles<T> {
    next: AtomicU64,
    all: RwLock<HashMap<u64, Arc<T>>>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Handles { next: AtomicU64::new(1), all: RwLock::default() }
    }
}

impl<T> Handles<T> {
    /// Keeps a thing; its number.
    pub fn keep(&self, thing: T) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.all.write().insert(number, Arc::new(thing));
        number
    }

    /// The thing of a number.
    pub fn get(&self, number: u64) -> Option<Arc<T>> {
        self.all.read().get(&number).cloned()
    }

    /// All that are kept.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.all.read().values().cloned().collect()
    }

    /// Gives it up.
    pub fn give_up(&self, number: u64) -> Option<Arc<T>> {
        self.all.write().remove(&number)
    }
}
