//! The current rules and origins of an open store. Any process may change them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix_futex_sync::RwLock;

use super::read_config;
use crate::config::Config;
use crate::{Error, Result};

/// The configuration with the current rules and origins. All other settings are those at the time when the store was opened.
pub struct Rules {
    dir: PathBuf,
    file: PathBuf,
    /// A leaf, held for a copy or a replacement, and not while the file is read.
    known: RwLock<LastRead>,
    /// Whether there are origins. Relaxed: a thread that sees it late has not yet heard of the first one.
    has_origins: AtomicBool,
}

struct LastRead {
    config: Arc<Config>,
    version: Option<Version>,
    /// The last version that could not be read, about which the log was told.
    unread: Option<Version>,
}

/// Identifies a version of the configuration's file: inode, length and time of change.
type Version = (u64, u64, i64, i64);

impl Rules {
    /// Reads the rules of the store in `dir`.
    ///
    /// # Errors
    /// If its configuration cannot be read, or is not valid.
    pub fn read(dir: &Path) -> Result<Rules> {
        // The version is read first. If the file changes between the two reads, the next round notices it.
        let file = dir.join("terrace.toml");
        let version = version(&file);
        let config = Arc::new(read_config(dir)?);
        let has_origins = AtomicBool::new(!config.origins.is_empty());
        Ok(Rules {
            dir: dir.to_owned(),
            file,
            known: RwLock::new(LastRead { config, version, unread: None }),
            has_origins,
        })
    }

    /// Returns the configuration with the rules as they were last read.
    pub fn now(&self) -> Arc<Config> {
        self.known.read().config.clone()
    }

    /// Returns whether there are origins, as far as this process knows.
    pub fn has_origins(&self) -> bool {
        self.has_origins.load(Ordering::Relaxed) // see the field
    }

    /// Loads rules that other processes have changed. If the rules do not fit this process, such as rules for tiers that it
    /// does not know, they are ignored, and the old ones stay in force.
    pub fn renew(&self) {
        let version = version(&self.file);
        if version.is_none() || version == self.known.read().version {
            return;
        }
        let config = match self.changed() {
            Ok(config) => Some(Arc::new(config)),
            Err(error @ Error::Config(_)) => {
                tracing::warn!(%error, "the changed rules in terrace.toml do not fit the open store, so the old ones stay in force; correct them, or open the store again");
                None
            }
            // The file is read again by the next caller. Only the first of them warns, because each write calls this.
            Err(error) => {
                if std::mem::replace(&mut self.known.write().unread, version) != version {
                    tracing::warn!(%error, "the changed terrace.toml cannot be read yet, so the old rules stay in force until it can");
                }
                return;
            }
        };
        let mut known = self.known.write();
        known.version = version;
        if let Some(config) = config {
            self.has_origins.store(!config.origins.is_empty(), Ordering::Relaxed); // see the field
            known.config = config;
        }
    }

    fn changed(&self) -> Result<Config> {
        let Config { rules, origins, .. } = read_config(&self.dir)?;
        let text = Config { rules, origins, ..Config::clone(&self.now()) }.to_toml();
        Config::parse(&text, "the changed configuration")
    }
}

fn version(file: &Path) -> Option<Version> {
    let file = fs::metadata(file).ok()?;
    Some((file.ino(), file.len(), file.ctime(), file.ctime_nsec()))
}
