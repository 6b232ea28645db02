//! Kinds of targets: how a store checks, opens, finds and removes a target if it knows only the configuration.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::file_calls::remove_file;
use super::{Capabilities, EmptiedNote, Ids, NamedBlobs, Target, Used};

/// The configuration of one target.
#[derive(Clone, Debug)]
pub struct TargetSettings {
    /// Its path, which the kind interprets.
    pub path: PathBuf,
    /// The tier's `service`.
    pub service: Option<String>,
    /// The tier's `options`, overridden and extended by those of the target.
    pub options: BTreeMap<String, String>,
    /// The most bytes that it may allocate.
    pub capacity: u64,
    /// Whether its contents must outlive a reboot.
    pub persistent: bool,
    /// The longest time that a call may take.
    pub timeout: Option<Duration>,
}

impl TargetSettings {
    /// The settings of a persistent target at this path, without limits and options.
    pub fn at(path: impl Into<PathBuf>) -> TargetSettings {
        let (service, options, timeout) = (None, BTreeMap::new(), None);
        TargetSettings { path: path.into(), service, options, capacity: u64::MAX, persistent: true, timeout }
    }
}

/// The store that a target belongs to.
#[derive(Clone)]
pub struct TargetOwner {
    /// The store's id, which no other store has.
    pub store: u64,
    /// The target's number in the store.
    pub number: u16,
    /// The store's directory.
    pub dir: PathBuf,
    /// Gives out the numbers of segments.
    pub ids: Arc<dyn Ids>,
}

/// The content of that file for a target that another node makes.
const MADE_ELSEWHERE: &[u8] = b"by another node\n";

/// The file in a store's directory that says that a target was made.
pub fn made_note(dir: &Path, number: u16) -> PathBuf {
    dir.join(format!("target-{number}"))
}

/// The text of the marker of a store's target of this number.
pub fn marker_text(store: u64, number: u16) -> String {
    format!("store {store:016x}\ntarget {number}\n")
}

/// Parses a marker: the store's id, and the target's number.
pub fn read_marker_text(mark: &[u8]) -> Option<(u64, u16)> {
    let mark = std::str::from_utf8(mark).ok()?;
    let (store, number) = mark.strip_prefix("store ")?.split_once("\ntarget ")?;
    let (store, number) = (u64::from_str_radix(store, 16).ok()?, number.trim_end().parse().ok()?);
    (marker_text(store, number) == mark).then_some((store, number))
}

impl TargetOwner {
    /// The text of the marker that a target keeps, so that nobody takes it for another store's or for another target.
    pub fn mark(&self) -> String {
        marker_text(self.store, self.number)
    }

    /// The file that [`TargetOwner::was_made`] looks for.
    pub fn made_note(&self) -> PathBuf {
        made_note(&self.dir, self.number)
    }

    /// Returns whether the target was made, and not renewed since. A place without the marker is then not the target: perhaps
    /// a disk is not mounted, or a path is wrong. A persistent target must then be unavailable, and must not look empty.
    pub fn was_made(&self) -> bool {
        self.made_note().exists()
    }

    /// Notes that the target was made. Call it once the marker is durable: otherwise a power cut could leave the note without
    /// the marker, and the target would be unavailable.
    pub fn note_made(&self) -> io::Result<()> {
        if self.was_made() { Ok(()) } else { File::create(self.made_note())?.sync_all() }
    }

    /// Notes that another node that shares the store makes the target, and compares it with the catalog.
    pub fn note_made_elsewhere(dir: &Path, number: u16) -> io::Result<()> {
        std::fs::write(made_note(dir, number), MADE_ELSEWHERE)
    }

    /// Returns whether another node that shares the store makes the target, and compares it with the catalog.
    pub fn is_made_elsewhere(&self) -> bool {
        std::fs::read(self.made_note()).is_ok_and(|text| text == MADE_ELSEWHERE)
    }

    /// Forgets that the target was made. Call it just before the marker is removed: a target that was made and has no
    /// marker counts as unavailable.
    pub fn forget_made(&self) -> io::Result<()> {
        remove_file(&self.made_note())
    }

    /// The note behind [`Target::is_new`].
    pub fn emptied(&self) -> EmptiedNote {
        EmptiedNote::new(self.dir.join(format!("emptied-{}", self.number)))
    }

    /// The counter of the target's bytes, which all processes share.
    pub fn used(&self) -> Used {
        Used::open(&self.dir.join(format!("used-{}", self.number)))
    }
}

