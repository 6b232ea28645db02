//! Knowing that this process was forked from the one that opened a store: LMDB, locks and threads do not survive that.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};

static FORK_COUNT: AtomicU32 = AtomicU32::new(0);
/// How many [`Held`] there are. The standard library's lock, for it keeps no queue: one that hands the lock on would, in
/// a fork, hand it to a thread that is not there.
static HELD_COUNT: Mutex<usize> = Mutex::new(0);
static NONE_HELD: Condvar = Condvar::new();

thread_local! {
    /// The lock, while this thread forks.
    static FORK_GUARD: RefCell<Option<MutexGuard<'static, usize>>> = const { RefCell::new(None) };
}

/// As long as one lives, in any thread, this process is not forked: no fork begins with a store half opened or closed.
pub struct Held(());

/// Keeps this process from being forked as long as the answer lives.
pub fn hold() -> Held {
    register();
    *held() += 1;
    Held(())
}

impl Drop for Held {
    fn drop(&mut self) {
        *held() -= 1;
        NONE_HELD.notify_all();
    }
}

fn held() -> MutexGuard<'static, usize> {
    HELD_COUNT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many forks lie between this process and the one that asked first.
pub fn count() -> u32 {
    register();
    FORK_COUNT.load(Ordering::Relaxed)
}

extern "C" fn before() {
    let none_held = NONE_HELD.wait_while(held(), |held| *held > 0);
    FORK_GUARD.set(Some(none_held.unwrap_or_else(PoisonError::into_inner)));
}

extern "C" fn in_parent() {
    FORK_GUARD.set(None);
}

extern "C" fn in_child() {
    FORK_COUNT.fetch_add(1, Ordering::Relaxed);
    in_parent();
}

#[allow(unsafe_code)]
fn register() {
    static REGISTER_ONCE: Once = Once::new();
    REGISTER_ONCE.call_once(|| {
        // SAFETY: the handlers touch nothing but an atomic number and a lock that no thread which is lost can hold.
        let registered = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        debug_assert_eq!(registered, 0, "only a lack of memory keeps them from being registered");
    });
}
