//! Names the other process that a long wait for a file's lock is for: one that is stopped lets all others wait.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// After this time, a wait is told of.
const LONG_WAIT: Duration = Duration::from_secs(5);

/// Waits for a lock on a file by `wait`, and logs the process that holds it if this takes long.
pub fn tell_if_long<T>(file: &File, wait: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (waits, ended) = mpsc::channel::<()>();
        let watch = move || {
            if ended.recv_timeout(LONG_WAIT) == Err(RecvTimeoutError::Timeout) {
                // Another thread of this process works, and ends.
                if let Some(id) = find_holder(file).filter(|id| *id != std::process::id()) {
                    tracing::warn!(
                        "waiting for process {id}, which holds a lock of the store; if it is stopped, let it go on or end it"
                    );
                }
            }
        };
        // Without the thread, nobody is told.
        let _ = thread::Builder::new().spawn_scoped(scope, watch);
        let waited = wait();
        drop(waits);
        waited
    })
}

/// Returns the process that holds a lock of `flock` on a file.
fn find_holder(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino().to_string();
    let text = fs::read_to_string("/proc/locks").ok()?;
    text.lines().find_map(|line| {
        // Those that wait have an arrow before the kind.
        let mut words = line.split_whitespace().skip(1);
        let (kind, process, place) = (words.next()?, words.nth(2)?, words.next()?);
        (kind == "FLOCK" && place.rsplit(':').next() == Some(&inode)).then(|| process.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found() {
        let file = tempfile::tempfile().expect("a file");
        assert_eq!(find_holder(&file), None);
        file.lock().expect("locks");
        assert_eq!(find_holder(&file), Some(std::process::id()));
    }
}
