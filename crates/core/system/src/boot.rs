//! The boot id: a random number that Linux chooses each time the machine starts.

use std::{fs, io};

use crate::fail;

/// The file in which Linux shows the boot id.
pub const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";

/// Reads the boot id as one word. A test may set another one in `TERRACE_BOOT_ID`.
///
/// # Errors
/// If it cannot be read, for example because `/proc` is not mounted. Two unknown boots must not count as the same.
pub fn read_id() -> io::Result<String> {
    let text = fail::setting("TERRACE_BOOT_ID").map_or_else(|| fs::read_to_string(BOOT_ID_FILE), Ok)?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join("-"))
}
