//! Turns of those who fetch the same bytes, or ask for the same names: the others wait, and find the answer in the store.
//!
//! Turns only save work. Without one, bytes are fetched twice, and both commits say the same. So a process that cannot get a turn goes on
//! without it.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use terrace_system::lock::{is_held, lock_range};
use xxhash_rust::xxh3::xxh3_64;

/// The longest wait for a turn. A fetch ends after the time limit of a call; but a fork may have inherited the lock of a process that was
/// killed.
const MAX_TURN_WAIT: Duration = Duration::from_secs(60);
const MIN_PAUSE: Duration = Duration::from_micros(200);
const MAX_PAUSE: Duration = Duration::from_millis(10);

/// Each object has as many bytes of the file as this, and those of long objects begin again. Objects whose bytes overlap only wait for each
/// other.
const BYTES_OF_OBJECT: u64 = 1 << 44;
/// Below this are the bytes of objects, above it one for each name.
const FIRST_NAME_BYTE: u64 = 1 << 61;

/// The turns of a store, which are locks on ranges of a file.
pub struct Turns(PathBuf);

/// A turn, which ends when it is dropped.
pub struct Turn {
    locked: Option<(File, i64, i64)>,
}

impl Turns {
    /// Returns the turns of the store in `dir`.
    pub fn of(dir: &Path) -> Turns {
        Turns(dir.join("origin-turns"))
    }

    /// Waits for the turn to fetch a range of an object.
    pub fn take_range(&self, object: u64, range: &Range<u64>) -> Turn {
        let base = xxh3_64(&object.to_le_bytes()) % (FIRST_NAME_BYTE - 2 * BYTES_OF_OBJECT);
        let start = base / BYTES_OF_OBJECT * BYTES_OF_OBJECT + range.start % BYTES_OF_OBJECT;
        self.take(start, range.end.saturating_sub(range.start).clamp(1, BYTES_OF_OBJECT))
    }

    /// Waits for the turn to ask for a name, or for the names in a folder.
    pub fn take_name(&self, key: &[u8]) -> Turn {
        self.take(FIRST_NAME_BYTE + xxh3_64(key) % FIRST_NAME_BYTE, 1)
    }

    fn take(&self, start: u64, length: u64) -> Turn {
        // Each turn opens the file again: locks belong to an opening, and threads of this process have to wait for each other, too.
        let file = File::options().create(true).truncate(false).read(true).write(true).mode(0o600).open(&self.0);
        let Ok(file) = file.inspect_err(|error| {
            tracing::debug!(path = %self.0.display(), %error, "bytes of origins may be fetched twice");
        }) else {
            return Turn { locked: None };
        };
        // Both are far below 2^63.
        let (start, length) = (start as i64, length as i64);
        let (since, mut pause) = (Instant::now(), MIN_PAUSE);
        loop {
            match lock_range(&file, libc::F_WRLCK, start, length) {
                Ok(()) => return Turn { locked: Some((file, start, length)) },
                Err(e) if !is_held(&e) || since.elapsed() > MAX_TURN_WAIT => return Turn { locked: None },
                Err(_) => thread::sleep(pause),
            }
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

impl Drop for Turn {
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
    fn overlapping_ranges_of_an_object_take_turns_and_others_do_not_wait() {
        let dir = tempfile::tempdir().expect("a folder");
        let turns = Turns::of(dir.path());
        let (own, beside, other) =
            (turns.take_range(1, &(0..100)), turns.take_range(1, &(100..200)), turns.take_range(2, &(0..100)));
        let name = turns.take_name(b"a");
        assert!([&own, &beside, &other, &name].iter().all(|turn| turn.locked.is_some()));
        drop((own, beside, other, name));
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for n in 0..50 {
                        let _turn = turns.take_range(7, &(n..n + 1000));
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
    }
}
