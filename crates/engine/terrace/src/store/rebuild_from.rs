//! Makes a store again from a target on a service, after its node was lost.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use terrace_catalog::log::{Log, write_reach};
use terrace_format::key;
use terrace_system::remove_folder;
use terrace_tier::{
    CONFIG_BLOB, LOG_PREFIX, LogPiece, MARKER_FILE, NamedBlobs, OwnerMark, SYNCED_BLOB, SyncedNote, TARGET_OWNER_FILE,
    TargetFound, TargetOwner, TargetSettings, TierKind, read_marker_text,
};

use super::destroy::{self, NoIds};
use super::marked_id::Marked;
use super::own_places::FILES_SERVICE;
use super::restore::advise_salvage;
use super::{Store, begin_directory, change};
use crate::care::Survey;
use crate::config::{Config, TargetConfig, TierConfig};
use crate::home::{FORMAT_VERSION, SalvageNote, holds_files, note_owner, refuse, write_file};
use crate::journal::{FetchedLog, fetch_log};
use crate::report::{MovedTarget, Remade};
use crate::{Error, Result};

/// A store that left no sign for this long has ended. One that is idle leaves none, either; but the target's mark keeps it from changing
/// anything there.
const MAX_OWNER_SILENCE: Duration = Duration::from_secs(30 * 60);
/// The folder of a log that is being read from the service.
const FETCHED_FOLDER: &str = "log.new";
/// The folder for new targets in the place of those that were lost.
const TARGETS_FOLDER: &str = "targets";

/// How a store is made again from a service.
#[derive(Clone, Copy, Debug, Default)]
pub struct RebuildFrom {
    /// Takes the target even if another directory of the store may still be in use.
    pub force: bool,
    /// Continues if commits are missing.
    pub salvage: bool,
}

/// A target on a service, from which a store is made again.
struct FoundCopy<'a> {
    settings: &'a TargetSettings,
    blobs: Box<dyn NamedBlobs>,
    /// Its place, for messages.
    place: PathBuf,
    store: u64,
    number: u16,
}

impl Store {
    /// Makes a store in `dir` from the target at `from`, an object target with a copy of a store's log, whose own directory is lost. Directory
    /// targets that are not there are replaced by empty ones below `dir`. The objects that had replicas only there are in the result.
    ///
    /// # Errors
    /// If no copy of a log is there, or it lacks commits and they are not to be salvaged; then nothing is changed. Without `force`, if
    /// another directory of the store may still be in use.
    pub fn rebuild_from(dir: &Path, from: &TargetSettings, asked: RebuildFrom) -> Result<(Store, Remade)> {
        if SalvageNote::read(dir)?.is_some() {
            let reason =
                "a salvage of the store here was stopped; `terrace rebuild --salvage`, without --from, goes on with it";
            return Err(refuse(dir, reason));
        }
        let found = FoundCopy::find(from)?;
        let config = found.read_config()?;
        found.marked().check_number(&config, from)?;
        if !asked.force {
            found.check_silent()?;
        }
        let copied_at = found.copied_at();
        let alone = begin_directory(dir)?;
        let dir = &fs::canonicalize(dir).map_err(Error::io(format!("opening {}", dir.display())))?;
        let made = found.make(dir, config, asked);
        drop(alone);
        let targets = made.inspect_err(|_| {
            // The error is the one to report. Nothing but copies was made.
            let _ = destroy::remove_own(dir);
        })?;
        // From here on a store is there, which the next command goes on with.
        let (store, salvaged) = match asked.salvage {
            true => Store::salvage(dir).map(|(store, salvaged)| (store, Some(salvaged)))?,
            false => (Store::rebuild(dir)?, None),
        };
        // Nobody knows what has become of the frames: bytes that are gone are named here, and not first by a scrub.
        store.engine.care.owe_all_gone()?;
        store.mark_placed()?;
        let status = store.status()?;
        let lost = store.find_lost()?.iter().map(|lost| key::show(lost)).collect();
        Ok((store, Remade { objects: status.objects, lost, targets, copied_at, salvaged }))
    }
}

