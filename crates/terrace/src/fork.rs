//! Knowing that this process was forked from the one that opened a store: LMDB, locks and threads do not survive that.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

static FORKS: AtomicU32 = AtomicU32::new(0);
/// Held while a store is opened: no fork happens meanwhile, so that none begins with that half done. The standard
/// library's, for it keeps no queue: one that hands the lock on would, in a fork, hand it to a thread that is not there.
static OPENING: Mutex<()> = Mutex::new(());

thread_local! {
    /// The lock, while this thread forks.
    static FORKING: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// Keeps this process from being forked as long as the answer lives.
pub fn hold() -> MutexGuard<'static, ()> {
    register();
    lock()
}

fn lock() -> MutexGuard<'static, ()> {
    OPENING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many forks lie between this process and the one that asked first.
pub fn count() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

extern "C" fn before() {
    FORKING.set(Some(lock()));
}

extern "C" fn in_parent() {
    FORKING.set(None);
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
