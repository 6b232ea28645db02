//! The stores that C has open. Handles are numbers that are never reused, so a closed or invalid handle is always detected.
//!
//! The map is replaced as a whole and never locked: after a fork, the child would inherit the lock, but not the thread that holds it.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;
use engine::PutOptions;

use crate::Failure;

/// An open store. Many threads may use one at once.
pub struct Store {
    pub(crate) store: engine::Store,
    pub(crate) application: PutOptions,
}

static OPEN_STORES: LazyLock<ArcSwap<HashMap<usize, Arc<Store>>>> = LazyLock::new(ArcSwap::default);
/// Handles are multiples of this, like addresses of structures, and never null.
const HANDLE_STEP: usize = 16;
static NEXT_HANDLE: AtomicUsize = AtomicUsize::new(HANDLE_STEP);

/// Returns a new handle for a store; [`take`] releases it.
pub fn keep(store: Store) -> *mut Store {
    let handle = NEXT_HANDLE.fetch_add(HANDLE_STEP, Ordering::Relaxed);
    let store = Arc::new(store);
    OPEN_STORES.rcu(|open| {
        let mut open = HashMap::clone(open);
        open.insert(handle, store.clone());
        open
    });
    ptr::without_provenance_mut(handle)
}

/// Returns the store of a handle.
pub fn find(handle: *const Store) -> Result<Arc<Store>, Failure> {
    OPEN_STORES.load().get(&handle.addr()).cloned().ok_or_else(|| not_open(handle))
}

/// Removes a handle and returns its store. If two threads take the same handle, exactly one gets the store.
pub fn take(handle: *const Store) -> Result<Arc<Store>, Failure> {
    let before = OPEN_STORES.rcu(|open| {
        let mut open = HashMap::clone(open);
        open.remove(&handle.addr());
        open
    });
    before.get(&handle.addr()).cloned().ok_or_else(|| not_open(handle))
}

fn not_open(handle: *const Store) -> Failure {
    let why =
        if handle.is_null() { "is null" } else { "is not open: it was closed, or is none that terrace_open gave" };
    Failure::Invalid(format!("the store {why}"))
}
