//! Knowing that this process was forked from the one that opened a store: LMDB, locks and threads do not survive that.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// How many forks lie between this process and the one that asked first.
#[allow(unsafe_code)]
pub fn count() -> u32 {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| {
        // SAFETY: the handler only adds to an atomic number, which may be done between fork and exec.
        let registered = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        debug_assert_eq!(registered, 0, "only a lack of memory keeps it from being registered");
    });
    FORKS.load(Ordering::Relaxed)
}
