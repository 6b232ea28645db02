//! Ends the process promptly and cleanly on Ctrl-C or SIGTERM: a command at once, a server after the requests in progress.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::output::complain;

/// The temporary files that are being written.
static UNFINISHED_FILES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
/// The number of temporary files that this process has made.
static MADE_COUNT: AtomicU64 = AtomicU64::new(0);

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED_FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts to handle signals: each ends the process at once, with the exit code that shells expect. Ending at any moment is safe, because
/// store contents are committed completely or not at all; the temporary files are removed.
pub fn listen() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            end_by(signal);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait).map(drop)
}

/// Starts to handle signals for a command that ends in order at SIGTERM: that only sets the flag. Ctrl-C ends the process at once.
pub fn listen_for_end() -> io::Result<Arc<AtomicBool>> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let flag = Arc::new(AtomicBool::new(false));
    let shared = flag.clone();
    let wait = move || {
        for signal in signals.forever() {
            match signal {
                // Relaxed: no other data depends on the flag.
                SIGTERM => shared.store(true, Ordering::Relaxed),
                _ => end_by(signal),
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(flag)
}

/// Removes temporary files, and ends the process.
fn end_by(signal: i32) -> ! {
    // Hold the lock until the process ends, so that no other temporary file is created.
    let unfinished = unfinished();
    for path in &*unfinished {
        let _ = fs::remove_file(path);
    }
    terrace::remove_unfinished_parts();
    complain("stopped; what is finished is kept, and the same command does the rest");
    process::exit(128 + signal);
}

/// Starts to collect signals for a server. Call it before the server begins, so that none ends it halfway.
pub fn catch_signals() -> Result<Signals> {
    Signals::new([SIGINT, SIGTERM, SIGHUP]).context("listening for signals")
}

/// Prints a server's line, such as its address. The line's reader may have gone, which is not an error.
pub fn say(line: &str) {
    let mut out = io::stdout();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// Waits for a signal, or until the handle of `signals` is closed. After that, the next signal ends the process at once.
pub fn wait_for_signal(mut signals: Signals) {
    if signals.forever().next().is_some() {
        thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                process::exit(128 + signal);
            }
        });
    }
}

/// A temporary file beside its final path. Removed on drop, and on a signal, unless it was renamed into place.
pub struct TemporaryFile(PathBuf);

impl TemporaryFile {
    /// Creates the temporary file for `path`. Removes one that a killed process with the same id left there.
    pub fn make<T>(path: &Path, make: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<(TemporaryFile, T)> {
        let mut unfinished = unfinished();
        // Relaxed: each number is given out once.
        let number = MADE_COUNT.fetch_add(1, Ordering::Relaxed);
        let beside = path.with_file_name(format!(".terrace-{}-{number}", process::id()));
        let _ = fs::remove_file(&beside);
        let made = make(&beside)?;
        unfinished.insert(beside.clone());
        Ok((TemporaryFile(beside), made))
    }

    /// Its temporary path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Renames it to its final path.
    pub fn into_place(self, path: &Path) -> io::Result<()> {
        fs::rename(&self.0, path)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // After a rename there is nothing to remove; a failed removal must not hide the original error.
        let _ = fs::remove_file(&self.0);
        unfinished().remove(&self.0);
    }
}
