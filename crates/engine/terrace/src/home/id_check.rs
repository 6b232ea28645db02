//! Checks the id in the file `store`. If one of its digits is damaged, it is the id of another store, and neither the log nor the targets match
//! it: the log would seem damaged or, after a restart of the machine, empty.

use std::path::Path;

use terrace_catalog::log;

use super::{read_config, refuse};
use crate::Result;

/// Checks the id in the file `store`. It is right if it matches the note on how far the log is durable. If it does not, or there is no note, the
/// targets' markers decide.
///
/// # Errors
/// If all markers that can be read name other stores.
pub fn check_id(dir: &Path, id: u64) -> Result<()> {
    if log::read_reach(dir, id).is_some() {
        return Ok(());
    }
    // An error of the configuration is reported later, when the configuration is used.
    let Ok(config) = read_config(dir) else { return Ok(()) };
    let named: Vec<u64> = config.log_copy_paths().filter_map(|path| marked_id(path)).collect();
    let Some(other) = named.first().filter(|_| !named.contains(&id)) else { return Ok(()) };
    let advice = if log::read_reach(dir, *other).is_some() { "" } else { "If the markers are right, " };
    let advice =
        format!("{advice}write the lines `format 1` and `id {other:016x}` into {}", dir.join("store").display());
    Err(refuse(
        dir,
        &format!("its file `store` names the id {id:016x}, but its targets' markers name {other:016x}. {advice}"),
    ))
}

/// Reads the store's id from the marker of a target.
pub fn marked_id(target: &Path) -> Option<u64> {
    let mark = String::from_utf8(terrace_tier::read_marker(target).ok()?).ok()?;
    u64::from_str_radix(mark.lines().next()?.strip_prefix("store ")?, 16).ok()
}