impl FoundCopy<'_> {
    fn find(settings: &TargetSettings) -> Result<FoundCopy<'_>> {
        let kind = TierKind::find("object").map_err(|error| Error::Config(error.to_string()))?;
        let service = settings.service.as_deref().unwrap_or_default();
        let place = PathBuf::from(format!("{service}:{}", settings.path.display()));
        let reaching = || format!("reaching {}", place.display());
        kind.check(settings).map_err(Error::Config)?;
        let nothing = "no store has a target there; check the bucket, the path and the options";
        // The service would make the directory.
        if service == FILES_SERVICE && !settings.path.is_dir() {
            return Err(refuse(&place, nothing));
        }
        let blobs = kind.named_blobs(settings).map_err(Error::io(reaching()))?;
        let mark = blobs.read_if_there(MARKER_FILE).map_err(Error::io(reaching()))?;
        if mark.is_none() && blobs.read(CONFIG_BLOB).is_err() {
            return Err(refuse(&place, nothing));
        }
        let damaged = "its blob terrace-target is damaged or missing. Write it again with the two lines `store ID` and `target N`: the ID is in the file \
                       terrace-target of any other target of the store, the number of this target in the blob terrace.toml. Nothing was changed";
        let (store, number) = mark.and_then(|mark| read_marker_text(&mark)).ok_or_else(|| refuse(&place, damaged))?;
        Ok(FoundCopy { settings, blobs, place, store, number })
    }

    fn marked(&self) -> Marked<'_> {
        Marked { place: &self.place, blobs: &*self.blobs, store: self.store, number: self.number }
    }

    fn read_config(&self) -> Result<Config> {
        match self.blobs.read(CONFIG_BLOB) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let pieces = match self.blobs.list(LOG_PREFIX) {
                    Err(e) if e.kind() == io::ErrorKind::Unsupported => {
                        let reason = "this service cannot list what it holds, so it gets no copy of the store's log; name another one of the store's \
                                      buckets";
                        return Err(refuse(&self.place, reason));
                    }
                    pieces => pieces.map_err(Error::io(format!("listing {}", self.place.display())))?,
                };
                if pieces.iter().any(|name| LogPiece::parse(name).is_some()) {
                    return Err(self.lost_config());
                }
                let reason = "the target there has no copy of the store's log: no sync mark was made since the store has such copies, or \
                              several machines share the store";
                Err(refuse(&self.place, reason))
            }
            text => {
                let text = text.map_err(Error::io(format!("reading {CONFIG_BLOB} in {}", self.place.display())))?;
                Config::parse(&String::from_utf8_lossy(&text), &format!("{CONFIG_BLOB} in {}", self.place.display()))
            }
        }
    }

    /// The error for a copy of the log without the configuration.
    fn lost_config(&self) -> Error {
        let number = self.number;
        let reason = format!(
            "the copy of the store's log is there, but the blob {CONFIG_BLOB}, a copy of the store's configuration, is missing. Write it again, \
             with all tiers in the same order, and with each target's number: `number = {number}` for this one, and for another one as in \
             the second line of its terrace-target. A copy of the store's directory has it as terrace.toml. Nothing was changed"
        );
        refuse(&self.place, &reason)
    }

    /// When the copy of the log was last extended, in seconds since 1970. None if the service does not tell.
    fn copied_at(&self) -> Option<u64> {
        let modified = self.blobs.modified(SYNCED_BLOB).ok().flatten()?;
        modified.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs())
    }

    /// Reads the mark of the directory that uses the target.
    fn owner(&self) -> Result<Option<OwnerMark>> {
        let mark = self.blobs.read_if_there(TARGET_OWNER_FILE);
        let mark = mark.map_err(Error::io(format!("reading {TARGET_OWNER_FILE} in {}", self.place.display())))?;
        Ok(mark.map(|mark| OwnerMark::read(&mark)))
    }

    /// Checks that no other directory of the store has left a sign for a while.
    fn check_silent(&self) -> Result<()> {
        let signs = [SYNCED_BLOB, TARGET_OWNER_FILE].map(|name| match self.blobs.modified(name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            modified => modified.map(Some),
        });
        let mut last = SystemTime::UNIX_EPOCH;
        for sign in signs {
            let Some(sign) = sign.map_err(Error::io(format!("looking at {}", self.place.display())))? else { continue };
            // Where the service does not tell when a blob was written, it may have been just now.
            last = last.max(sign.unwrap_or_else(SystemTime::now));
        }
        // A sign from the future comes of clocks that differ.
        let silence = SystemTime::now().duration_since(last).unwrap_or_default();
        if silence > MAX_OWNER_SILENCE {
            return Ok(());
        }
        let owner = self.owner()?;
        let host = owner.as_ref().map_or("another machine", |owner| owner.host());
        let reason = format!(
            "the store's directory on {host} has used this target {:.1} s ago, and may still be in use. If it is lost, or is not to be used any \
             more, repeat this with --force: from then on, that directory cannot use the target",
            silence.as_secs_f64()
        );
        Err(refuse(&self.place, &reason))
    }

    /// Makes the directory of the store, which is there once its file `store` is. Returns the targets that got another place.
    fn make(&self, dir: &Path, mut config: Config, asked: RebuildFrom) -> Result<Vec<MovedTarget>> {
        let writing = || format!("writing into {}", dir.display());
        let folder = dir.join(FETCHED_FOLDER);
        // What an interrupted attempt has left.
        remove_folder(&folder).map_err(Error::io(format!("removing {}", folder.display())))?;
        let fetched = fetch_log(&*self.blobs, &folder);
        let fetched = fetched.map_err(Error::io(format!("reading the log in {}", self.place.display())))?;
        // Before all else, and also for a salvage.
        self.marked().check_store(&folder, &config)?;
        let synced = self.blobs.read_if_there(SYNCED_BLOB);
        let synced = synced.map_err(Error::io(format!("reading {}", self.place.display())))?;
        let synced = synced.and_then(|note| SyncedNote::parse(&note));
        // With it, the directories of the lost store are found to be this one's. They are taken over when they are opened.
        let own = note_owner(dir, self.owner()?.as_ref())?;
        let targets = self.place_targets(dir, &mut config)?;
        change::check_apart(dir, &config)?;
        write_file(&dir.join("terrace.toml"), config.to_toml().as_bytes())?;
        write_reach(dir, self.store, synced.unwrap_or_default()).map_err(Error::io(writing()))?;
        if !asked.salvage {
            self.check_log(dir, &folder, &config, &fetched)?;
        }
        terrace_system::fail::point("rebuild-from:fetched");
        let taken = self.blobs.replace(TARGET_OWNER_FILE, own.bytes());
        taken.map_err(Error::io(format!("taking over {}", self.place.display())))?;
        terrace_system::fail::point("rebuild-from:taken");
        fs::rename(&folder, dir.join("log")).map_err(Error::io(writing()))?;
        // Last: with this file, a store is here. It also makes the names in the directory durable.
        write_file(&dir.join("store"), format!("format {FORMAT_VERSION}\nid {:016x}\n", self.store).as_bytes())?;
        Ok(targets)
    }

    /// Checks that the log has all commits that the target, or another one, knows of.
    fn check_log(&self, dir: &Path, folder: &Path, config: &Config, fetched: &FetchedLog) -> Result<()> {
        let log = Log::open(folder, self.store)?;
        let survey = Survey::new(dir, config, &log)?;
        survey.check_whole().and_then(|()| survey.check(false)).map_err(|error| {
            let Error::LogDamaged(reason) = error else { return error };
            let gaps = if fetched.gaps.is_empty() { "" } else { ". A piece is missing of " };
            let reason =
                format!("the copy in {}: {reason}{gaps}{}", self.place.display(), fetched.gaps.join(" and of "));
            advise_salvage(Error::LogDamaged(reason))
        })
    }

    /// Finds the places of all targets of the store, and notes which of them were made. Returns those with another place.
    fn place_targets(&self, dir: &Path, config: &mut Config) -> Result<Vec<MovedTarget>> {
        let mut moved = Vec::new();
        for tier in &mut config.tiers {
            for at in 0..tier.targets.len() {
                let target = tier.targets[at].clone();
                let Some(number) = target.number else { continue };
                let owner = TargetOwner { store: self.store, number, dir: dir.to_owned(), ids: Arc::new(NoIds) };
                let is_made = if number == self.number {
                    tier.service.clone_from(&self.settings.service);
                    tier.targets[at].path.clone_from(&self.settings.path);
                    tier.targets[at].options.extend(self.settings.options.clone());
                    true
                } else {
                    match find_target(tier, &target, &owner)? {
                        NewPlace::Kept { is_made } => is_made,
                        NewPlace::Lost => {
                            tier.targets[at].path = dir.join(TARGETS_FOLDER).join(number.to_string());
                            moved.push(MovedTarget {
                                tier: tier.name.clone(),
                                before: target.path,
                                now: tier.targets[at].path.clone(),
                            });
                            false
                        }
                    }
                };
                if is_made {
                    owner.note_made().map_err(Error::io(format!("writing into {}", dir.display())))?;
                }
            }
        }
        Ok(moved)
    }
}

