//! Detects that this process was forked from the one that opened a store, because LMDB, locks and threads do not survive a
//! fork.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};

static FORK_COUNT: AtomicU32 = AtomicU32::new(0);
/// The number of existing [`Held`]. It uses the standard library's lock, which keeps no queue: a lock that is handed to the
/// next waiting thread could, in a fork, be handed to a thread that does not exist there.
static HELD_COUNT: Mutex<usize> = Mutex::new(0);
static NONE_HELD: Condvar = Condvar::new();

thread_local! {
    /// The lock, while this thread forks.
    static FORK_GUARD: RefCell<Option<MutexGuard<'static, usize>>> = const { RefCell::new(None) };
}

/// While one exists, in any thread, this process does not fork. So no fork begins with a store that is half opened or
/// closed.
pub struct Held(());

/// Prevents this process from forking as long as the result lives.
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

/// Returns the number of forks between this process and the first one that called this.
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
        // SAFETY: the handlers only access an atomic number, and a lock that is never held by a thread which the fork lacks.
        let registered = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        debug_assert_eq!(registered, 0, "only a lack of memory keeps them from being registered");
    });
}
