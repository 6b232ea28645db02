//! Copies of the log on services, for a rebuild: they are fetched into the store's directory, and used as those on directory targets are. A
//! fetched copy's folder looks as a directory target does: `log/` and `log-reach`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use terrace_catalog::log::{Reach, Tail, read_target_reach, write_reach};
use terrace_catalog::{find_end, newest_snapshot};
use terrace_system::{read_regular, remove_folder};
use terrace_tier::{MARKER_FILE, NamedBlobs, OwnerMark, SYNCED_BLOB, SyncedNote, TARGET_OWNER_FILE, read_marker_text};

use crate::config::{Config, TargetConfig, TierConfig};
use crate::home::TargetNote;
use crate::journal::{SERVICE_COPIES_FOLDER, fetch_log, read_copied};
use crate::{Error, Result};

/// The file beside a fetched copy with the place of its target, for messages.
const PLACE_FILE: &str = "place";

/// A target on a service that this directory of the store uses.
pub(crate) struct ServiceCopy {
    folder: PathBuf,
    place: PathBuf,
    store: u64,
    blobs: Box<dyn NamedBlobs>,
    /// The commit up to which the target has the log, or at least the frames, and a record of the log. Zeros: none is known.
    pub synced: Reach,
    /// Whether the target was found to be used with a newer copy of the directory.
    pub is_newer: bool,
}

impl ServiceCopy {
    /// Finds the targets that can be reached.
    pub fn find_all(dir: &Path, config: &Config, store: u64) -> Vec<ServiceCopy> {
        let lasting = config.tiers.iter().filter(|tier| tier.persistent && !tier.kind.capabilities().log_copies);
        let mut found = Vec::new();
        for (tier, at) in lasting.flat_map(|tier| tier.targets.iter().map(move |at| (tier, at))) {
            match ServiceCopy::find(dir, store, tier, at) {
                Ok(copy) => found.extend(copy),
                Err(error) => {
                    tracing::debug!(target = %tier.place_name(at).display(), %error, "no copy of the log is read there")
                }
            }
        }
        found
    }

    fn find(dir: &Path, store: u64, tier: &TierConfig, at: &TargetConfig) -> io::Result<Option<ServiceCopy>> {
        let Some(number) = at.number else { return Ok(None) };
        let blobs = tier.kind.named_blobs(&tier.settings(at))?;
        if read_marker_text(&blobs.read(MARKER_FILE)?) != Some((store, number)) {
            return Ok(None);
        }
        // What another directory of the store has done there says nothing about this one's log.
        let (own, owner) =
            (OwnerMark::of_home(dir)?, blobs.read_if_there(TARGET_OWNER_FILE)?.map(|mark| OwnerMark::read(&mark)));
        if owner.is_some_and(|owner| own.as_ref() != Some(&owner) && !own.is_some_and(|own| own.may_replace(&owner))) {
            return Ok(None);
        }
        let synced = blobs.read_if_there(SYNCED_BLOB)?.and_then(|note| SyncedNote::parse(&note)).unwrap_or_default();
        let folder = dir.join(SERVICE_COPIES_FOLDER).join(number.to_string());
        let is_newer = TargetNote::is_newer(dir, number).holds();
        Ok(Some(ServiceCopy { folder, place: tier.place_name(at), store, blobs, synced, is_newer }))
    }

    /// Fetches the copy. From then on, [`Survey::new`](super::Survey::new) uses it.
    ///
    /// # Errors
    /// If the service fails, or the files cannot be written.
    pub fn fetch(&self) -> Result<()> {
        let context = || format!("reading the copy of the log in {}", self.place.display());
        // Also of a target that cannot list pieces: it knows how far the log must reach.
        fs::create_dir_all(&self.folder).map_err(Error::io(format!("making {}", self.folder.display())))?;
        self.note(self.synced.record)?;
        let log = self.folder.join("log");
        let fetched = fetch_log(&*self.blobs, &log).map_err(Error::io(context()))?;
        tracing::info!(place = %self.place.display(), pieces = fetched.pieces, "read the copy of the log on a service");
        for gap in fetched.gaps {
            tracing::warn!(place = %self.place.display(), %gap, "a piece of the copy of the log is missing there");
        }
        // The last record tells whether the store's own log has gone on differently.
        let end = find_end(&log, self.store)?;
        if end.sequence >= self.synced.sequence { self.note((end.sequence, end.checksum)) } else { Ok(()) }
    }

    fn note(&self, record: (u64, u64)) -> Result<()> {
        let noted = write_reach(&self.folder, self.store, Reach { record, ..self.synced });
        let noted = noted.and_then(|()| fs::write(self.folder.join(PLACE_FILE), self.place.as_os_str().as_bytes()));
        noted.map_err(Error::io(format!("writing into {}", self.folder.display())))
    }
}

/// Returns the folders of the copies that were fetched.
pub(super) fn fetched_copies(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join(SERVICE_COPIES_FOLDER)).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Removes the copies that were fetched.
pub(crate) fn remove_fetched(dir: &Path) -> Result<()> {
    let folder = dir.join(SERVICE_COPIES_FOLDER);
    remove_folder(&folder).map_err(Error::io(format!("removing {}", folder.display())))
}

/// Returns the place of a target for messages: of a fetched copy, that on the service.
pub(super) fn place_of(folder: &Path) -> PathBuf {
    read_regular(&folder.join(PLACE_FILE)).map_or_else(|_| folder.to_owned(), |place| OsStr::from_bytes(&place).into())
}

/// Finds a copy of the log that begins behind the end of the store's own log, which has commits that nobody has copied there: nothing tells whether
/// the copy has them, too. Returns its place.
///
/// # Errors
/// If the log or a copy cannot be read.
pub(crate) fn find_parted(dir: &Path, config: &Config, store: u64) -> Result<Option<PathBuf>> {
    let end = find_end(&dir.join("log"), store)?;
    for (tier, at) in config.tiers.iter().flat_map(|tier| tier.targets.iter().map(move |at| (tier, at))) {
        let Some(number) = at.number.filter(|_| tier.persistent) else { continue };
        let (folder, is_copied) = match tier.kind.capabilities().log_copies {
            true => {
                let known = read_target_reach(dir, number, store).map_or(0, |known| known.sequence.max(known.record.0));
                (at.path.clone(), end.sequence <= known)
            }
            false => {
                (dir.join(SERVICE_COPIES_FOLDER).join(number.to_string()), is_before(end, read_copied(dir, number)))
            }
        };
        // A copy that cannot be read is left out of the survey, too.
        let begins = newest_snapshot(&folder.join("log"), store).map_or(0, |(_, from)| from.sequence);
        if begins > end.sequence && !is_copied {
            return Ok(Some(tier.place_name(at)));
        }
    }
    Ok(None)
}

fn is_before(end: Tail, (file, position): (u64, u64)) -> bool {
    (end.file, end.position) <= (file, position)
}
