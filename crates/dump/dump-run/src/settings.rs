//! The wishes of the user, which `terrace dump run` hands over in the environment.

use std::sync::OnceLock;

use terrace_dump::flags::{RUN_VARIABLE, RunFlags};
use terrace_dump::{Error, Result};

/// Reads the wishes; `None` in a process that `terrace dump run` has not begun.
pub fn read() -> Result<Option<&'static RunFlags>> {
    static READ_SETTINGS: OnceLock<Result<Option<RunFlags>, String>> = OnceLock::new();
    let parse = || std::env::var(RUN_VARIABLE).ok().map(|text| serde_json::from_str(&text)).transpose();
    let refuse = |reason: &String| {
        Error::Refused(format!(
            "{RUN_VARIABLE} is not understood: {reason}; use `terrace` and its library of one version"
        ))
    };
    let read = READ_SETTINGS.get_or_init(|| parse().map_err(|error| error.to_string()));
    read.as_ref().map(Option::as_ref).map_err(refuse)
}

/// Returns the wishes. The process has ended at its start if they are not understood.
pub fn get() -> Option<&'static RunFlags> {
    read().ok().flatten()
}

/// Returns the directory of this node's store.
pub fn store() -> Result<String> {
    std::env::var("TERRACE_STORE").map_err(|_| Error::Refused("TERRACE_STORE names no store".into()))
}
