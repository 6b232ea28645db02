//! The open stores, by numbers that are never reused: a call with the number of a closed store is an error, whatever Java does.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};

use engine::{PutOptions, Store};
use rustix_futex_sync::RwLock;

use crate::thrown::Thrown;

static OPEN_STORES: LazyLock<RwLock<HashMap<i64, Arc<OpenStore>>>> = LazyLock::new(RwLock::default);
static NEXT_STORE_NUMBER: AtomicI64 = AtomicI64::new(1);

/// An open store. Many threads may use one at once.
pub struct OpenStore {
    /// The store.
    pub store: Store,
    /// The requirements that apply to every call.
    pub application: PutOptions,
}

/// Keeps a store, and returns its number.
pub fn keep(store: OpenStore) -> i64 {
    // Relaxed is enough, because only the number itself is shared.
    let number = NEXT_STORE_NUMBER.fetch_add(1, Ordering::Relaxed);
    OPEN_STORES.write().insert(number, Arc::new(store));
    number
}

/// Returns the store with this number. It stays open until the caller drops it, even if another thread closes it.
pub fn find(number: i64) -> Result<Arc<OpenStore>, Thrown> {
    OPEN_STORES.read().get(&number).cloned().ok_or(Thrown::Closed)
}

/// Returns the store with this number for the last time; `None` if another call has taken it.
pub fn take(number: i64) -> Option<Arc<OpenStore>> {
    OPEN_STORES.write().remove(&number)
}
