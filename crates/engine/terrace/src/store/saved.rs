//! Saves a store that several nodes share where it outlives them: what is on one tier, and the catalog as a file.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use terrace_catalog::log::Log;
use terrace_catalog::{Catalog, Change, Edit, Expect, Replica, TargetId, frames};
use terrace_format::key;
use terrace_member::SnapshotFolder;
use terrace_order::{LogIdentity, OfferedSnapshot, OrderError};
use terrace_system::remove_folder;

use super::Store;
use super::shared_node::{SharedNode, of_log};
use crate::config::{Config, SharedConfig};
use crate::home::{self, boot, check_identity, lock_store};
use crate::report::Moved;
use crate::{Error, Result};

/// The folder in which a saved catalog is changed before a log begins with it.
const PASSING_FOLDER: &str = "going-on";
/// The approximate number of edits in one commit.
const EDITS_PER_COMMIT: usize = 1024;

/// A catalog in a file, from which a store goes on.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedCatalog {
    /// The number of the store.
    pub store: u64,
    /// The name of the file in its folder.
    pub file: String,
    /// The last commit that it certainly has.
    pub sequence: u64,
}

/// An object with bytes on no target that lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsaved {
    /// Its key, printed lossily.
    pub key: String,
    /// The number of these bytes.
    pub bytes: u64,
}

impl Store {
    /// Copies to a tier the extents that are on the nodes' own targets only: with a `node`, those whose first readable replica is on it, and otherwise all.
    /// Objects that are read most come first. Nothing is begun after `until`.
    ///
    /// # Errors
    /// If there is no such tier, or the log does not answer.
    pub fn save_to(&self, tier: &str, node: Option<&str>, until: Option<Instant>) -> Result<Moved> {
        self.engine.mover.save(tier, node, until)
    }

    /// Writes the catalog into a file of this folder, durably, for a store that goes on from there.
    ///
    /// # Errors
    /// If the folder takes none.
    pub fn save_catalog(&self, folder: &Path) -> Result<SavedCatalog> {
        let node = self.node()?.ok_or_else(|| home::refuse(self.dir(), "no other node shares this store"))?;
        save(&self.engine.catalog, folder, &node)
    }
}

impl SharedNode {
    /// Writes the catalog of the node in `dir`, which has ended, into a file of this folder, durably. Returns also the objects that have
    /// bytes on the nodes' own targets only.
    ///
    /// # Errors
    /// If the node runs, or the folder takes no file.
    pub fn save_ended(dir: &Path, folder: &Path) -> Result<(SavedCatalog, Vec<Unsaved>)> {
        let (id, _lock) = (check_identity(dir)?, lock_store(dir)?);
        let cluster = home::Cluster::read(dir)?.ok_or_else(|| home::refuse(dir, "no other node shares this store"))?;
        let catalog = Catalog::open(&dir.join("catalog"), Log::open(&dir.join("log"), id)?)?;
        let config = SharedConfig::read(&catalog)?.ok_or_else(|| home::refuse(dir, "the log has no configuration"))?;
        let config = config.parse()?;
        let safe = config.tiers.iter().filter(|tier| tier.persistent && home::Cluster::is_common(tier));
        let safe: Vec<TargetId> = safe.flat_map(|tier| &tier.targets).filter_map(|target| target.number).collect();
        Ok((save(&catalog, folder, &cluster.node)?, find_unsaved(&catalog, &safe)?))
    }
}

impl SharedNode {
    /// Makes the log of a store that goes on from a saved catalog: `make` writes the log that begins with it. Before, `change` changes the
    /// configuration. Targets that it leaves out are given up; returns the objects that had bytes only there, which stay, without
    /// these bytes. [`SharedNode::start`] follows.
    ///
    /// # Errors
    /// If the catalog is not whole, or the log is there already.
    pub fn go_on(
        dir: &Path,
        saved: &Path,
        change: impl FnOnce(Config) -> Config,
        make: impl FnOnce(LogIdentity, &OfferedSnapshot) -> std::result::Result<(), OrderError>,
    ) -> Result<Vec<Unsaved>> {
        let (id, _lock) = (check_identity(dir)?, lock_store(dir)?);
        let cluster = home::Cluster::read(dir)?.ok_or_else(|| home::refuse(dir, "no other node shares this store"))?;
        let lacks_folder = || home::refuse(dir, "a folder for snapshots is missing in its file cluster.toml");
        let folder = cluster.snapshots.as_ref().ok_or_else(lacks_folder)?;
        // The node's own catalog is made from the log later.
        let passing = dir.join(PASSING_FOLDER);
        let removing = || format!("removing {}", passing.display());
        remove_folder(&passing).map_err(Error::io(removing()))?;
        fs::create_dir(&passing).map_err(Error::io(format!("making {}", passing.display())))?;
        let catalog = Catalog::open(&passing.join("catalog"), Log::open(&passing.join("log"), id)?)?;
        if !catalog.load_snapshot(saved)? {
            return Err(home::refuse(
                saved,
                "it is no whole catalog of this store; take the folder back from a backup",
            ));
        }
        catalog.jump_to(catalog.tail()?.sequence)?;
        let missing = change_targets(&catalog, dir, change)?;
        let number = boot::random_id().map_err(Error::io("reading /dev/urandom"))?;
        let folder = SnapshotFolder::new(folder).map_err(Error::io(format!("making {}", folder.display())))?;
        let snapshot = folder.write_for_new_log(&catalog, &cluster.node, number).map_err(of_log)?;
        drop(catalog);
        remove_folder(&passing).map_err(Error::io(removing()))?;
        make(LogIdentity { number, before: None }, &snapshot).map_err(|e| of_log(e.into()))?;
        Ok(missing)
    }
}

