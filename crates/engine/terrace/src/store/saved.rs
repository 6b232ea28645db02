//! Saves a store that several nodes share where it outlives them: what is on one tier, and the catalog as a file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use terrace_catalog::log::Log;
use terrace_catalog::{Catalog, Change, Edit, Expect, Extent, Replica, TargetId, Task, frames};
use terrace_format::key;
use terrace_member::SnapshotFolder;
use terrace_order::{LogIdentity, OfferedSnapshot, OrderError};
use terrace_system::remove_folder;

use super::Store;
use super::shared_node::{SharedNode, of_log};
use crate::config::{Config, SharedConfig, TierConfig};
use crate::home::{self, boot, check_identity, lock_store};
use crate::report::Moved;
use crate::{Error, Result};

/// The folder in which a saved catalog is changed before a log begins with it.
const PASSING_FOLDER: &str = "going-on";
/// The room for the next catalog: the last one by this factor, and some more for one that was small.
const ROOM_FACTOR: u64 = 2;
const MIN_ROOM_BYTES: u64 = 256 << 10;
/// The name, in place of a node's, of the catalog that a store leaves when it ends. It has room of its own: in a full folder, the room that a
/// smaller catalog leaves is soon taken by others. No host has such a name.
const LAST_NAME: &str = "_last";
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

/// How the catalog of a store that has ended was saved.
#[derive(Debug)]
pub struct SavedEnd {
    /// Why a store goes on from an older catalog, if it does.
    pub failure: Option<String>,
    /// The objects that a store which goes on will not have whole, or not as they were.
    pub unsaved: Vec<Unsaved>,
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

    /// Removes all catalogs from this folder but one, and keeps room there for the next one that this node saves, and for the one with which
    /// the store ends, even if they are twice as large. [`SharedNode::save_ended`] then needs no more room in a folder that is full.
    ///
    /// # Errors
    /// If the folder has no such room, or cannot be changed.
    pub fn keep_room_for_catalog(&self, folder: &Path, kept: &SavedCatalog) -> Result<()> {
        let node = self.node()?.ok_or_else(|| home::refuse(self.dir(), "no other node shares this store"))?;
        let keep = || {
            let bytes = fs::metadata(folder.join(&kept.file))?.len() * ROOM_FACTOR + MIN_ROOM_BYTES;
            SnapshotFolder::new(folder)?.keep_room(&kept.file, [LAST_NAME, &node], bytes)
        };
        keep().map_err(Error::io(format!("keeping room for the next catalog in {}", folder.display())))
    }
}

impl SharedNode {
    /// Writes the catalog of the node in `dir`, which has ended, into a file of this folder, durably, and lets `name` make it the one with
    /// which a store goes on. If that fails, it goes on from the catalog `before` in that folder. Finds also the objects that it will not
    /// have whole: all, if it cannot be compared with that one.
    ///
    /// # Errors
    /// If the node runs, or its catalog cannot be read.
    pub fn save_ended(
        dir: &Path,
        folder: &Path,
        before: &SavedCatalog,
        name: impl FnOnce(&SavedCatalog) -> std::result::Result<(), String>,
    ) -> Result<SavedEnd> {
        let (id, _lock) = (check_identity(dir)?, lock_store(dir)?);
        home::Cluster::read(dir)?.ok_or_else(|| home::refuse(dir, "no other node shares this store"))?;
        let catalog = Catalog::open(&dir.join("catalog"), Log::open(&dir.join("log"), id)?)?;
        let config = SharedConfig::read(&catalog)?.ok_or_else(|| home::refuse(dir, "the log has no configuration"))?;
        let config = config.parse()?;
        let safe = config.tiers.iter().filter(|tier| tier.persistent && home::Cluster::is_common(tier));
        let safe: Vec<TargetId> = safe.flat_map(|tier| &tier.targets).filter_map(|target| target.number).collect();
        let saved = save(&catalog, folder, LAST_NAME).map_err(|error| error.to_string());
        let Err(failure) = saved.and_then(|saved| name(&saved)) else {
            return Ok(SavedEnd { failure: None, unsaved: find_unsaved(&catalog, &safe)? });
        };
        let compare = |before: &Catalog| find_lacking(&catalog, Some(before), &safe);
        match with_saved(dir, id, &folder.join(&before.file), compare) {
            Ok(unsaved) => Ok(SavedEnd { failure: Some(failure), unsaved }),
            // The disk of this node may be full, too.
            Err(error) => Ok(SavedEnd {
                failure: Some(format!(
                    "{failure}; all objects are named, because the one before cannot be read: {error}"
                )),
                unsaved: find_lacking(&catalog, None, &safe)?,
            }),
        }
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
        let number = boot::random_id().map_err(Error::io("reading /dev/urandom"))?;
        let (missing, snapshot) = with_saved(dir, id, saved, |catalog| {
            catalog.jump_to(catalog.tail()?.sequence)?;
            let missing = change_targets(catalog, dir, change)?;
            let folder = SnapshotFolder::new(folder).map_err(Error::io(format!("making {}", folder.display())))?;
            Ok((missing, folder.write_for_new_log(catalog, &cluster.node, number).map_err(of_log)?))
        })?;
        make(LogIdentity { number, before: None }, &snapshot).map_err(|e| of_log(e.into()))?;
        Ok(missing)
    }
}

