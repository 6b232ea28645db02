//! Knowing that this process was forked from the one that opened a store: LMDB, locks and threads do not survive that.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::{Mutex, MutexGuard};

static FORKS: AtomicU32 = AtomicU32::new(0);
/// Held while a store is opened: no fork happens meanwhile, so that none begins with that half done.
static OPENING: Mutex<()> = Mutex::new(());

/// Keeps this process from being forked as long as the answer lives.
pub fn hold() -> MutexGuard<'static, ()> {
    register();
    OPENING.lock()
}

/// How many forks lie between this process and the one that asked first.
pub fn count() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

extern "C" fn before() {
    std::mem::forget(OPENING.lock());
}

#[allow(unsafe_code)]
extern "C" fn in_parent() {
    // SAFETY: `before` has just locked it, in this thread, and forgotten the guard.
    unsafe { OPENING.force_unlock() };
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    in_parent();
}

#[allow(unsafe_code)]
fn register() {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| {
        // SAFETY: the handlers touch nothing but an atomic number and a lock that no thread which is lost can hold.
        let registered = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        debug_assert_eq!(registered, 0, "only a lack of memory keeps them from being registered");
    });
}