/// Changes the configuration of a catalog that no node follows, and gives up the targets that it then lacks.
fn change_targets(catalog: &Catalog, dir: &Path, change: impl FnOnce(Config) -> Config) -> Result<Vec<Unsaved>> {
    let shared =
        SharedConfig::read(catalog)?.ok_or_else(|| home::refuse(dir, "the saved catalog has no configuration"))?;
    let before = shared.parse()?;
    let numbers = |config: &Config| -> BTreeSet<TargetId> {
        config.tiers.iter().flat_map(|tier| &tier.targets).filter_map(|target| target.number).collect()
    };
    let (known, ever) = (numbers(&before), before.store.targets);
    let mut config = change(before);
    config.store.targets = ever;
    config.number_targets();
    if config.store.targets == TargetId::MAX {
        return Err(home::refuse(
            dir,
            "the store has had as many targets as there can be; copy its objects to another one",
        ));
    }
    home::Cluster::check(&config)?;
    let gone: Vec<TargetId> = known.difference(&numbers(&config)).copied().collect();
    // Their writers ended with the lost log.
    for (object, _) in catalog.staged()? {
        catalog.commit(Edit::Unstage { object }.into())?;
    }
    let missing = give_up(catalog, &gone)?;
    let expect = gone.iter().map(|target| Expect::Unused(*target)).collect();
    let edits = gone.iter().map(|target| Edit::Retire { target: *target }).collect();
    shared.replace(catalog, &config, Change { expect, edits })?;
    Ok(missing)
}

/// Removes the replicas on these targets, and those that are pending there. Returns the objects that had bytes only there.
fn give_up(catalog: &Catalog, gone: &[TargetId]) -> Result<Vec<Unsaved>> {
    let (mut missing, mut edits) = (Vec::new(), Vec::new());
    let is_gone = |replica: &Replica| gone.contains(&replica.target);
    catalog.each_object(b"", |key, object, extents| {
        let mut lost = 0;
        for extent in frames(extents) {
            let is_lost = !extent.replicas.is_empty() && extent.replicas.iter().all(is_gone);
            lost += if is_lost { u64::from(extent.length) } else { 0 };
            for replica in extent.replicas.iter().filter(|replica| is_gone(replica)) {
                let task = extent.task(object.id, replica.target);
                let key = ByteBuf::from(key);
                // Only a replica that is to be made again may be the last one to go. It is not pending for long.
                edits.push(Edit::Lost { task, key, place: replica.place, owed: Some(replica.target) });
                edits.push(Edit::Forgive { task });
            }
            let pending = catalog.owed_to(&extent.task(object.id, 0))?;
            let is_over = |target: &TargetId| is_lost || gone.contains(target);
            let pending = pending.into_iter().filter(is_over);
            edits.extend(pending.map(|target| Edit::Forgive { task: extent.task(object.id, target) }));
        }
        if lost > 0 {
            missing.push(Unsaved { key: key::show(key), bytes: lost });
        }
        if edits.len() >= EDITS_PER_COMMIT {
            catalog.commit(Change { expect: Vec::new(), edits: std::mem::take(&mut edits) })?;
        }
        Ok::<_, Error>(true)
    })?;
    catalog.commit(Change { expect: Vec::new(), edits })?;
    forgive_all(catalog, gone)?;
    Ok(missing)
}

/// Deletes what is pending on these targets and no object needs any more.
fn forgive_all(catalog: &Catalog, gone: &[TargetId]) -> Result<()> {
    let mut after = None;
    loop {
        let page = catalog.owed(after.as_ref(), EDITS_PER_COMMIT)?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(*last);
        let stale = page.iter().filter(|(task, _)| gone.contains(&task.target));
        let edits: Vec<Edit> = stale.map(|(task, _)| Edit::Forgive { task: *task }).collect();
        if !edits.is_empty() {
            catalog.commit(Change { expect: Vec::new(), edits })?;
        }
    }
}

fn save(catalog: &Catalog, folder: &Path, node: &str) -> Result<SavedCatalog> {
    let folder = SnapshotFolder::new(folder).map_err(Error::io(format!("making {}", folder.display())))?;
    // Before the file is written, which has all up to here.
    let sequence = catalog.tail()?.sequence;
    let written = folder.write(catalog, node).map_err(of_log)?;
    Ok(SavedCatalog { store: catalog.log().store(), file: written.place, sequence })
}

/// Returns the objects that have bytes on none of these targets.
fn find_unsaved(catalog: &Catalog, safe: &[TargetId]) -> Result<Vec<Unsaved>> {
    let mut found = Vec::new();
    catalog.each_object(b"", |key, _, extents| {
        let is_unsafe = |extent: &&terrace_catalog::Extent| !extent.replicas.iter().any(|r| safe.contains(&r.target));
        let bytes: u64 = frames(extents).filter(is_unsafe).map(|extent| u64::from(extent.length)).sum();
        if bytes > 0 {
            found.push(Unsaved { key: key::show(key), bytes });
        }
        Ok::<_, Error>(true)
    })?;
    Ok(found)
}