/// Runs an operation on a saved catalog, which is loaded for it. The node's own catalog is another one.
fn with_saved<T>(dir: &Path, id: u64, saved: &Path, run: impl FnOnce(&Catalog) -> Result<T>) -> Result<T> {
    let passing = dir.join(PASSING_FOLDER);
    let removing = || format!("removing {}", passing.display());
    remove_folder(&passing).map_err(Error::io(removing()))?;
    fs::create_dir(&passing).map_err(Error::io(format!("making {}", passing.display())))?;
    let catalog = Catalog::open(&passing.join("catalog"), Log::open(&passing.join("log"), id)?)?;
    if !catalog.load_snapshot(saved)? {
        return Err(home::refuse(saved, "it is no whole catalog of this store; take the folder back from a backup"));
    }
    let done = run(&catalog)?;
    drop(catalog);
    remove_folder(&passing).map_err(Error::io(removing()))?;
    Ok(done)
}

/// Changes the configuration of a catalog that no node follows, and gives up the targets that it then lacks.
fn change_targets(catalog: &Catalog, dir: &Path, change: impl FnOnce(Config) -> Config) -> Result<Vec<Unsaved>> {
    let shared =
        SharedConfig::read(catalog)?.ok_or_else(|| home::refuse(dir, "the saved catalog has no configuration"))?;
    let before = shared.parse()?;
    let numbers = |config: &Config| -> BTreeSet<TargetId> {
        config.tiers.iter().flat_map(|tier| &tier.targets).filter_map(|target| target.number).collect()
    };
    let (known, ever, tiers) = (numbers(&before), before.store.targets, targets_by_tier(&before));
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
    let missing = give_up(catalog, &gone, &Successors::new(tiers, &config))?;
    let expect = gone.iter().map(|target| Expect::Unused(*target)).collect();
    let edits = gone.iter().map(|target| Edit::Retire { target: *target }).collect();
    shared.replace(catalog, &config, Change { expect, edits })?;
    Ok(missing)
}

/// The targets of a store that goes on: on these, replicas are made for those on targets that it gives up.
struct Successors {
    /// The tier of each target that was there before.
    tiers: BTreeMap<TargetId, String>,
    /// The present targets of each tier, and those of all.
    of_tier: BTreeMap<String, Vec<TargetId>>,
    all: Vec<TargetId>,
}

impl Successors {
    fn new(before: BTreeMap<String, Vec<TargetId>>, now: &Config) -> Successors {
        let one_by_one =
            |(tier, targets): (String, Vec<TargetId>)| targets.into_iter().map(move |target| (target, tier.clone()));
        let of_tier = targets_by_tier(now);
        let all = of_tier.values().flatten().copied().collect();
        Successors { tiers: before.into_iter().flat_map(one_by_one).collect(), of_tier, all }
    }

    /// Chooses a target that has no replica of an extent and gets none, if possible on the tier of the one that is given up. Objects are
    /// spread.
    fn choose(&self, gone: TargetId, object: u64, taken: &[TargetId]) -> Option<TargetId> {
        let on_tier = self.tiers.get(&gone).and_then(|tier| self.of_tier.get(tier)).map_or(&[][..], Vec::as_slice);
        let choose = |targets: &[TargetId]| {
            let free: Vec<TargetId> = targets.iter().copied().filter(|target| !taken.contains(target)).collect();
            let at = (object % free.len().max(1) as u64) as usize;
            free.get(at).copied()
        };
        choose(on_tier).or_else(|| choose(&self.all))
    }
}

