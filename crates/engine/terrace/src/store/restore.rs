//! Rebuilds a store's catalog, and salvages objects that a damaged log does not name.

use std::path::Path;

use terrace_catalog::log::Log;
use terrace_catalog::{Catalog, check_pages};

use super::Store;
use super::destroy::check_unused;
use super::open::Opening;
use crate::care::Survey;
use crate::home::boot::{self, Mark};
use crate::home::{StoreLock, check_identity, lock_store, read_config, refuse_if_shared};
use crate::report::Salvaged;
use crate::{Error, Result};

/// The number of sequences that a new log skips after the last known commit, so that a copy on a target that is away never
/// counts as the longer log.
const SKIPPED_SEQUENCES: u64 = 1 << 20;

/// The evidence from which a catalog can be made.
struct Evidence {
    survey: Survey,
    /// The last commit in the existing catalog, if that can be trusted.
    catalog: Option<u64>,
    /// The error, if a target has seen the log go on differently.
    diverged: Option<Error>,
    mark: Mark,
    lock: StoreLock,
}

impl Evidence {
    /// Gathers the evidence. No other process may have the store open.
    fn gather(dir: &Path) -> Result<Evidence> {
        refuse_if_shared(dir)?;
        let id = check_identity(dir)?;
        let lock = lock_store(dir)?;
        boot::alone(dir, &lock)?;
        let config = read_config(dir)?;
        // Checked before the log is opened, which may change it.
        check_unused(dir, id, &config)?;
        let log = Log::open(&dir.join("log"), id)?;
        let survey = Survey::new(dir, &config, &log)?;
        let diverged = survey.check_whole(&log).err();
        let mark = boot::read_mark(dir)?;
        let mut catalog = None;
        if mark.is_trusted() && boot::has_catalog(dir) {
            let folder = dir.join("catalog");
            let opened = check_pages(&folder).and_then(|()| Catalog::open(&folder, log)?.tail());
            match opened {
                Ok(tail) => catalog = Some(tail.sequence),
                Err(error) => tracing::warn!(%error, "the catalog is damaged, and is rebuilt from the log"),
            }
        }
        Ok(Evidence { survey, diverged, catalog, mark, lock })
    }

    /// Returns the last commit that is known to have existed.
    fn needed(&self) -> u64 {
        self.survey.reach.max(self.catalog).unwrap_or(0)
    }

    /// Checks that the log has all commits.
    fn check_log(&self) -> Result<()> {
        if self.catalog.is_some() && self.survey.end >= self.needed() {
            return Ok(());
        }
        self.survey.check(self.mark.was_cut_off())
    }

    /// Returns whether the catalog has all commits, and the log has not. That of an older copy of the directory has others.
    fn catalog_is_best(&self) -> bool {
        !self.survey.is_directory_older && self.catalog.is_some_and(|end| end >= self.needed() && end > self.survey.end)
    }

    /// Opens the store with a new catalog, made from the log.
    fn open_from_log(self, dir: &Path, opening: Opening) -> Result<Store> {
        boot::forget_catalog(dir)?;
        drop(self.lock);
        Store::open_as(dir, opening)
    }

    /// Opens the store with the existing catalog.
    fn open_from_catalog(self, dir: &Path) -> Result<Store> {
        drop(self.lock);
        Store::open_as(dir, Opening::Damaged)
    }
}

impl Store {
    /// Makes a new catalog from the commit log, and discards the existing one. Commits that the log lacks are taken from its
    /// copies. If these lack them, too, and the catalog is good, a new log starts with a snapshot of the catalog. No other
    /// process may have the store open.
    ///
    /// # Errors
    /// [`Error::LogDamaged`] if commits are missing. Then nothing is changed, and [`Store::salvage`] is the next step.
    pub fn rebuild(dir: &Path) -> Result<Store> {
        let mut evidence = Evidence::gather(dir)?;
        if let Some(diverged) = evidence.diverged.take() {
            return Err(diverged);
        }
        if evidence.catalog_is_best() {
            let sequence = evidence.needed() + SKIPPED_SEQUENCES;
            let store = evidence.open_from_catalog(dir)?;
            store.alone(|engine| engine.care.restart_log(sequence))?;
            tracing::warn!("the log was damaged or lost, and was restarted from the catalog; nothing is missing");
            return store.open_again();
        }
        evidence.check_log().map_err(advise_salvage)?;
        evidence.open_from_log(dir, Opening::Proven)
    }

    /// Frees the space of frames and files that killed writers left and no object uses. Returns their size in bytes. No
    /// other process may have the store open.
    ///
    /// # Errors
    /// [`Error::TooMuch`] if that is much, unless `force`.
    pub fn prune(&self, force: bool) -> Result<u64> {
        refuse_if_shared(&self.engine.dir)?;
        self.alone(|engine| {
            // The background thread of this process writes frames before it names them.
            let _lock = engine.locks.wait_for_mover()?;
            engine.care.sweep(force)
        })
    }

    /// Makes the catalog as [`Store::rebuild`] does, but continues if commits are missing. Then gives a key
    /// `salvaged/NUMBER` to each whole object on the targets that the log does not name. No other process may have the store
    /// open.
    pub fn salvage(dir: &Path) -> Result<(Store, Salvaged)> {
        let evidence = Evidence::gather(dir)?;
        if evidence.catalog_is_best() || evidence.check_log().is_ok() {
            drop(evidence);
            let store = Store::rebuild(dir)?;
            let salvaged = store.alone(|engine| engine.care.salvage())?;
            return Ok((store, salvaged));
        }
        let (needed, known) = (evidence.needed(), evidence.survey.end.max(evidence.catalog.unwrap_or(0)));
        let store = match evidence.catalog {
            Some(end) if end > evidence.survey.end => evidence.open_from_catalog(dir)?,
            _ => evidence.open_from_log(dir, Opening::Damaged)?,
        };
        let salvaged = store.alone(|engine| {
            engine.catalog.go_on_without_log()?;
            let salvaged = engine.care.salvage()?;
            let end = engine.catalog.tail()?.sequence.max(needed);
            engine.care.restart_log(end + SKIPPED_SEQUENCES)?;
            Ok(salvaged)
        })?;
        let store = store.open_again()?;
        Ok((store, Salvaged { log_was_damaged: true, missing_commits: needed.saturating_sub(known), ..salvaged }))
    }
}

impl Store {
    /// Opens the store again, now that its log can be written to. Replicas that targets have lost become pending.
    fn open_again(self) -> Result<Store> {
        let dir = self.dir().to_owned();
        drop(self);
        Store::open(&dir)
    }
}

pub(super) fn advise_salvage(error: Error) -> Error {
    match error {
        Error::LogDamaged(reason) => Error::LogDamaged(format!(
            "{reason}. `terrace rebuild --salvage` keeps what the log still tells, and offers what else is whole on the targets as salvaged/NUMBER"
        )),
        other => other,
    }
}
