//! Hooks for tests: points at which the process is killed or stopped, lower limits, and a pretended boot of the machine. A build
//! without debug assertions has none of them, unless the feature `faults` is on, and does not read the environment.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether this build has the hooks. A constant, so that the compiler otherwise removes them, with the names of their
/// variables.
const HOOKS_EXIST: bool = cfg!(any(debug_assertions, feature = "faults"));

/// Returns the environment variable `name`, if this build has the hooks.
#[inline]
pub fn setting(name: &str) -> Option<String> {
    if !HOOKS_EXIST {
        return None;
    }
    std::env::var(name).ok()
}

/// Aborts the process if `TERRACE_FAIL_POINT` is `name` (or `name@n`: at the n-th pass). Stops it if `TERRACE_STOP_POINT` is, until somebody
/// lets it go on.
#[inline]
pub fn point(name: &str) {
    point_within(name, || ());
}

/// Like [`point`], but does a part of what the death interrupts.
#[inline]
pub fn point_within(name: &str, part: impl FnOnce()) {
    static FAIL_POINT: WantedPoint = WantedPoint::new("TERRACE_FAIL_POINT");
    static STOP_POINT: WantedPoint = WantedPoint::new("TERRACE_STOP_POINT");
    if !HOOKS_EXIST {
        return;
    }
    if STOP_POINT.is_reached(name) {
        // Ignoring the error is safe: the test then finds no stopped process.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
    }
    if FAIL_POINT.is_reached(name) {
        part();
        std::process::abort();
    }
}

/// A point that an environment variable names.
struct WantedPoint {
    variable: &'static str,
    wanted: OnceLock<Option<(String, u64)>>,
    /// Relaxed: each pass only needs a number of its own.
    passed_count: AtomicU64,
}

impl WantedPoint {
    const fn new(variable: &'static str) -> WantedPoint {
        WantedPoint { variable, wanted: OnceLock::new(), passed_count: AtomicU64::new(0) }
    }

    fn is_reached(&self, name: &str) -> bool {
        let wanted = self.wanted.get_or_init(|| {
            let text = setting(self.variable)?;
            let (name, pass) = text.split_once('@').unwrap_or((&text, "1"));
            Some((name.to_owned(), pass.parse().unwrap_or(1)))
        });
        let Some((at, pass)) = wanted else { return false };
        at == name && self.passed_count.fetch_add(1, Ordering::Relaxed) + 1 == *pass
    }
}

/// Returns the number in the environment variable `name` if a test has set it, and otherwise `usual`.
#[inline]
pub fn limit(name: &str, usual: u64) -> u64 {
    setting(name).and_then(|text| text.parse().ok()).unwrap_or(usual)
}