fn targets_by_tier(config: &Config) -> BTreeMap<String, Vec<TargetId>> {
    let numbers = |tier: &TierConfig| tier.targets.iter().filter_map(|target| target.number).collect();
    config.tiers.iter().map(|tier| (tier.name.clone(), numbers(tier))).collect()
}

/// Removes the replicas on these targets, and those that are pending there. As many as the object wants become pending on others. Returns
/// the objects that had bytes only there.
fn give_up(catalog: &Catalog, gone: &[TargetId], successors: &Successors) -> Result<Vec<Unsaved>> {
    let (mut missing, mut edits) = (Vec::new(), Vec::new());
    let is_gone = |replica: &Replica| gone.contains(&replica.target);
    catalog.each_object(b"", |key, object, extents| {
        let mut lost = 0;
        for extent in frames(extents) {
            let is_lost = !extent.replicas.is_empty() && extent.replicas.iter().all(is_gone);
            lost += if is_lost { u64::from(extent.length) } else { 0 };
            let pending = catalog.owed_to(&extent.task(object.id, 0))?;
            let stay = extent.replicas.iter().filter(|replica| !is_gone(replica)).map(|replica| replica.target);
            let mut kept: Vec<TargetId> =
                stay.chain(pending.iter().copied().filter(|target| !gone.contains(target))).collect();
            // Nothing is left to copy from if all was on these, and no object gets more replicas than it wants.
            let mut replace = |target| {
                let is_wanted = !is_lost && kept.len() < usize::from(object.want);
                let next = if is_wanted { successors.choose(target, object.id, &kept) } else { None };
                kept.extend(next);
                next
            };
            for replica in extent.replicas.iter().filter(|replica| is_gone(replica)) {
                let task = extent.task(object.id, replica.target);
                // Only a replica that is to be made again may be the last one to go. Here it is not pending for long.
                let owed = replace(replica.target).or(Some(replica.target));
                edits.push(Edit::Lost { task, key: ByteBuf::from(key), place: replica.place, owed });
                edits.push(Edit::Forgive { task });
            }
            for target in pending.into_iter().filter(|target| is_lost || gone.contains(target)) {
                let task = extent.task(object.id, target);
                if let Some(target) = replace(target) {
                    let (key, raw_len) = (ByteBuf::from(key), extent.raw_len);
                    edits.push(Edit::Owe { task: Task { target, ..task }, key, raw_len, then_drop: None });
                }
                edits.push(Edit::Forgive { task });
            }
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
    cancel_pending_on(catalog, gone)?;
    Ok(missing)
}

/// Deletes the pending replicas on these targets, which no object needs any more.
fn cancel_pending_on(catalog: &Catalog, gone: &[TargetId]) -> Result<()> {
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
        let bytes = unsafe_bytes(extents, safe);
        if bytes > 0 {
            found.push(Unsaved { key: key::show(key), bytes });
        }
        Ok::<_, Error>(true)
    })?;
    Ok(found)
}

/// Returns the objects that an older catalog, if there is one, does not have as this one has them, or that have bytes on none of these
/// targets there.
fn find_lacking(catalog: &Catalog, before: Option<&Catalog>, safe: &[TargetId]) -> Result<Vec<Unsaved>> {
    let mut found = Vec::new();
    catalog.each_object(b"", |key, object, _| {
        if key::below(key, key::RESERVED_FOLDER) {
            return Ok(true);
        }
        let known = before.map(|before| before.locate(key, 0, u64::MAX)).transpose()?.flatten();
        match known.filter(|(known, _)| (known.id, known.generation) == (object.id, object.generation)) {
            Some((_, extents)) => match unsafe_bytes(&extents, safe) {
                0 => {}
                bytes => found.push(Unsaved { key: key::show(key), bytes }),
            },
            None => found.push(Unsaved { key: key::show(key), bytes: object.length }),
        }
        Ok::<_, Error>(true)
    })?;
    Ok(found)
}

/// Returns the number of bytes that are on none of these targets.
fn unsafe_bytes(extents: &[Extent], safe: &[TargetId]) -> u64 {
    let is_unsafe = |extent: &&Extent| !extent.replicas.iter().any(|replica| safe.contains(&replica.target));
    frames(extents).filter(is_unsafe).map(|extent| u64::from(extent.length)).sum()
}
