//! Rebuilds a store's catalog, and salvages objects that a damaged log does not name.

use std::io;
use std::path::Path;

use terrace_catalog::log::{Log, check_readable};
use terrace_catalog::{Catalog, check_pages};
use terrace_system::remove_folder;

use super::Store;
use super::destroy::{check_unused, find_away};
use super::open::Opening;
use crate::care::{ServiceCopy, Survey, describe_parted, find_parted, remove_fetched};
use crate::config::Config;
use crate::home::boot::{self, Mark};
use crate::home::{
    SalvageNote, StoreLock, TargetNote, check_identity, lock_store, read_config, refuse, refuse_if_shared,
};
use crate::journal::{SERVICE_COPIES_FOLDER, set_aside};
use crate::report::{Salvaged, TargetRemains};
use crate::{Error, Result};

/// The number of sequences that a new log skips after the last known commit, so that a copy on a target that is away never
/// counts as the longer log.
const SKIPPED_SEQUENCES: u64 = 1 << 20;

/// The evidence from which a catalog can be made.
struct Evidence {
    survey: Survey,
    /// The last commit in the existing catalog, if that can be trusted.
    catalog: Option<u64>,
    /// A salvage that has begun and not ended.
    salvage: Option<SalvageNote>,
    /// A target that cannot be reached. It may have a whole copy of the log.
    away: Option<TargetRemains>,
    /// The error, if a target has seen the log go on differently.
    diverged: Option<Error>,
    /// Why the store's own log cannot be read. The survey is then about its copies.
    unreadable_log: Option<io::Error>,
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
        let folder = dir.join("log");
        let unreadable_log = check_readable(&folder).err();
        let log = match &unreadable_log {
            None => Log::open(&folder, id)?,
            Some(error) => {
                tracing::warn!(%error, "the commit log cannot be read; its copies are used");
                // Nothing reads a folder of this name, and it is empty.
                let empty = folder.with_extension("new");
                let log = remove_folder(&empty).map(|()| Log::open(&empty, id));
                log.map_err(Error::io(format!("removing {}", empty.display())))??
            }
        };
        let survey = survey_all(dir, &config, &log)?;
        let mut diverged = survey.check_whole().err();
        if unreadable_log.is_none()
            && let Some(place) = find_parted(dir, &config, id)?
        {
            diverged = Some(describe_parted(&place));
        }
        let mark = boot::read_mark(dir)?;
        let (mut catalog, salvage, away) = (None, SalvageNote::read(dir)?, find_away(dir, id, &config));
        let is_usable = salvage.is_none_or(|note| note.has_catalog);
        if is_usable && mark.is_trusted() && boot::has_catalog(dir) {
            let folder = dir.join("catalog");
            let opened = check_pages(&folder).and_then(|()| Catalog::open(&folder, log)?.tail());
            match opened {
                // A salvage that was stopped has added commits of its own.
                Ok(tail) => catalog = Some(salvage.map_or(tail.sequence, |note| note.known)),
                Err(error) => tracing::warn!(%error, "the catalog is damaged, and is rebuilt from the log"),
            }
        }
        Ok(Evidence { survey, diverged, unreadable_log, catalog, salvage, away, mark, lock })
    }

    /// Returns the last commit that is known to have existed.
    fn needed(&self) -> u64 {
        self.survey.reach.max(self.catalog).unwrap_or(0)
    }

    /// Returns the note of a salvage that has begun this log, and was stopped after that.
    fn finished_salvage(&self) -> Option<SalvageNote> {
        self.salvage.filter(|note| self.survey.end >= note.needed + SKIPPED_SEQUENCES)
    }

    /// Checks that the log has all commits.
    fn check_log(&self) -> Result<()> {
        if self.catalog.is_some() && self.survey.end >= self.needed() {
            return Ok(());
        }
        let checked = match self.salvage {
            // Its targets' notes may be gone.
            Some(_) if self.survey.end < self.needed() => Err(self.survey.missing()),
            _ => self.survey.check(self.mark.was_cut_off()),
        };
        checked.map_err(|error| match (error, &self.away, &self.survey.unreadable_copy) {
            (Error::LogDamaged(reason), Some(away), _) => Error::LogDamaged(format!(
                "{reason}; but tier {} is away ({}: {}), and may have a whole copy of the log, so bring it back first",
                away.tier, away.target, away.reason
            )),
            (Error::LogDamaged(reason), None, Some(unreadable)) => Error::LogDamaged(format!(
                "{reason}; but a copy of the log cannot be read ({unreadable}), and may have them: repair its disk first, or move its folder \
                 elsewhere"
            )),
            (Error::LogDamaged(reason), None, None) if self.unreadable_log.is_some() => Error::LogDamaged(format!(
                "{reason}; but the log itself cannot be read, and may have them: repair its disk first, or move the folder log elsewhere"
            )),
            (error, ..) => error,
        })
    }

    /// Checks that no target is away, whose copy of the log, or whose replicas, a salvage would miss, and that all copies can be read.
    fn check_all_there(&self, dir: &Path) -> Result<()> {
        if let Some(unreadable) = self.survey.unreadable_copy.as_ref().or(self.unreadable_log.as_ref()) {
            let reason = format!(
                "the log, or a copy of it, cannot be read ({unreadable}), and may be whole: repair its disk, or move its folder elsewhere, and repeat \
                 this. Nothing was changed"
            );
            return Err(refuse(dir, &reason));
        }
        let Some(away) = &self.away else { return Ok(()) };
        let TargetRemains { tier, target, reason, .. } = away;
        let reason = format!(
            "tier {tier} is away ({target}: {reason}), and may have a whole copy of the log, or the only replica of an object: bring it back, \
             and repeat this. If it is gone for good, run `terrace tiers renew {tier}` before. Nothing was changed"
        );
        Err(refuse(dir, &reason))
    }

    /// Returns whether the catalog has all commits, and the log has not. That of an older copy of the directory has others.
    fn catalog_is_best(&self) -> bool {
        let is_whole = |end| end >= self.needed() && end > self.survey.end;
        self.salvage.is_none() && !self.survey.is_directory_older && self.catalog.is_some_and(is_whole)
    }

    /// Opens the store with a new catalog, made from the log.
    fn open_from_log(self, dir: &Path, opening: Opening) -> Result<Store> {
        boot::forget_catalog(dir)?;
        self.open(dir, opening)
    }

    /// Opens the store with the existing catalog.
    fn open_from_catalog(self, dir: &Path) -> Result<Store> {
        self.open(dir, Opening::Damaged)
    }

    fn open(self, dir: &Path, opening: Opening) -> Result<Store> {
        if self.unreadable_log.is_some() {
            let folder = dir.join("log");
            set_aside(&folder, &folder)?;
        }
        // What newer targets know is in the log now, or is given up.
        for (_, note) in TargetNote::find_newer(dir, &read_config(dir)?) {
            note.set(false)?;
        }
        drop(self.lock);
        Store::open_as(dir, opening)
    }

    /// Makes the store again if no commits are missing.
    fn rebuild(mut self, dir: &Path) -> Result<Store> {
        if let Some(diverged) = self.diverged.take() {
            return Err(diverged);
        }
        if self.catalog_is_best() {
            let sequence = self.needed() + SKIPPED_SEQUENCES;
            let store = self.open_from_catalog(dir)?;
            store.alone(|engine| engine.care.restart_log(sequence))?;
            tracing::warn!("the log was damaged or lost, and was restarted from the catalog; no commit is missing");
            return store.open_again();
        }
        self.check_log().map_err(advise_salvage)?;
        if !self.survey.is_damaged_before_snapshot {
            let store = self.open_from_log(dir, Opening::Proven)?;
            // The log may have been mended from its last whole copy.
            store.engine.care.check_log(true)?;
            return Ok(store);
        }
        let sequence = self.needed().max(self.survey.end) + SKIPPED_SEQUENCES;
        let store = self.open_from_log(dir, Opening::Damaged)?;
        store.alone(|engine| {
            engine.care.leave_log(sequence)?;
            engine.care.restart_log(sequence + SKIPPED_SEQUENCES)
        })?;
        tracing::warn!(
            "the log was damaged before its newest snapshot, and was restarted from that; no commit is missing"
        );
        store.open_again()
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
        let evidence = Evidence::gather(dir)?;
        if evidence.finished_salvage().is_some() {
            let reason = "a salvage has begun a new log, and was stopped before it said what is missing; repeat `terrace rebuild --salvage`";
            return Err(Error::LogDamaged(reason.to_owned()));
        }
        let rebuilt = evidence.rebuild(dir);
        remove_fetched(dir)?;
        let store = rebuilt?;
        SalvageNote::remove(dir)?;
        Ok(store)
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
    /// open. If it is stopped, no process opens the store before it is repeated to its end, or the log is whole again.
    ///
    /// # Errors
    /// [`Error::Store`] if a target is away. Then nothing is changed.
    pub fn salvage(dir: &Path) -> Result<(Store, Salvaged)> {
        let mut evidence = Evidence::gather(dir)?;
        evidence.check_all_there(dir)?;
        // One that has begun was allowed, and has begun a log of its own since.
        if evidence.salvage.is_none()
            && let Some(diverged) = evidence.diverged.take()
        {
            return Err(diverged);
        }
        let begun = evidence.salvage;
        if evidence.catalog_is_best() || evidence.check_log().is_ok() {
            let finished = evidence.finished_salvage();
            let store = evidence.rebuild(dir)?;
            let salvaged = store.alone(|engine| engine.care.salvage())?;
            return store.end_salvage(salvaged, begun, finished);
        }
        let known = evidence.survey.end.max(evidence.catalog.unwrap_or(0));
        let has_catalog = known > evidence.survey.end;
        // The notes on the targets may tell less than when the salvage began.
        let needed = evidence.needed().max(begun.map_or(0, |note| note.needed));
        let note = SalvageNote { needed, known, has_catalog };
        // Before anything is changed: what was begun looks like a store with fewer objects.
        note.write(dir)?;
        let store = if has_catalog {
            evidence.open_from_catalog(dir)?
        } else {
            evidence.open_from_log(dir, Opening::Damaged)?
        };
        terrace_system::fail::point("salvage:opened");
        let salvaged = store.alone(|engine| {
            engine.care.leave_log(needed + SKIPPED_SEQUENCES)?;
            terrace_system::fail::point("salvage:left-log");
            let salvaged = engine.care.salvage()?;
            terrace_system::fail::point("salvage:offered");
            engine.care.restart_log(engine.catalog.tail()?.sequence + SKIPPED_SEQUENCES)?;
            terrace_system::fail::point("salvage:restarted");
            Ok(salvaged)
        })?;
        store.open_again()?.end_salvage(salvaged, begun, Some(note))
    }

    /// Ends a salvage. One that was stopped may have offered some objects already. `note` has what the log lacks, if anything.
    fn end_salvage(
        self,
        salvaged: Salvaged,
        begun: Option<SalvageNote>,
        note: Option<SalvageNote>,
    ) -> Result<(Store, Salvaged)> {
        let mut salvaged = salvaged;
        if begun.is_some() {
            (salvaged.objects, salvaged.bytes) = self.engine.care.count_salvaged()?;
        }
        if let Some(note) = note {
            salvaged.log_was_damaged = true;
            salvaged.missing_commits = note.needed.saturating_sub(note.known);
        }
        if salvaged.log_was_damaged {
            let fetched = self.dir().join(SERVICE_COPIES_FOLDER);
            set_aside(&fetched, &fetched)?;
        }
        remove_fetched(self.dir())?;
        // Last, so that a salvage that is stopped before says all of this when it is repeated.
        SalvageNote::remove(self.dir())?;
        Ok((self, salvaged))
    }

    /// Opens the store again, now that its log can be written to. Replicas that targets have lost become pending.
    fn open_again(self) -> Result<Store> {
        let dir = self.dir().to_owned();
        drop(self);
        Store::open_as(&dir, Opening::Proven)
    }
}

