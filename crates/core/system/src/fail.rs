//! Hooks for tests: points at which the process is killed, lower limits, and a pretended boot of the machine. A build
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

/// Aborts the process if `TERRACE_FAIL_POINT` is `name` (or `name@n`: at the n-th pass).
#[inline]
pub fn point(name: &str) {
    point_within(name, || ());
}

/// Like [`point`], but does a part of what the death interrupts.
#[inline]
pub fn point_within(name: &str, part: impl FnOnce()) {
    static WANTED_POINT: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED_COUNT: AtomicU64 = AtomicU64::new(0);
    if !HOOKS_EXIST {
        return;
    }
    let wanted = WANTED_POINT.get_or_init(|| {
        let text = setting("TERRACE_FAIL_POINT")?;
        let (name, pass) = text.split_once('@').unwrap_or((&text, "1"));
        Some((name.to_owned(), pass.parse().unwrap_or(1)))
    });
    if let Some((at, pass)) = wanted
        && at == name
        && PASSED_COUNT.fetch_add(1, Ordering::Relaxed) + 1 == *pass
    {
        part();
        std::process::abort();
    }
}

/// Returns the number in the environment variable `name` if a test has set it, and otherwise `usual`.
#[inline]
pub fn limit(name: &str, usual: u64) -> u64 {
    setting(name).and_then(|text| text.parse().ok()).unwrap_or(usual)
}
