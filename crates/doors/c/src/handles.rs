//! The stores that C has open. Their handles are numbers that are never given twice, so one that is closed, or never was open, is
//! known as such.
//!
//! The map is replaced whole and never locked: a fork would inherit the lock of a thread that it has not.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;

use crate::Failure;
use crate::store::Store;

static OPEN: LazyLock<ArcSwap<HashMap<usize, Arc<Store>>>> = LazyLock::new(ArcSwap::default);
/// As far apart as addresses of structures are, and none of them null.
const HANDLE_STEP: usize = 16;
static NEXT: AtomicUsize = AtomicUsize::new(HANDLE_STEP);

/// A handle for a store, which `take` gives back.
pub fn keep(store: Store) -> *mut Store {
    let handle = NEXT.fetch_add(HANDLE_STEP, Ordering::Relaxed);
    let store = Arc::new(store);
    OPEN.rcu(|open| {
        let mut open = HashMap::clone(open);
        open.insert(handle, store.clone());
        open
    });
    ptr::without_provenance_mut(handle)
}

/// The store of a handle.
pub fn find(handle: *const Store) -> Result<Arc<Store>, Failure> {
    OPEN.load().get(&handle.addr()).cloned().ok_or_else(|| not_open(handle))
}

/// The store of a handle, which is none from now on. Of two who take it one gets it.
pub fn take(handle: *const Store) -> Result<Arc<Store>, Failure> {
    let before = OPEN.rcu(|open| {
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