/// An opened target.
pub struct OpenedTarget {
    /// The target.
    pub target: Arc<dyn Target>,
    /// The reason why it cannot be used now. The store sets it aside, and retries later.
    pub trouble: Option<io::Error>,
}

impl OpenedTarget {
    /// Checks whether the target is ready.
    ///
    /// # Errors
    /// `InvalidInput` if the configuration cannot be right, and `AlreadyExists` if the target was never made and its place belongs to
    /// another store or target. Any other error may be temporary, and becomes [`OpenedTarget::trouble`].
    pub fn open(target: Arc<dyn Target>, owner: &TargetOwner) -> io::Result<OpenedTarget> {
        match target.ready() {
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => Err(e),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && !owner.was_made() => Err(e),
            ready => Ok(OpenedTarget { target, trouble: ready.err() }),
        }
    }
}

/// The owner of the place that a configuration gives a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetFound {
    /// The target is there, and takes this many bytes.
    Own {
        /// Bytes on the device.
        used: u64,
    },
    /// No target is there.
    Nothing,
    /// Another store's target is there, or another target of the same store: its marker.
    Another(String),
}

/// A kind of target, which `kind = "NAME"` in `terrace.toml` selects once it is registered. [`MapKind`](crate::MapKind) is one with little code.
///
/// **Each target has a marker**: the text [`TargetOwner::mark`], by which it is recognized. [`Target::ready`] compares it before anything
/// else is done, and calls [`TargetOwner::note_made`] if it is the right one.
///
/// **To make a target**, call [`EmptiedNote::write`], then store the marker durably, then call [`TargetOwner::note_made`]. In another order, a
/// crash would leave a target that nobody knows to be empty, or one that counts as unavailable. A target may be made if it is not persistent,
/// or if [`TargetOwner::was_made`] is false. Of two processes that make it at the same time, one must succeed.
pub trait TargetKind: Send + Sync {
    /// The abilities of its targets.
    fn capabilities(&self) -> Capabilities;

    /// The path of a tier's only target if the configuration names no target.
    fn default_path(&self) -> Option<&str> {
        None
    }

    /// The name of the node that a target is on, if its configuration tells. Targets of one node fail together.
    fn node(&self, _settings: &TargetSettings) -> Option<String> {
        None
    }

    /// Checks the configuration of a target without looking at its place. The error says what to write instead.
    fn check(&self, settings: &TargetSettings) -> Result<(), String> {
        let written = [(settings.service.is_some(), "service"), (!settings.options.is_empty(), "options")];
        match written.iter().find(|(is_written, _)| *is_written) {
            Some((_, key)) => Err(format!("{key} is not for this kind of tier; leave it out")),
            None => Ok(()),
        }
    }

    /// Checks that a new target can be made: its place is reachable, and no store owns it. A store calls this for all of its
    /// targets before it makes the first one.
    ///
    /// # Errors
    /// `AlreadyExists` if any store has a target there.
    fn probe(&self, settings: &TargetSettings) -> io::Result<()>;

    /// Opens a target. If its place is empty, a target that was never made, or is not persistent, is made.
    ///
    /// # Errors
    /// As [`OpenedTarget::open`]. `ResourceBusy` if another copy of the store's directory has the target in use.
    fn open(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<OpenedTarget>;

    /// Opens a target whose node is known to be away. A kind that would wait for the node does not look at the place, before the target is
    /// used.
    ///
    /// # Errors
    /// As [`TargetKind::open`].
    fn open_unseen(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<OpenedTarget> {
        self.open(settings, owner)
    }

    /// Returns the blobs beside the frames of a target that a store may have made, to read its copy of the log.
    ///
    /// # Errors
    /// `Unsupported` if targets of this kind hold no copy of the log in pieces.
    fn named_blobs(&self, _settings: &TargetSettings) -> io::Result<Box<dyn NamedBlobs>> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "only services hold a copy of the log from which a store can be made",
        ))
    }

    /// Looks at the target's place, without changing anything.
    ///
    /// # Errors
    /// `ResourceBusy` if another copy of the store's directory has it in use.
    fn find(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<TargetFound>;

    /// Removes everything that the store has put into the target's place: first the frames, then
    /// [`TargetOwner::forget_made`], then the marker, so that an interrupted removal can be repeated. Leaves the files of
    /// others, and returns their paths.
    fn remove(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<Vec<PathBuf>>;
}
