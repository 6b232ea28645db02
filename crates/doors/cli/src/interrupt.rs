//! Ending soon, and leaving nothing half done, when asked to by Ctrl-C or SIGTERM.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::output::complain;

/// The file that is being written beside its place.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on a signal ends the process at once, with the exit code by which shells know it. What is in the store is
/// whole or invisible whenever a process ends; a file beside its place is removed.
pub fn listen() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            // Held until the end, so that no other file is begun.
            let unfinished = unfinished();
            if let Some(path) = &*unfinished {
                let _ = fs::remove_file(path);
            }
            terrace::remove_unfinished_parts();
            complain("stopped; what is finished is kept, and the same command does the rest");
            process::exit(128 + signal);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait).map(drop)
}

/// A file beside its place; removed when it is dropped, or a signal ends the process, before it is in its place.
pub struct Beside(PathBuf);

impl Beside {
    /// Makes it for a file that is to be at `path`. What a killed process of the same number left there is removed.
    pub fn make<T>(path: &Path, make: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<(Beside, T)> {
        let mut unfinished = unfinished();
        let beside = path.with_file_name(format!(".terrace-{}", process::id()));
        let _ = fs::remove_file(&beside);
        let made = make(&beside)?;
        *unfinished = Some(beside.clone());
        Ok((Beside(beside), made))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Puts it in its place.
    pub fn into_place(self, path: &Path) -> io::Result<()> {
        fs::rename(&self.0, path)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // After a rename nothing is there; what cannot be removed is not the error to tell of.
        let _ = fs::remove_file(&self.0);
        *unfinished() = None;
    }
}
