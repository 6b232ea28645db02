//! [`wait_until`]: a condition instead of a timed assertion.

use std::thread;
use std::time::{Duration, Instant};

/// How long a condition may take to hold on a busy machine.
const MAX_CONDITION_WAIT: Duration = Duration::from_secs(120);
const CONDITION_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Waits until a condition holds.
///
/// # Panics
/// If that takes more than two minutes.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < MAX_CONDITION_WAIT, "{what}: not after {MAX_CONDITION_WAIT:?}");
        thread::sleep(CONDITION_POLL_INTERVAL);
    }
}
