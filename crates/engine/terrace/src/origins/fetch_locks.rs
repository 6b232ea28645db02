//! Locks of processes and threads that fetch the same bytes of an origin, or ask for the same names. The first one fetches. The others
//! wait, and find the answer in the store.
//!
//! These locks only save work. Without one, bytes are fetched twice, and both commits say the same. So a process that cannot take a lock
//! continues without it.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use terrace_system::lock::{is_held, lock_range};
use xxhash_rust::xxh3::xxh3_64;

/// The longest wait for a lock. A fetch ends after the time limit of a call; but a fork may have inherited the lock of a process that was
/// killed.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(60);
const MIN_PAUSE: Duration = Duration::from_micros(200);
const MAX_PAUSE: Duration = Duration::from_millis(10);

/// The number of bytes of the lock file for each object. A longer object uses them several times, and objects may share some. Then fetches
/// of different bytes wait for each other, which does no other harm.
const BYTES_OF_OBJECT: u64 = 1 << 44;
/// The bytes of the lock file below this one are for objects. Of those above it, each name has one.
const FIRST_NAME_BYTE: u64 = 1 << 61;

/// The locks of a store, on ranges of a file.
pub struct FetchLocks(PathBuf);

/// A lock, which is released when it is dropped.
pub struct FetchLock {
    /// The file and the range. None if it could not be locked.
    locked: Option<(File, i64, i64)>,
}

impl FetchLocks {
    /// Returns the locks of the store in `dir`.
    pub fn of(dir: &Path) -> FetchLocks {
        FetchLocks(dir.join("origin-turns"))
    }

    /// Locks a range of an object, to fetch it.
    pub fn wait_for_range(&self, object: u64, range: &Range<u64>) -> FetchLock {
        let base = xxh3_64(&object.to_le_bytes()) % (FIRST_NAME_BYTE - 2 * BYTES_OF_OBJECT);
        let start = base / BYTES_OF_OBJECT * BYTES_OF_OBJECT + range.start % BYTES_OF_OBJECT;
        self.wait_for(start, range.end.saturating_sub(range.start).clamp(1, BYTES_OF_OBJECT))
    }

    /// Locks a name, to ask for it or for the names in a folder.
    pub fn wait_for_name(&self, key: &[u8]) -> FetchLock {
        self.wait_for(FIRST_NAME_BYTE + xxh3_64(key) % FIRST_NAME_BYTE, 1)
    }

    fn wait_for(&self, start: u64, length: u64) -> FetchLock {
        // The file is opened for each lock: a lock belongs to an open file, and threads of this process have to wait for each other, too.
        let file = File::options().create(true).truncate(false).read(true).write(true).mode(0o600).open(&self.0);
        let Ok(file) = file.inspect_err(|error| {
            tracing::debug!(path = %self.0.display(), %error, "bytes of origins may be fetched twice");
        }) else {
            return FetchLock { locked: None };
        };
        // Both are far below 2^63.
        let (start, length) = (start as i64, length as i64);
        let (since, mut pause) = (Instant::now(), MIN_PAUSE);
        loop {
            match lock_range(&file, libc::F_WRLCK, start, length) {
                Ok(()) => return FetchLock { locked: Some((file, start, length)) },
                Err(e) if !is_held(&e) || since.elapsed() > MAX_LOCK_WAIT => return FetchLock { locked: None },
                Err(_) => thread::sleep(pause),
            }
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

impl Drop for FetchLock {
    fn drop(&mut self) {
        if let Some((file, start, length)) = &self.locked {
            // A fork may have the file open, too, so closing it is not enough. If this fails, others go on after a while.
            let _ = lock_range(file, libc::F_UNLCK, *start, *length);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn overlapping_ranges_of_an_object_wait_for_each_other_and_others_do_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let locks = FetchLocks::of(dir.path());
        let (own, beside, other) = (
            locks.wait_for_range(1, &(0..100)),
            locks.wait_for_range(1, &(100..200)),
            locks.wait_for_range(2, &(0..100)),
        );
        let name = locks.wait_for_name(b"a");
        assert!([&own, &beside, &other, &name].iter().all(|lock| lock.locked.is_some()));
        drop((own, beside, other, name));
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for n in 0..50 {
                        let _lock = locks.wait_for_range(7, &(n..n + 1000));
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
    }
}
