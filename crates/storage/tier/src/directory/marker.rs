//! The marker of a directory target: finding, checking and making it.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::Ordering;

use terrace_format::REACH_FILE;

use super::{DirectoryTarget, SEGMENTS_FOLDER};
use crate::plain::{BYTES_FOLDER, FILES_FOLDER};

/// The marker: the file that makes a directory a target.
pub const MARKER_FILE: &str = "terrace-target";
/// Where a target's own files are, beside its marker and its lock.
const OWN_NAMES: [&str; 5] = [SEGMENTS_FOLDER, FILES_FOLDER, BYTES_FOLDER, "log", REACH_FILE];

/// Says when an empty directory may become the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Making {
    /// Never: the target was made before, so an empty directory is not the target.
    Never,
    /// Until the target has been seen. From then on, an empty directory may be the mount point of a missing disk.
    Once,
    /// Always, because the contents may be lost at any time.
    Always,
}

/// Reads the marker of the directory `root`. Something else by its name, such as a pipe, counts as an empty file.
pub fn read_marker(root: &Path) -> io::Result<Vec<u8>> {
    // Longer than any marker.
    const MAX_MARKER_BYTES: u64 = 1024;
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(root.join(MARKER_FILE))?;
    let mut bytes = Vec::new();
    file.take(MAX_MARKER_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns whether these are the bytes of a marker of any store.
fn is_marker(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let mut line = |start: &[u8]| lines.next().is_some_and(|line| line.starts_with(start));
    line(b"store ") && line(b"target ") && lines.all(|rest| rest.is_empty())
}

/// Returns whether a folder is missing or empty.
fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).map_or_else(|e| e.kind() == io::ErrorKind::NotFound, |mut entries| entries.next().is_none())
}

/// The error for a directory with the marker of another store or target.
fn another(root: &Path, mark: &str) -> io::Error {
    let (root, of) = (root.display(), mark.lines().next().unwrap_or_default());
    let reason = format!("{root} belongs to another store or target ({of}); give each its own directory");
    io::Error::new(io::ErrorKind::AlreadyExists, reason)
}

impl DirectoryTarget {
    /// Checks that a new target can be made at `root`. Creates the directory, and nothing in it.
    ///
    /// # Errors
    /// `AlreadyExists` if it is a target already, or has files where a target has its own, without a target's marker: the store would
    /// take them for its own.
    pub fn probe(root: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        match read_marker(root) {
            Ok(mark) => Err(another(root, &String::from_utf8_lossy(&mark))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let own = OWN_NAMES.map(|name| root.join(name));
                let Some(held) = own.iter().find(|place| !is_empty(place)) else { return Ok(()) };
                let held = held.display();
                let reason = format!("{held} holds files that no target's marker claims; name an empty directory");
                Err(io::Error::new(io::ErrorKind::AlreadyExists, reason))
            }
            Err(e) => Err(e),
        }
    }

    /// Checks that the directory has this target's marker, or makes the target if it may be made.
    pub(super) fn check_marker(&self) -> io::Result<()> {
        let root = self.root.display();
        match read_marker(&self.root) {
            Ok(mark) if mark == self.mark.as_bytes() => self.check_folder(),
            // Version 0.1 left an empty marker if the file system was full. No frame was written there.
            Ok(mark) if mark.is_empty() && self.may_make() && is_empty(&self.root.join(SEGMENTS_FOLDER)) => {
                self.make_empty()
            }
            Ok(mark) if is_marker(&mark) => Err(another(&self.root, &String::from_utf8_lossy(&mark))),
            Ok(_) => {
                let lines = self.mark.trim_end().replace('\n', "` and `");
                let reason = format!(
                    "{root}/{MARKER_FILE} is damaged, so {root} is not used; if it is this store's, write the lines `{lines}` into it"
                );
                Err(io::Error::new(io::ErrorKind::NotConnected, reason))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.may_make() => self.make_empty(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let reason = format!(
                    "{root} is not the directory that it was (it has no file {MARKER_FILE}): is it mounted? If it is gone for good, `terrace tiers renew` makes an empty one"
                );
                Err(io::Error::new(io::ErrorKind::NotConnected, reason))
            }
            Err(e) => Err(e),
        }
    }

    /// Checks that the folder of segments of a target with its marker is there. If somebody has moved it away by mistake, it may come
    /// back, so a target that was made before is not taken for empty.
    fn check_folder(&self) -> io::Result<()> {
        let folder = self.root.join(SEGMENTS_FOLDER);
        match fs::metadata(&folder) {
            Ok(found) if found.is_dir() => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.may_make() => self.make_empty(),
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => {
                let reason = format!(
                    "{} lacks its folder {SEGMENTS_FOLDER}, so it is not used: bring that back, or let `terrace tiers renew` make an empty one if it is gone for good",
                    self.root.display()
                );
                Err(io::Error::new(io::ErrorKind::NotConnected, reason))
            }
        }
    }

    fn may_make(&self) -> bool {
        match self.making {
            Making::Never => false,
            // A target that was made in this process can be unmounted like any other.
            Making::Once => !self.was_seen.load(Ordering::Acquire),
            Making::Always => true,
        }
    }

    /// Makes an empty target. The marker gets its name when it is whole and durable, so a full disk or a power cut leaves no part
    /// of it. The note that the target is empty comes first: after a crash between the two, the next opener writes both.
    fn make_empty(&self) -> io::Result<()> {
        self.emptied.write()?;
        self.used.make_stale();
        DirBuilder::new().recursive(true).mode(0o700).create(self.root.join(SEGMENTS_FOLDER))?;
        let new = self.root.join(format!("{MARKER_FILE}.new"));
        fs::write(&new, &self.mark)?;
        File::open(&new)?.sync_all()?;
        fs::rename(&new, self.root.join(MARKER_FILE))?;
        File::open(&self.root)?.sync_all()
    }
}
