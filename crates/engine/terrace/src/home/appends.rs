//! Locks of writers that append to the same object, also in several processes. Without a lock, a second writer would find that the end
//! has moved, and would have to write its bytes again.
//!
//! These locks only serve speed and fairness. Appends are correct without them, because their commits expect the object's length
//! (`Expect::Length`). So a writer that cannot take a lock continues without it.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix_futex_sync::{Mutex, MutexGuard};
use terrace_system::lock::{is_held, lock_byte};
use xxhash_rust::xxh3::xxh3_64;

/// The number of locks of this process. Keys with the same lock wait for each other.
const PROCESS_LOCKS: usize = 64;
/// The longest wait for another process. It holds a lock for a write and a commit, but a fork may have inherited the lock of a
/// process that was killed.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(1);
/// The number of attempts to lock before the thread sleeps between them.
const ATTEMPTS_BEFORE_SLEEP: u32 = 20;
const SLEEP_BETWEEN_ATTEMPTS: Duration = Duration::from_micros(100);

/// The locks of writers that append to a store's objects.
pub struct AppendLocks {
    /// Each byte of this file is locked for a key. None if the file cannot be opened.
    file: Option<File>,
    own: [Mutex<()>; PROCESS_LOCKS],
}

/// A lock. While it lives, no other writer appends to the object.
pub struct AppendLock<'a> {
    locked: Option<(&'a File, i64)>,
    _own: MutexGuard<'a, ()>,
}

impl AppendLocks {
    /// Opens the locks of the store in `dir`.
    pub fn open(dir: &Path) -> AppendLocks {
        let path = dir.join("appends");
        let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.inspect_err(|error| {
            tracing::debug!(path = %path.display(), %error, "appends do not wait for those of other processes, which may make them slower");
        });
        AppendLocks { file: file.ok(), own: [const { Mutex::new(()) }; PROCESS_LOCKS] }
    }

    /// Waits until no other writer appends to the object of this key.
    pub fn wait_for(&self, key: &[u8]) -> AppendLock<'_> {
        let number = xxh3_64(key);
        // This process's threads share the file's locks, so they wait for each other by this lock first.
        let own = self.own[number as usize % PROCESS_LOCKS].lock();
        let byte = (number >> 1) as i64;
        let locked = self.file.as_ref().filter(|file| lock_in_time(file, byte)).map(|file| (file, byte));
        AppendLock { locked, _own: own }
    }
}

impl Drop for AppendLock<'_> {
    fn drop(&mut self) {
        if let Some((file, byte)) = self.locked {
            // If this fails, others continue without a lock. Their commits still expect the length.
            let _ = lock_byte(file, libc::F_UNLCK, byte);
        }
    }
}

/// Waits until the byte is locked. Returns false if that takes too long, or if bytes cannot be locked.
fn lock_in_time(file: &File, byte: i64) -> bool {
    let since = Instant::now();
    for attempt in 0.. {
        match lock_byte(file, libc::F_WRLCK, byte) {
            Ok(()) => return true,
            Err(e) if !is_held(&e) || since.elapsed() > MAX_LOCK_WAIT => return false,
            Err(_) if attempt < ATTEMPTS_BEFORE_SLEEP => thread::yield_now(),
            Err(_) => thread::sleep(SLEEP_BETWEEN_ATTEMPTS),
        }
    }
    false
}
