//! Saves the catalog of a running job again and again, so that little is lost if the job is killed.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use terrace::{SavedCatalog, Store};

use super::folder::SharedFolder;
use super::meeting::Plan;
use crate::output::{complain, path_name};

/// The file that names the catalog with which the next job goes on.
pub const SAVED_FILE: &str = "saved.json";
/// The folder of saved catalogs.
pub const SAVED_FOLDER: &str = "saved";
/// The interval at which a host reads how far another one has saved the catalog.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// The time to save takes at most this part of all time.
const MAX_SAVING_SHARE: u32 = 10;

/// Saves the catalog in an interval, and tells the node how far it is saved.
pub struct Saver {
    interval: Duration,
    /// The last commit that may give back places: later ones free what the saved catalog names.
    limit: Arc<AtomicU64>,
    saved: u64,
    read_at: Instant,
    next: Instant,
    /// How the last try has failed.
    failure: Option<String>,
}

impl Saver {
    /// Begins with the catalog that is saved. Call it before the node begins.
    pub fn begin(folder: &SharedFolder, interval: Duration, limit: Arc<AtomicU64>) -> Result<Saver> {
        let now = Instant::now();
        let mut saver = Saver { interval, limit, saved: 0, read_at: now, next: now + interval, failure: None };
        saver.read_progress(folder)?;
        Ok(saver)
    }

    /// Does what is due. An error does not end the job.
    pub fn work(&mut self, store: &Store, folder: &SharedFolder, plan: &Plan, host: &str) {
        if self.read_at.elapsed() < READ_INTERVAL {
            return;
        }
        let done = self.read_progress(folder).and_then(|()| self.save_if_due(store, folder, plan, host));
        self.complain_once(done);
    }

    /// Saves the catalog now.
    pub fn save_now(&mut self, store: &Store, folder: &SharedFolder) {
        let done = save(store, folder).and(keep_room(store, folder)).and_then(|()| self.read_progress(folder));
        self.complain_once(done);
    }

    /// Shows an error, unless the last try has failed in the same way: that there is no room for the next catalog must not hide that it
    /// is not saved.
    fn complain_once(&mut self, done: Result<()>) {
        let failure = done.as_ref().err().map(ToString::to_string);
        if let Some(error) = done.as_ref().err().filter(|_| failure != self.failure) {
            complain(&format!("{error:#}; this is tried again"));
        }
        self.failure = failure;
    }

    fn read_progress(&mut self, folder: &SharedFolder) -> Result<()> {
        self.read_at = Instant::now();
        let saved = read_saved(folder)?;
        self.saved = saved.sequence;
        // Relaxed: the file was durable before.
        self.limit.store(saved.sequence, Ordering::Relaxed);
        Ok(())
    }

    fn save_if_due(&mut self, store: &Store, folder: &SharedFolder, plan: &Plan, host: &str) -> Result<()> {
        let begun = Instant::now();
        if begun < self.next || store.catalog().tail()?.sequence == self.saved || !is_first_there(store, plan, host)? {
            return Ok(());
        }
        let saved = save(store, folder).and(keep_room(store, folder));
        self.next = Instant::now() + self.interval.max(begun.elapsed() * MAX_SAVING_SHARE);
        saved.and_then(|()| self.read_progress(folder))
    }
}

/// Saves the catalog of a store that is open.
pub fn save(store: &Store, folder: &SharedFolder) -> Result<()> {
    let save = || folder.write(SAVED_FILE, &store.save_catalog(&folder.path(SAVED_FOLDER))?);
    save().context("the catalog is not saved, and a killed job would lose more")
}

/// Keeps room for the next catalog and its name, which nothing else in the folder takes. Catalogs that are not named give their room to it.
pub fn keep_room(store: &Store, folder: &SharedFolder) -> Result<()> {
    let small = folder.keep_room();
    let kept =
        read_saved(folder).and_then(|catalog| Ok(store.keep_room_for_catalog(&folder.path(SAVED_FOLDER), &catalog)?));
    kept.and(small).context("the catalog is saved, but there may be no room for its next version")
}

/// Reads which catalog is the one with which the next job goes on.
pub fn read_saved(folder: &SharedFolder) -> Result<SavedCatalog> {
    folder.read(SAVED_FILE)?.context("no catalog is saved")
}

/// Removes all catalogs but this one.
pub fn keep_only(folder: &SharedFolder, catalog: &SavedCatalog) -> Result<()> {
    let path = folder.path(SAVED_FOLDER);
    let remove = || {
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            if entry.file_name() != Path::new(&catalog.file) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok::<_, io::Error>(())
    };
    remove().with_context(|| format!("removing older catalogs from {}", path_name(&path)))
}

/// Returns whether a host is the first one with a member of etcd that is there: it saves for all, and leaves last.
pub fn is_first_there(store: &Store, plan: &Plan, host: &str) -> Result<bool> {
    let nodes = store.nodes()?;
    let is_there = |host: &&String| nodes.iter().any(|node| node.name == **host && node.is_there);
    Ok(plan.log_hosts().iter().find(is_there).is_some_and(|first| first == host))
}
