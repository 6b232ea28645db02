//! The wishes of the user, which `terrace dump run` hands over in the environment.

use std::sync::OnceLock;

use terrace_dump::flags::{RUN_VARIABLE, RunFlags};
use terrace_dump::{Error, Result};

/// Returns the wishes; `None` in a process that `terrace dump run` has not begun.
pub fn get() -> Option<&'static RunFlags> {
    static READ_SETTINGS: OnceLock<Option<RunFlags>> = OnceLock::new();
    READ_SETTINGS.get_or_init(|| serde_json::from_str(&std::env::var(RUN_VARIABLE).ok()?).ok()).as_ref()
}

/// Returns the directory of this node's store.
pub fn store() -> Result<String> {
    std::env::var("TERRACE_STORE").map_err(|_| Error::Refused("TERRACE_STORE names no store".into()))
}