/// The place of a target of the lost store in the new one.
enum NewPlace {
    /// It keeps its place. A target that was made, and is not there, is away.
    Kept { is_made: bool },
    /// An empty one takes its place.
    Lost,
}

fn find_target(tier: &TierConfig, at: &TargetConfig, owner: &TargetOwner) -> Result<NewPlace> {
    let is_local = tier.kind.capabilities().local_path;
    match tier.kind.find(&tier.settings(at), owner) {
        Ok(TargetFound::Own { .. }) => Ok(NewPlace::Kept { is_made: true }),
        Ok(TargetFound::Nothing) if !tier.persistent => Ok(NewPlace::Kept { is_made: false }),
        // An empty target in its place would hide it for good from the store.
        Ok(found) if is_local && holds_data(&at.path) => Err(refuse_unmarked(&at.path, &found, owner)),
        Ok(_) if is_local => Ok(NewPlace::Lost),
        // It may only be unreadable, or in use.
        Err(error) if is_local => Err(Error::io(format!("looking at {}", at.path.display()))(error)),
        _ => Ok(NewPlace::Kept { is_made: tier.persistent }),
    }
}

/// Returns whether a directory has what a target has, whatever its marker says.
fn holds_data(target: &Path) -> bool {
    ["segments", "plain", "log"].iter().any(|folder| holds_files(&target.join(folder)))
}

/// The error for a directory that may be the target, but is not marked as such.
fn refuse_unmarked(path: &Path, found: &TargetFound, owner: &TargetOwner) -> Error {
    let found = match found {
        TargetFound::Another(mark) => format!("names another target ({})", mark.trim_end().replace('\n', ", ")),
        _ => "is missing".to_owned(),
    };
    let reason = format!(
        "a target is there, but its file {MARKER_FILE} {found}. If it is this store's, write the file again with the two lines `store {:016x}` \
         and `target {}`; if not, move or unmount the directory. Then repeat this. Nothing was changed",
        owner.store, owner.number
    );
    refuse(path, &reason)
}
