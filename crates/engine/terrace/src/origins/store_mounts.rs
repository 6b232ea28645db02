//! Mounts of stores in the directory of an origin. They are left out: a mount of this store would wait for itself, and the kernel with it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::config::OriginConfig;
use crate::home::{Mount, Mounts};

/// The source that a mount of a store names.
const MOUNT_SOURCE: &str = "terrace";

/// The mounts of stores in or above an origin's directory.
pub struct StoreMounts {
    /// The origin's directory, and where stores are mounted, without symbolic links.
    root: PathBuf,
    points: Vec<PathBuf>,
}

impl StoreMounts {
    /// Finds them. An origin that is no directory of this machine has none.
    pub fn find(origin: &OriginConfig) -> StoreMounts {
        let path = Path::new(&origin.url);
        if !path.is_absolute() {
            return StoreMounts { root: PathBuf::new(), points: Vec::new() };
        }
        StoreMounts::in_directory(path)
    }

    /// Finds those of a directory.
    pub fn in_directory(path: &Path) -> StoreMounts {
        let is_of_store = |mount: &Mount| mount.kind.starts_with("fuse") && mount.source == MOUNT_SOURCE;
        let mounts = Mounts::read().0.into_iter().filter(is_of_store);
        let points: Vec<PathBuf> = mounts.map(|mount| mount.point).collect();
        // Only where there is a mount of a store: each folder of the path is looked at.
        let root = if points.is_empty() { PathBuf::new() } else { terrace_system::real_path(path) };
        StoreMounts { root, points }
    }

    /// Returns whether a path below the directory is in one of them. Links in it are not followed, as origins follow none.
    pub fn are_above(&self, path: &[u8]) -> bool {
        let relative = path.strip_prefix(b"/").unwrap_or(path);
        let is_in = |point: &PathBuf| self.root.join(OsStr::from_bytes(relative)).starts_with(point);
        self.points.iter().any(is_in)
    }
}
