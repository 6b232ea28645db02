//! Examines the log and its copies before recovery relies on them or changes anything.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use terrace_catalog::log::{self, Log, Reach, Tail};
use terrace_catalog::{FIRST_TAIL, find_end, newest_snapshot, snapshot_tail};

use super::service_copies::{fetched_copies, place_of};
use crate::config::Config;
use crate::home::holds_files;
use crate::{Error, Result};

/// The state of the log, from its own files and its copies.
#[derive(Debug)]
pub(crate) struct Survey {
    /// The last commit that can be read.
    pub end: u64,
    /// The last commit that is known to have been durable, if any record of it is left.
    pub reach: Option<u64>,
    /// The folder whose newest snapshot leads to that end. None if the log itself begins with the first commit.
    snapshot: Option<(PathBuf, u64)>,
    /// Whether records that the snapshot replaces are damaged in all copies. Nothing needs them, but the log is not whole.
    pub is_damaged_before_snapshot: bool,
    /// Whether the record of the last commit is one of these. Then no store opens with this log.
    pub lacks_last_record: bool,
    /// The folder whose note names a record that no log has, if any: its log went on differently.
    diverged: Option<PathBuf>,
    /// Whether a target has seen a later record of the log than the store's directory: the directory is an older copy. After a power cut
    /// this may also be because the directory's note was not synced.
    pub is_directory_older: bool,
    /// Copies of the log on persistent targets.
    copies: Vec<PathBuf>,
    /// Why a copy is left out, if one cannot be read.
    pub unreadable_copy: Option<io::Error>,
    /// Whether a persistent target holds frames or plain files of this store.
    has_data: bool,
}

impl Survey {
    /// Examines the log of the store in `dir`, and the copies on the targets that can be read.
    pub fn new(dir: &Path, config: &Config, log: &Log) -> Result<Survey> {
        let mut targets = own_targets(dir, config, log.store());
        targets.extend(fetched_copies(dir));
        let notes = read_notes(dir, &targets, log.store());
        // The record that a note names was durable, too.
        let reach = notes.iter().map(|(_, reach)| reach.sequence.max(reach.record.0)).max();
        let own = log::read_reach(dir, log.store()).map_or(0, |reach| reach.record.0);
        let is_directory_older = notes.iter().any(|(_, reach)| reach.record.0 > own);
        let copies: Vec<PathBuf> =
            targets.iter().map(|target| target.join("log")).filter(|copy| copy.is_dir()).collect();
        let has_data =
            targets.iter().any(|target| holds_files(&target.join("segments")) || holds_files(&target.join("plain")));
        let mut survey = Survey {
            end: 0,
            reach,
            snapshot: None,
            is_damaged_before_snapshot: false,
            lacks_last_record: false,
            diverged: None,
            is_directory_older,
            copies,
            unreadable_copy: None,
            has_data,
        };
        if let Err(error) = survey.examine(log, &notes) {
            if !survey.leave_unreadable_out() {
                return Err(error);
            }
            survey.examine(log, &notes)?;
        }
        Ok(survey)
    }

    /// Returns the last commit that is known to have been durable, if any record of it is left.
    pub fn read_reach(dir: &Path, config: &Config, store: u64) -> Option<u64> {
        read_notes(dir, &own_targets(dir, config, store), store).iter().map(|(_, reach)| reach.sequence).max()
    }

    /// Checks that the log of an open store is the one that its targets know: that none of them has seen it go on differently.
    ///
    /// # Errors
    /// [`Error::LogDamaged`] with the target.
    pub fn check_same(dir: &Path, config: &Config, log: &Log) -> Result<()> {
        let notes = read_notes(dir, &own_targets(dir, config, log.store()), log.store());
        let own = log::read_reach(dir, log.store()).map(|reach| reach.record);
        for (folder, reach) in notes {
            // As a rule, all were written at the same time, and the log need not be read.
            if Some(reach.record) != own && !log.continues(reach.record)? {
                return Err(describe_parted(&place_of(&folder)));
            }
        }
        Ok(())
    }

