//! Opens those files of a watched directory that no process has open for writing.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix_futex_sync::Mutex;

use super::folder::Folder;
use super::writers::{Leased, give_lease, open_for_writing, take_lease};
use super::{CLOCK_TICK, Identity, USUAL_SETTLE_TIME};
use crate::request::Name;
use crate::{Error, Result};

/// The settle time of files for which the system does not report writers.
const BLIND_SETTLE_TIME: Duration = Duration::from_secs(30);
/// How long a scan of all processes for open files stays valid.
const SCAN_LIFETIME: Duration = Duration::from_secs(1);

/// Opens files that are ready.
pub struct Opening {
    root: PathBuf,
    /// The configured settle time, if any.
    settle: Option<Duration>,
    /// The last scan of all processes. Held during a scan, so that threads which need one at the same time share it. A leaf.
    scan: Mutex<Option<Scan>>,
}

/// A scan of all processes for files that are open for writing.
struct Scan {
    at: Instant,
    /// Devices and inodes of these files.
    files: HashSet<(u64, u64)>,
}

/// Why a file cannot be taken now.
pub enum Unready {
    Gone,
    Later(String, Duration),
    Stays(String),
}

impl Opening {
    /// Creates an opener. `settle` is the configured settle time, if any.
    pub fn new(root: &Path, settle: Option<Duration>) -> Opening {
        Opening { root: root.to_owned(), settle, scan: Mutex::default() }
    }

    fn path(&self, name: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(name))
    }

    /// Postpones a file briefly, for this reason.
    pub fn later(&self, reason: String) -> Unready {
        Unready::Later(reason, self.settle.unwrap_or(USUAL_SETTLE_TIME))
    }

    /// The time for which [`open`](Self::open) would wait because the file has just changed.
    pub fn waiting_time(&self, name: &Name) -> Duration {
        let metadata = self.path(name).symlink_metadata();
        metadata.map_or(Duration::ZERO, |metadata| CLOCK_TICK.saturating_sub(Identity::of(&metadata).age()))
    }

    /// Opens a file of the folder if no process has it open for writing. Waits until its last change is a clock tick ago.
    pub fn open(&self, folder: &Folder, name: &Name) -> Result<std::result::Result<(File, Metadata), Unready>> {
        let cannot = |e: io::Error| match Errno::from_io_error(&e) {
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => {
                Err(Error::io(format!("opening {}", self.path(name).display()))(e))
            }
            Some(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => Ok(Err(Unready::Gone)),
            Some(Errno::AGAIN) => {
                Ok(Err(Unready::Later("another process holds a lease on it".into(), USUAL_SETTLE_TIME)))
            }
            _ => Ok(Err(Unready::Stays(format!("it cannot be read: {e}")))),
        };
        let file = match folder.file(name) {
            Ok(file) => file,
            Err(e) => return cannot(e),
        };
        let settle = self.settle.unwrap_or(USUAL_SETTLE_TIME);
        let is_open = || Ok(Err(Unready::Later("it is open for writing".into(), settle)));
        let leased = take_lease(&file);
        give_lease(&file);
        if leased == Leased::Writers {
            return is_open();
        }
        let mut metadata = match file.metadata() {
            Ok(metadata) => metadata,
            Err(e) => return cannot(e),
        };
        if !metadata.is_file() {
            return Ok(Err(Unready::Gone));
        }
        let identity = Identity::of(&metadata);
        if leased == Leased::Unsupported {
            let settle = self.settle.unwrap_or(BLIND_SETTLE_TIME);
            if self.is_open_for_writing(&identity) {
                return is_open();
            }
            if identity.age() < settle {
                let reason = "the system does not tell whether it is open for writing, and it has changed lately";
                return Ok(Err(Unready::Later(reason.into(), settle)));
            }
        }
        // A second change within the same clock tick would not alter the timestamp and would go unnoticed.
        if identity.age() < CLOCK_TICK {
            std::thread::sleep(CLOCK_TICK - identity.age());
            metadata = match file.metadata() {
                Ok(metadata) => metadata,
                Err(e) => return cannot(e),
            };
        }
        Ok(Ok((file, metadata)))
    }

    /// Reopens an unlinked file through its descriptor.
    pub fn open_again(&self, name: &Name, file: &File) -> Result<(File, Metadata)> {
        let opened = file.try_clone().and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = opened.map_err(Error::io(format!("reading {}", self.path(name).display())))?;
        Ok((file, metadata))
    }

    fn is_open_for_writing(&self, identity: &Identity) -> bool {
        let mut known = self.scan.lock(); // see the field
        let scan = known.take().filter(|scan| scan.at.elapsed() < SCAN_LIFETIME);
        let scan = known.insert(scan.unwrap_or_else(|| Scan { at: Instant::now(), files: open_for_writing() }));
        scan.files.contains(&(identity.device, identity.inode))
    }
}
