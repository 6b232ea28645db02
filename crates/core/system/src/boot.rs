//! The number that Linux makes at random each time the machine starts.

use std::{fs, io};

use crate::fail;

/// Where Linux shows the number.
pub const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";

/// Reads the number of this start of the machine, as one word. A test may pretend another one by `TERRACE_BOOT_ID`.
///
/// # Errors
/// If it cannot be read, for example because `/proc` is not mounted. Two unknown boots must not be taken for the same.
pub fn read_id() -> io::Result<String> {
    let text = fail::setting("TERRACE_BOOT_ID").map_or_else(|| fs::read_to_string(BOOT_ID_FILE), Ok)?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join("-"))
}
