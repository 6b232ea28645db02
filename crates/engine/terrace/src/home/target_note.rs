//! Notes on single targets: empty files in the store's directory.

use std::fs::File;
use std::path::{Path, PathBuf};

use terrace_format::TargetId;

use crate::config::Config;
use crate::{Error, Result};

/// A note that holds of a target as long as its file exists.
pub struct TargetNote(PathBuf);

impl TargetNote {
    /// The target was away when its plain files' names were to be compared with the catalog, or is an older copy of itself.
    pub fn names_due(dir: &Path, target: TargetId) -> TargetNote {
        TargetNote(dir.join(format!("names-due-{target}")))
    }

    /// The target may hold much that no commit names, because it is an older copy of itself.
    pub fn sweep_due(dir: &Path, target: TargetId) -> TargetNote {
        TargetNote(dir.join(format!("sweep-due-{target}")))
    }

    /// The target holds what only a newer copy of the store's directory names.
    pub fn is_newer(dir: &Path, target: TargetId) -> TargetNote {
        TargetNote(dir.join(format!("newer-{target}")))
    }

    /// The target's copy of the log could not be brought up to its end: a store that is made again from it lacks what came since.
    pub fn log_behind(dir: &Path, target: TargetId) -> TargetNote {
        TargetNote(dir.join(format!("log-behind-{target}")))
    }

    /// Finds the targets that are noted as newer. Returns the place of each, with the note.
    pub fn find_newer(dir: &Path, config: &Config) -> Vec<(PathBuf, TargetNote)> {
        let all = config.tiers.iter().flat_map(|tier| tier.targets.iter().map(move |at| (tier, at)));
        let noted = all.filter_map(|(tier, at)| Some((tier.place_name(at), TargetNote::is_newer(dir, at.number?))));
        noted.filter(|(_, note)| note.holds()).collect()
    }

    /// Returns whether the note holds.
    pub fn holds(&self) -> bool {
        self.0.exists()
    }

    /// Writes or removes the note.
    pub fn set(&self, holds: bool) -> Result<()> {
        let noted = match (holds, self.holds()) {
            // Durable, because that of a newer target keeps its bytes from being swept, and no other tells of a log's copy that is behind.
            (true, false) => File::create(&self.0)
                .and_then(|file| file.sync_all())
                .and_then(|()| File::open(self.0.parent().unwrap_or(Path::new(".")))?.sync_all()),
            // A note that a power cut brings back costs another look.
            (false, true) => std::fs::remove_file(&self.0),
            _ => Ok(()),
        };
        noted.map_err(Error::io(format!("noting {}", self.0.display())))
    }
}
