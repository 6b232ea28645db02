//! Warnings on stderr.

use tracing_subscriber::EnvFilter;

/// Shows the lines that `usual` permits, or those that TERRACE_LOG asks for. If the program shows such lines itself, it
/// continues to do so.
pub fn begin(usual: &str) {
    let asked = std::env::var("TERRACE_LOG").ok().filter(|text| !text.is_empty());
    let filter = EnvFilter::try_new(asked.as_deref().unwrap_or(usual)).unwrap_or_else(|_| usual.into());
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    // Ignoring the error is safe: it means that the program has installed a subscriber, which shows the lines.
    let _ = lines.with_target(false).without_time().try_init();
}
