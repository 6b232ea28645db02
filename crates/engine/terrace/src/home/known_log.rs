//! The file `shared-log` of a store's directory: which of the store's shared logs its catalog has followed.

use std::path::Path;

use terrace_catalog::Catalog;
use terrace_catalog::log::Log;
use terrace_order::LogIdentity;

use super::identity::read_file;
use super::{boot, check_identity, refuse, write_file};
use crate::Result;

pub const KNOWN_LOG_FILE: &str = "shared-log";

/// Reads the number of the log. None before the node has first followed one.
pub fn read(dir: &Path) -> Result<Option<u64>> {
    let Some(bytes) = read_file(&dir.join(KNOWN_LOG_FILE))? else { return Ok(None) };
    let number = String::from_utf8(bytes).ok().and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    number.map(Some).ok_or_else(|| refuse(dir, &format!("its file {KNOWN_LOG_FILE} is damaged; make the node again")))
}

/// Notes the log that the catalog follows from now on. If the log was made again in the place of the one that it has followed, and has all
/// that it has, the catalog is removed, and will be made from the new log's snapshot.
///
/// # Errors
/// [`Error::Store`] if it is another log, or lacks records that this catalog has.
pub fn follow_identity(dir: &Path, log: LogIdentity) -> Result<()> {
    let Some(known) = read(dir)? else { return note(dir, log) };
    if known == log.number {
        return Ok(());
    }
    let Some(before) = log.before.filter(|before| before.number == known) else {
        return Err(refuse(
            dir,
            "another log is in the place of the one that it has followed; check the servers' addresses. If the log was made again from a node that \
             had more records than another one before, remove this directory and join again",
        ));
    };
    if boot::has_catalog(dir) {
        let catalog = Catalog::open(&dir.join("catalog"), Log::open(&dir.join("log"), check_identity(dir)?)?)?;
        let slot = catalog.followed()?.slot;
        if slot > before.slot {
            let reason = format!(
                "the shared log was made again from a node that had {} records, and this one has {slot}; end all nodes and run \
                 `terrace cluster recover` here, with --force, or remove this directory and join again",
                before.slot
            );
            return Err(refuse(dir, &reason));
        }
        tracing::warn!(store = %dir.display(), slot, "the shared log was lost and made again; the catalog is made from it");
    }
    // First, so that the number always is that of the catalog's log.
    boot::forget_catalog(dir)?;
    note(dir, log)
}

fn note(dir: &Path, log: LogIdentity) -> Result<()> {
    write_file(&dir.join(KNOWN_LOG_FILE), format!("{:016x}\n", log.number).as_bytes())
}