/// Examines the log and its copies. Fetches those on services that may have commits which all others lack.
fn survey_all(dir: &Path, config: &Config, log: &Log) -> Result<Survey> {
    // What an interrupted attempt has left.
    remove_fetched(dir)?;
    let survey = Survey::new(dir, config, log)?;
    let is_whole = survey.check_whole().and_then(|()| survey.check(false)).is_ok();
    let may_help = |copy: &ServiceCopy| -> Result<bool> {
        let is_needed = copy.is_newer || copy.synced.sequence > survey.end || !is_whole;
        Ok(is_needed || survey.is_damaged_before_snapshot || !log.continues(copy.synced.record)?)
    };
    let mut copies = Vec::new();
    for copy in ServiceCopy::find_all(dir, config, log.store()) {
        if may_help(&copy)? {
            copies.push(copy);
        }
    }
    if copies.is_empty() {
        return Ok(survey);
    }
    for copy in copies {
        if let Err(error) = copy.fetch() {
            tracing::warn!(%error, "this copy of the commit log is left out");
        }
    }
    Survey::new(dir, config, log)
}

pub(super) fn advise_salvage(error: Error) -> Error {
    match error {
        Error::LogDamaged(reason) => Error::LogDamaged(format!(
            "{reason}. `terrace rebuild --salvage` keeps what the log still tells, and offers what else is whole on the targets as salvaged/NUMBER"
        )),
        other => other,
    }
}
