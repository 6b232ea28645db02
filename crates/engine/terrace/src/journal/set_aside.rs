//! Keeps a damaged log.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Renames the folder of a damaged log to the log's name and a number, which nothing reads.
pub fn set_aside(damaged: &Path, log: &Path) -> Result<()> {
    if !damaged.exists() {
        return Ok(());
    }
    let mut names = (1..).map(|number| PathBuf::from(format!("{}.damaged-{number}", log.display())));
    let Some(name) = names.find(|name| !name.exists()) else { return Ok(()) };
    fs::rename(damaged, &name).map_err(Error::io(format!("renaming {}", damaged.display())))?;
    tracing::warn!(
        kept_as = %name.display(),
        "the damaged log was kept under another name; remove it once nothing is missing from the store"
    );
    Ok(())
}
