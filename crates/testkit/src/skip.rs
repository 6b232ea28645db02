//! Tests that cannot run on this machine say so, are counted, and fail where the machine must be able to run them.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// A comma-separated list of what this machine must offer to tests, such as `fuse,loop`.
const REQUIRED_VARIABLE: &str = "TERRACE_TEST_REQUIRE";

static SKIPPED_COUNT: AtomicU64 = AtomicU64::new(0);

/// Something that this machine does not offer.
#[derive(Debug)]
pub struct Missing {
    /// Its name in `TERRACE_TEST_REQUIRE`.
    pub need: &'static str,
    /// The attempt, and how it failed.
    pub reason: String,
}

impl Missing {
    /// Makes the value for a missing `need`.
    pub fn new(need: &'static str, reason: impl fmt::Display) -> Missing {
        Missing { need, reason: reason.to_string() }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not available here: {}", self.need, self.reason)
    }
}

impl std::error::Error for Missing {}

/// Prints that a test is skipped, with the number of skips in this process.
///
/// # Panics
/// If `TERRACE_TEST_REQUIRE` names the missing need.
pub fn skip(test: &str, missing: &Missing) {
    let required = std::env::var(REQUIRED_VARIABLE).unwrap_or_default();
    assert!(!required.split(',').any(|name| name.trim() == missing.need), "{test} cannot run: {missing}");
    let count = SKIPPED_COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    // Not `eprintln`: the test harness would keep it from the reader of a test that passes. Where standard error is
    // closed nobody reads it anyway.
    let _ = writeln!(io::stderr(), "skipped ({count} so far in this program): {test}: {missing}");
}
