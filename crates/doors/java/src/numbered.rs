//! The values that Java has open, by numbers that are never reused: a call with the number of something closed is an error, whatever Java does.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rustix_futex_sync::RwLock;

use crate::thrown::Thrown;

/// Values by numbers. Many threads may use one value at once.
pub struct Numbered<T> {
    values: RwLock<HashMap<i64, Arc<T>>>,
    last: AtomicI64,
    /// The noun for a value, for errors.
    noun: &'static str,
}

impl<T> Numbered<T> {
    /// An empty one.
    pub fn new(noun: &'static str) -> Numbered<T> {
        Numbered { values: RwLock::default(), last: AtomicI64::new(0), noun }
    }

    /// Keeps a value, and returns its number.
    pub fn keep(&self, value: T) -> i64 {
        // Relaxed is enough, because only the number itself is shared.
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.values.write().insert(number, Arc::new(value));
        number
    }

    /// Returns the value with this number. It stays open until the caller drops it, even if another thread closes it.
    pub fn find(&self, number: i64) -> Result<Arc<T>, Thrown> {
        self.values.read().get(&number).cloned().ok_or(Thrown::Closed(self.noun))
    }

    /// Returns the value with this number for the last time; `None` if another call has taken it.
    pub fn take(&self, number: i64) -> Option<Arc<T>> {
        self.values.write().remove(&number)
    }
}
