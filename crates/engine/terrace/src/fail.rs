//! What tests set from outside: fail points, at which the process dies as by `kill -9`, and smaller limits.

/// Dies here if `TERRACE_FAIL_POINT` is `name` (or `name@n`: at the n-th pass). Costs one load otherwise.
#[inline]
pub fn point(name: &str) {
    static WANTED: std::sync::OnceLock<Option<(String, u64)>> = std::sync::OnceLock::new();
    static PASSED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("TERRACE_FAIL_POINT").ok()?;
        let (name, pass) = text.split_once('@').unwrap_or((&text, "1"));
        Some((name.to_owned(), pass.parse().unwrap_or(1)))
    });
    if let Some((at, pass)) = wanted
        && at == name
        && PASSED.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1 == *pass
    {
        std::process::abort();
    }
}

/// A limit that a test may want smaller: the number in the environment variable `name`, or `usual`.
pub fn limit(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
