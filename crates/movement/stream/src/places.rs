//! The directories that a stream reads and writes. They are checked so that no stream delivers its own output, or another's, again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use terrace::{Store, replace};

use crate::location::Location;
use crate::{Error, Result};

/// A check of a running stream's directories, for when a path leads to another directory than before.
pub type PlacesCheck = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// The directories of a running stream.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Places {
    /// The directories whose files it delivers and removes.
    pub from: Vec<PathBuf>,
    /// The directory that it writes to.
    pub to: Option<PathBuf>,
}

fn locate(path: &Path) -> Result<Location> {
    Location::of(path).map_err(Error::io(format!("looking where {} is", path.display())))
}

fn refuse(source: &Path, reason: String) -> Error {
    Error::BadSource { source_path: source.to_owned(), reason }
}

/// Checks that these directories may be pulled to this one, before anything is created there.
///
/// # Errors
/// [`Error::BadSource`] and [`Error::BadDirectory`].
pub fn check_directories(store: &Store, sources: &[&Path], to: Option<&Path>) -> Result<()> {
    let from = sources.iter().map(|source| source.to_path_buf()).collect();
    Places { from, to: to.map(Path::to_owned) }.check_all(store)
}

impl Places {
    /// Checks all of them, as they are now.
    pub fn check_all(&self, store: &Store) -> Result<()> {
        self.check_destination(store)?;
        let mut checked = Places { from: Vec::new(), to: self.to.clone() };
        for source in &self.from {
            checked.check(source, store)?;
            checked.from.push(source.clone());
        }
        Ok(())
    }

    /// Checks that no file delivered from `source` can return to it, and that no file in it belongs to a store.
    pub fn check(&self, source: &Path, store: &Store) -> Result<()> {
        let at = locate(source)?;
        if at.is_mounted_store() {
            return Err(refuse(source, "it is in a store that is mounted; use `terrace mv` or `terrace get`".into()));
        }
        if let Some(to) = &self.to
            && at.overlaps(&locate(to)?)
        {
            let to = to.display();
            return Err(refuse(source, format!("it is the destination {to}, or one of the two is in the other")));
        }
        for other in &self.from {
            if at.overlaps(&locate(other)?) {
                let other = other.display();
                return Err(refuse(source, format!("it is the source {other}, or one of the two is in the other")));
            }
        }
        for own in store.own_directories() {
            if at.overlaps(&locate(own)?) {
                let own = own.display();
                return Err(refuse(source, format!("the store keeps its own files in {own}, and they would be moved")));
            }
        }
        Ok(())
    }

    /// Checks that the destination does not lie among the store's own files.
    pub fn check_destination(&self, store: &Store) -> Result<()> {
        let Some(to) = &self.to else { return Ok(()) };
        let at = locate(to)?;
        for own in store.own_directories() {
            if locate(own)?.contains(&at) {
                let reason = format!("the store keeps its own files in {}; write to key:PREFIX", own.display());
                return Err(Error::BadDirectory { path: to.clone(), reason });
            }
        }
        Ok(())
    }

    /// Checks the other running streams: none writes to a directory that this one empties, none empties a directory that this one writes
    /// to, and no directory is emptied by both.
    pub fn check_others(&self, others: &[(String, Places)]) -> Result<()> {
        for (name, other) in others {
            for source in &self.from {
                let at = locate(source)?;
                for (path, does) in other
                    .to
                    .iter()
                    .map(|to| (to, "writes to"))
                    .chain(other.from.iter().map(|from| (from, "pulls from")))
                {
                    // A stream that has ended since the listing cannot conflict.
                    if Location::of(path).is_ok_and(|other| at.overlaps(&other)) {
                        let reason =
                            format!("stream {name:?}, which runs, {does} {}; end that one first", path.display());
                        return Err(refuse(source, reason));
                    }
                }
            }
            let Some(to) = &self.to else { continue };
            let at = locate(to)?;
            if let Some(from) = other.from.iter().find(|from| Location::of(from).is_ok_and(|from| from.overlaps(&at))) {
                let reason =
                    format!("stream {name:?}, which runs, takes from {} what is written there", from.display());
                return Err(Error::BadDirectory { path: to.clone(), reason });
            }
        }
        Ok(())
    }

    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec(self).unwrap_or_default();
        let written = replace(path, text);
        written.map_err(Error::io(format!("writing {}", path.display())))
    }

    /// Loads the directories that a stream saved; empty if the file is missing or unreadable.
    pub(crate) fn load(path: &Path) -> Places {
        fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }
}
