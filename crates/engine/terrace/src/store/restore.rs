//! Rebuilding a store's catalog, and salvaging what a damaged log does not tell of.

use std::path::Path;

use terrace_catalog::log::Log;
use terrace_catalog::{Catalog, check_pages};

use super::Store;
use super::destroy::check_unused;
use super::open::Opening;
use crate::care::Survey;
use crate::home::boot::{self, Mark};
use crate::home::{StoreLock, lock_store, read_config, read_identity};
use crate::report::Salvaged;
use crate::{Error, Result};

/// A log that begins again leaves out this many sequences behind all that anything tells of: a copy on a target that is
/// away must never be taken for the longer one.
const SKIPPED_SEQUENCES: u64 = 1 << 20;

/// The evidence from which a catalog can be made.
struct Evidence {
    survey: Survey,
    /// The last commit in the catalog that is there, where that can be trusted.
    catalog: Option<u64>,
    mark: Mark,
    lock: StoreLock,
}

impl Evidence {
    /// Gathers it. No other process may have the store open.
    fn gather(dir: &Path) -> Result<Evidence> {
        let id = read_identity(dir)?;
        let lock = lock_store(dir)?;
        boot::alone(dir, &lock)?;
        let config = read_config(dir)?;
        // Before the log is opened, which may change it.
        check_unused(dir, id, &config)?;
        let log = Log::open(&dir.join("log"), id)?;
        let survey = Survey::new(dir, &config, &log)?;
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
        Ok(Evidence { survey, catalog, mark, lock })
    }

    /// The last commit that anything tells of.
    fn needed(&self) -> u64 {
        self.survey.reach.max(self.catalog).unwrap_or(0)
    }

    /// Whether the log tells all.
    fn check_log(&self) -> Result<()> {
        if self.catalog.is_some() && self.survey.end >= self.needed() {
            return Ok(());
        }
        self.survey.check(self.mark.was_cut_off())
    }

    /// Whether the catalog tells all, and the log does not.
    fn catalog_is_best(&self) -> bool {
        self.catalog.is_some_and(|end| end >= self.needed() && end > self.survey.end)
    }

    /// Opens the store with a catalog that is made from the log.
    fn open_from_log(self, dir: &Path, opening: Opening) -> Result<Store> {
        boot::forget_catalog(dir)?;
        drop(self.lock);
        Store::open_as(dir, opening)
    }

    /// Opens the store with the catalog that is there.
    fn open_from_catalog(self, dir: &Path) -> Result<Store> {
        drop(self.lock);
        Store::open_as(dir, Opening::Damaged)
    }
}

impl Store {
    /// Makes the catalog from the commit log: the one that is there is thrown away. What the log lacks is taken from its
    /// copies; where these lack it, too, and the catalog is good, the log begins again with a snapshot of that. No other
    /// process may have the store open.
    ///
    /// # Errors
    /// [`Error::LogDamaged`] where commits are missing: nothing is changed then, and [`Store::salvage`] goes on.
    pub fn rebuild(dir: &Path) -> Result<Store> {
        let evidence = Evidence::gather(dir)?;
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

    /// Gives back space that no object uses: what writers left that were killed; how many bytes. No other process may have
    /// the store open.
    ///
    /// # Errors
    /// [`Error::TooMuch`] where that is much, unless `force`.
    pub fn prune(&self, force: bool) -> Result<u64> {
        self.alone(|engine| engine.care.sweep(force))
    }

    /// Makes the catalog as [`Store::rebuild`] does, but goes on where commits are missing; then offers as
    /// `salvaged/NUMBER` what whole objects there are on the targets that the log does not know. No other process may have
    /// the store open.
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
    /// Opens a store whose log could not be committed to as usual, now that it can be: what targets have lost is owed again.
    fn open_again(self) -> Result<Store> {
        let dir = self.dir().to_owned();
        drop(self);
        Store::open(&dir)
    }
}

fn advise_salvage(error: Error) -> Error {
    match error {
        Error::LogDamaged(reason) => Error::LogDamaged(format!(
            "{reason}. `terrace rebuild --salvage` keeps what the log still tells, and offers what else is whole on the targets as salvaged/NUMBER"
        )),
        other => other,
    }
}