    /// Returns a target whose copy of the log goes on behind the end of this one, if any.
    pub fn find_longer_copy(dir: &Path, config: &Config, log: &Log, end: Tail) -> Result<Option<PathBuf>> {
        for target in own_targets(dir, config, log.store()) {
            match log.goes_on_in(&target.join("log"), end) {
                Ok(false) => {}
                Ok(true) => return Ok(Some(target)),
                // One bad copy keeps no store from opening.
                Err(error @ terrace_catalog::Error::Io { .. }) => {
                    tracing::warn!(%error, "a copy of the commit log cannot be read; check this disk")
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Finds the end of the log, and what is damaged before.
    fn examine(&mut self, log: &Log, notes: &[(PathBuf, Reach)]) -> Result<()> {
        let from = self.find_end(log, notes)?;
        self.is_damaged_before_snapshot = !log.is_whole_before(from, &self.folders(log))?;
        self.lacks_last_record =
            self.is_damaged_before_snapshot && self.end == from.sequence && !log.holds_end(from)?;
        Ok(())
    }

    /// Leaves out the copies that cannot be read, and returns whether there are any.
    fn leave_unreadable_out(&mut self) -> bool {
        self.copies.retain(|copy| match log::check_readable(copy) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "a copy of the commit log cannot be read, and is left out; check this disk");
                self.unreadable_copy = Some(error);
                false
            }
        });
        self.unreadable_copy.is_some()
    }

    /// Follows the store's own log, which may continue in the copies. Only if it does not reach far enough, starts from the
    /// newest whole snapshot of a copy. A copy may be longer and still older: its target was away when the log continued
    /// differently after a power cut. Returns the end of the snapshot.
    fn find_end(&mut self, log: &Log, notes: &[(PathBuf, Reach)]) -> Result<Tail> {
        let folders: Vec<PathBuf> = self.folders(log).into_iter().map(Path::to_path_buf).collect();
        let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
        let mut ends = Vec::new();
        for start in &folders {
            let (snapshot, from) = newest_snapshot(start, log.store())?;
            let mut missing: Vec<_> = notes.iter().filter(|(_, reach)| reach.record.0 > from.sequence).collect();
            let found = log.replay_from(&folders, from, |record, _, _| {
                missing.retain(|(_, reach)| reach.record != (record.tail.sequence, record.tail.checksum));
                Ok::<_, Error>(())
            });
            let snapshot = snapshot.map(|sequence| (start.to_path_buf(), sequence));
            let end = found?.sequence;
            if self.reach.is_some_and(|reach| end >= reach) && missing.is_empty() {
                (self.end, self.snapshot) = (end, snapshot);
                return Ok(from);
            }
            ends.push((end, from, snapshot, missing));
        }
        // Takes the first of those that reach the furthest, because `max_by_key` takes the last.
        let Some((end, from, snapshot, missing)) = ends.into_iter().rev().max_by_key(|(end, ..)| *end) else {
            return Ok(FIRST_TAIL);
        };
        (self.end, self.snapshot) = (end, snapshot);
        self.diverged = match notes.iter().all(|(_, reach)| end >= reach.sequence) {
            true => self.find_diverged(log, end, &missing)?,
            false => self.find_longer(log, end)?,
        };
        Ok(from)
    }

    /// Returns a folder whose copy of the log is longer alone than together with the store's own log, which then goes on differently.
    fn find_longer(&self, log: &Log, end: u64) -> Result<Option<PathBuf>> {
        for copy in &self.copies {
            if find_end(copy, log.store())?.sequence > end {
                return Ok(copy.parent().map(Path::to_path_buf));
            }
        }
        Ok(None)
    }

    /// Returns a folder whose note names a record that is not in the log, which has others: the log goes on behind that record, or the copy
    /// in that folder has it. A log that just ends before the record lacks commits.
    fn find_diverged(&self, log: &Log, end: u64, missing: &[&(PathBuf, Reach)]) -> Result<Option<PathBuf>> {
        for (folder, Reach { record, .. }) in missing {
            let copy = folder.join("log");
            if record.0 <= end || self.folders(log).contains(&copy.as_path()) && holds_record(log, &copy, *record)? {
                return Ok(Some(folder.clone()));
            }
        }
        Ok(None)
    }

    fn folders<'a>(&'a self, log: &'a Log) -> Vec<&'a Path> {
        std::iter::once(log.folder()).chain(self.copies.iter().map(PathBuf::as_path)).collect()
    }

    /// Fails if a target has seen the log go on differently.
    pub fn check_whole(&self) -> Result<()> {
        match &self.diverged {
            Some(folder) => Err(describe_parted(&place_of(folder))),
            None => Ok(()),
        }
    }

    /// Fails if commits are missing. `was_cut_off` says that the machine may have lost power since the log was last made
    /// durable. Then a log without commits is correct, if no commit was ever durable.
    pub fn check(&self, was_cut_off: bool) -> Result<()> {
        let reach = self.reach.unwrap_or(0);
        if self.end < reach {
            return Err(self.missing());
        }
        let may_be_empty = was_cut_off && self.reach == Some(0);
        if self.end == 0 && self.has_data && !may_be_empty {
            return Err(Error::LogDamaged("it holds no commits, but the targets hold data".to_owned()));
        }
        Ok(())
    }

    /// The error that commits are missing.
    pub fn missing(&self) -> Error {
        Error::LogDamaged(self.describe_missing())
    }

    fn describe_missing(&self) -> String {
        let (end, reach) = (self.end, self.reach.unwrap_or(0));
        let missing =
            format!("it ends with commit {end}, but was durable up to commit {reach}, so commits are missing");
        match self.is_directory_older {
            true => format!(
                "{missing}: the store's directory seems to be an older copy of itself, such as a restored backup"
            ),
            false => missing,
        }
    }

    /// Extends the store's own log to that end: copies what it lacks from its copies, and syncs it. Returns the snapshot
    /// with which it begins, if any.
    pub fn mend_log(&self, log: &Log) -> Result<Option<PathBuf>> {
        let snapshot = self.snapshot.as_ref().map(|(_, sequence)| log::snapshot(log.folder(), *sequence));
        let mut from = FIRST_TAIL;
        if let (Some((folder, sequence)), Some(own)) = (&self.snapshot, &snapshot) {
            if folder != log.folder() {
                copy_snapshot(&log::snapshot(folder, *sequence), own)?;
            }
            from = snapshot_tail(own, log.store())?.unwrap_or(FIRST_TAIL);
        }
        let (mut mended, mut ends_early) = (Vec::new(), true);
        mended.extend(log.mend_before(from, &self.folders(log))?);
        log.replay_from(&self.folders(log), from, |record, bytes, folder| {
            if folder > 0 {
                ends_early &= log.ends_before(record.tail, bytes);
                let path = log.mend(record.tail, bytes)?;
                if mended.last() != Some(&path) {
                    mended.push(path);
                }
            } else {
                ends_early &= mended.is_empty();
            }
            Ok::<_, Error>(())
        })?;
        let is_older = self.is_directory_older && ends_early;
        if is_older && !mended.is_empty() {
            tracing::warn!(
                directory = %log.folder().parent().unwrap_or(log.folder()).display(),
                "the store's directory was older than a target, as a restored backup is, or after a loss of power; the later commits were taken from the target's copy of the log, and no commit is missing"
            );
        }
        for path in &mended {
            match (is_older, ends_early) {
                (true, _) => {}
                (false, true) => tracing::warn!(
                    file = %path.display(),
                    "the commit log ended before its copy, and was continued from there; no commit is missing, but unless this directory is new, check the disk of this file"
                ),
                (false, false) => tracing::warn!(
                    file = %path.display(),
                    "the commit log was damaged, and was mended from a copy; no commit is missing, but check the disk of this file"
                ),
            }
            sync(path)?;
        }
        // The names of new files are made durable, too.
        if !mended.is_empty() {
            sync(log.folder())?;
        }
        Ok(snapshot)
    }
}

/// Returns the notes about how far the log must reach, each with its folder.
fn read_notes(dir: &Path, targets: &[PathBuf], store: u64) -> Vec<(PathBuf, Reach)> {
    let folders = targets.iter().map(PathBuf::as_path).chain([dir]);
    folders.filter_map(|folder| Some((folder.to_path_buf(), log::read_reach(folder, store)?))).collect()
}

/// Returns whether a copy of the log holds a record, alone or after others.
fn holds_record(log: &Log, copy: &Path, record: (u64, u64)) -> Result<bool> {
    let (_, from) = newest_snapshot(copy, log.store())?;
    let mut is_there = false;
    log.replay_from(&[copy], from, |found, _, _| {
        is_there |= record == (found.tail.sequence, found.tail.checksum);
        Ok::<_, Error>(())
    })?;
    Ok(is_there)
}

/// The error that a target was used with a newer copy of the store's directory than this one.
pub(crate) fn describe_older_directory(place: &Path) -> Error {
    Error::LogDamaged(format!(
        "the store's directory is an older copy of itself, such as a restored backup: {} was used with a newer one; `terrace rebuild` takes \
         what is missing from there, or says what is missing",
        place.display()
    ))
}

/// The error that the log goes on differently than a target has seen it.
pub(crate) fn describe_parted(place: &Path) -> Error {
    Error::LogDamaged(format!(
        "it goes on differently than {} has seen it: the store's directory is an older copy, which was used while that target was away. \
         Choose. To keep the newer state, move `log` and `log-reach` of the store's directory and of its other targets (in a bucket: `log` and \
         `terrace-synced`) elsewhere, and run `terrace rebuild`; what was done with the older copy is lost. To keep the older copy, move \
         those of that target elsewhere, and run `terrace rebuild`; what was done with the newer one is lost",
        place.display()
    ))
}

/// Returns the persistent targets that exist, belong to this directory of the store, and may hold a copy of the log.
fn own_targets(dir: &Path, config: &Config, store: u64) -> Vec<PathBuf> {
    let owner = format!("store {store:016x}\n");
    let is_marked = |path: &Path| terrace_tier::read_marker(path).is_ok_and(|mark| mark.starts_with(owner.as_bytes()));
    // What another directory of the store has done there says nothing about this one's log.
    let is_own = |path: &&PathBuf| is_marked(path) && terrace_tier::check_owner(dir, path).is_ok();
    config.log_copy_paths().filter(is_own).cloned().collect()
}

fn copy_snapshot(from: &Path, to: &Path) -> Result<()> {
    let new = to.with_file_name("new");
    // Synced before it gets its name, because a snapshot with its name counts as whole.
    let copied =
        fs::copy(from, &new).and_then(|_| fs::File::open(&new)?.sync_all()).and_then(|()| fs::rename(&new, to));
    copied.map_err(Error::io(format!("copying {} from {}", to.display(), from.display())))
}

/// Makes a mended file, or the names in the log's folder, durable: from now on the rebuilt store relies on these commits.
fn sync(path: &Path) -> Result<()> {
    fs::File::open(path).and_then(|file| file.sync_all()).map_err(Error::io(format!("syncing {}", path.display())))
}
