//! Checks what belongs to no object: the owners of shared frames, and the commit log.

use std::io;

use terrace_catalog::find_end;
use terrace_catalog::log::{Log, check_readable};

use crate::care::Care;
use crate::{Error, Result};

/// The number of damaged files of the commit log, and of its copies, which are compared with a whole log only.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogDamage {
    pub files: u64,
    pub copy_files: u64,
    /// The number of copies that lack the last changes.
    pub copies_behind: u64,
}

impl Care {
    /// Compares the number of owners of each shared frame with the objects that name it, and returns how many differ. A wrong
    /// number would free a frame too early, or never.
    pub(super) fn check_owners(&self) -> Result<u64> {
        let wrong = self.catalog.miscounted_frames()?;
        if let Some(first) = wrong.first() {
            tracing::error!(
                frames = wrong.len(),
                object = first.name.object,
                recorded = first.recorded,
                counted = first.counted,
                "shared frames have a wrong number of owners; `terrace rebuild` counts them again"
            );
        }
        Ok(wrong.len() as u64)
    }

    /// Reads the commit log and its copies, and returns how many files of both are damaged. With `repair`, writes the copies again. The catalog
    /// has what the log says, until it is lost.
    pub(crate) fn check_log(&self, repair: bool) -> Result<LogDamage> {
        if self.catalog.is_shared() {
            // Its servers keep it.
            return Ok(LogDamage::default());
        }
        let (log, tail) = (self.catalog.log(), self.catalog.tail()?);
        let mut damaged = match find_unreadable(log) {
            Some(error) => {
                tracing::error!(%error, "the commit log cannot be read");
                vec![log.folder().to_owned()]
            }
            None => log.find_damaged(tail)?,
        };
        // Whether it leads there without its copies. Twice, since another process may have begun a new file meanwhile.
        let leads_to_end = || Ok::<_, Error>(find_end(log.folder(), log.store())?.sequence >= tail.sequence);
        if damaged.is_empty() && !leads_to_end()? && !leads_to_end()? {
            damaged.push(log.folder().to_owned());
        }
        if let Some(first) = damaged.first() {
            tracing::error!(
                files = damaged.len(),
                first = %first.display(),
                "the commit log is damaged; `terrace rebuild` makes it whole from its copies and the catalog"
            );
        }
        let copies = if damaged.is_empty() { self.journal.check_copies(tail, repair)? } else { Default::default() };
        Ok(LogDamage { files: damaged.len() as u64, copy_files: copies.damaged, copies_behind: copies.behind })
    }
}

/// Returns why a file of the log cannot be read, if that is so twice: another process may have replaced files by a snapshot meanwhile.
fn find_unreadable(log: &Log) -> Option<io::Error> {
    check_readable(log.folder()).err().and_then(|_| check_readable(log.folder()).err())
}
