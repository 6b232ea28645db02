//! [`Store`]: its methods, and how it is opened.

mod adopt;
mod append;
mod batch;
mod change;
mod complete;
mod copy;
mod destroy;
mod engine;
mod explain;
mod get;
mod handle;
mod health;
mod hot;
mod lease;
mod marked_id;
mod moves;
mod names;
mod nodes;
mod object_snapshot;
mod open;
mod origins;
mod own_places;
mod price;
mod put;
mod rebuild_from;
mod renew;
mod restore;
mod saved;
mod share;
mod shared_config;
mod shared_node;
mod stage_origin;
mod stale;
mod sync;
mod uploads;
mod volatile;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terrace_catalog::{Attributes, Catalog, Change, Edit, Expect, Object};
use terrace_format::key;
use terrace_system::Locked;
use terrace_tier::FILES_FOLDER;

pub use append::Appended;
pub use batch::Batch;
pub(crate) use engine::Engine;
pub use explain::{Explained, Measured, Question, WhatIf};
#[cfg(test)]
pub(crate) use get::LOOKUP_COUNT;
pub use handle::Handle;
pub use hot::HotRange;
pub(crate) use lease::Lease;
pub use origins::OriginStatus;
pub use own_places::OwnPlaces;
pub use price::Price;
pub use rebuild_from::RebuildFrom;
pub use saved::{SavedCatalog, SavedEnd, Unsaved};
pub use shared_node::SharedNode;
pub use stage_origin::FetchedBytes;
pub use stale::retry_if_stale;
pub use uploads::{Upload, UploadId, UploadPart};
pub use volatile::VolatileObjects;

use crate::config::Config;
use crate::devices::targets;
use crate::home::{self, Cluster, FORMAT_VERSION, Trusted, boot};
use crate::origins::forget_origin;
use crate::place::Planned;
use crate::report::{ExtentLocation, Location, ReplicaLocation, ReplicaState, Room, Status, TierState, TierStatus};
use crate::{Error, Result};

/// How long [`Store::close`] waits for pending replicas.
const MAX_CLOSE_WAIT: Duration = Duration::from_secs(60);

/// A store of replicated objects. Cheap to clone; many threads and processes may use one store at once.
///
/// ```
/// use terrace::{Config, PutOptions, Store};
///
/// # let temporary = tempfile::tempdir()?;
/// # let dir = temporary.path();
/// let tier = |name: &str| format!("[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = ['{}/{name}']\n", dir.display());
/// let config = Config::parse(&format!("{}{}", tier("fast"), tier("slow")), "example")?;
/// let store = Store::init(&dir.join("store"), &config)?;
/// store.put(b"runs/a", std::io::Cursor::new("some bytes"), &PutOptions::default())?;
/// store.close()?;
///
/// let store = Store::open(&dir.join("store"))?;
/// assert_eq!(store.get(b"runs/a")?, b"some bytes");
/// assert_eq!(store.stat(b"runs/a")?.length, 10);
/// let keys: Vec<Vec<u8>> = store.list(b"runs", None, 100)?.into_iter().map(|(key, _)| key).collect();
/// assert_eq!(keys, [b"runs/a"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Store {
    // Dropped before `engine`: the last clone ends the background thread, which works with parts of it.
    last: Arc<Last>,
    pub(crate) engine: Arc<Engine>,
    /// Whether it may change objects below `.terrace/`.
    internal: bool,
}

struct Last {
    engine: Arc<Engine>,
    /// Whether [`Store::close`] was called. Then the last clone also makes durable what the background thread committed
    /// after that.
    closes: AtomicBool,
    /// Whether [`Store::leave`] was called. Then the last clone frees what was dropped, as it does after `close`.
    leaves: AtomicBool,
}

impl Last {
    fn new(engine: Arc<Engine>) -> Last {
        Last { engine, closes: AtomicBool::new(false), leaves: AtomicBool::new(false) }
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        let Engine { catalog, origins, mover, .. } = &*self.engine;
        if catalog.inherited() {
            origins.forget_ahead();
            mover.forget();
            return;
        }
        // First, since its threads store bytes and make room.
        origins.stop_ahead();
        mover.stop();
        let closes = self.closes.load(Ordering::Acquire);
        if !catalog.is_shared()
            && (closes || self.leaves.load(Ordering::Acquire))
            && let Err(error) = self.engine.tidy_up(closes)
        {
            // Otherwise the next process frees the space. Without a mark the store counts as unclean, which only costs a rebuild after the next
            // restart of the machine.
            tracing::debug!(%error, "space could not be freed, or the last commits could not be marked as durable");
        }
    }
}

impl Store {
    /// Creates a store in `dir`, with the tiers of `config`.
    ///
    /// # Errors
    /// If `dir` holds a store already, or a tier's directory cannot be created or belongs to another store.
    pub fn init(dir: &Path, config: &Config) -> Result<Store> {
        // All that can be refused comes before anything is written.
        check_free(dir)?;
        let id = Store::new_id()?;
        let config = numbered(config)?;
        change::check_apart(dir, &config)?;
        // Another process that has just made a store here has made these targets, too.
        targets::probe(config.tiers.iter()).or_else(|error| check_free(dir).and(Err(error)))?;
        let alone = begin_directory(dir)?;
        home::write_file(&dir.join("terrace.toml"), config.to_toml().as_bytes())?;
        terrace_catalog::log::write_reach(dir, id, Default::default())
            .map_err(Error::io(format!("writing into {}", dir.display())))?;
        let made = home::write_file(&dir.join("store"), format!("format {FORMAT_VERSION}\nid {id:016x}\n").as_bytes());
        // Other processes find a store from now on, and the opener below must be alone.
        drop(alone);
        let made = made.and_then(|()| Store::open(dir));
        if made.is_err() {
            destroy::take_back(dir, id, &config);
        }
        made
    }

    /// Returns an id for a new store.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn new_id() -> Result<u64> {
        boot::random_id().map_err(Error::io("reading random bytes"))
    }

    /// Reads the id of the store in `dir`.
    ///
    /// # Errors
    /// If no store is there.
    pub fn read_id(dir: &Path) -> Result<u64> {
        home::check_identity(dir)
    }

    /// Makes the directory of a node of the store with this id, whose log several nodes share. [`SharedNode::start`] follows.
    ///
    /// # Errors
    /// If `dir` holds a store already.
    pub fn init_node(dir: &Path, id: u64, cluster: &Cluster) -> Result<()> {
        let _alone = begin_directory(dir)?;
        cluster.write(dir)?;
        home::write_file(&dir.join("store"), format!("format {FORMAT_VERSION}\nid {id:016x}\n").as_bytes())
    }

    /// Runs `run` while no other process has the store open.
    pub(crate) fn alone<T>(&self, run: impl FnOnce(&Engine) -> Result<T>) -> Result<T> {
        let Engine { dir, lock, .. } = &*self.engine;
        let done = boot::alone(dir, lock).and_then(|()| run(&self.engine));
        boot::shared(dir, lock)?;
        done
    }

    /// Returns the same store for Terrace's own crates, which keep their objects below `.terrace/`.
    #[doc(hidden)]
    pub fn internal(&self) -> Store {
        Store { internal: true, ..self.clone() }
    }

    /// Checks that an object with this key may be created, changed or removed.
    pub(crate) fn check_changeable(&self, key: &[u8]) -> Result<()> {
        key::check(key)?;
        match key::below(key, key::RESERVED_FOLDER) && !self.internal {
            true => Err(Error::Reserved { key: key::show(key) }),
            false => self.engine.origins.check_changeable(key),
        }
    }

    /// Returns whether several nodes share the store.
    pub fn is_shared(&self) -> bool {
        self.engine.catalog.is_shared()
    }

    /// Returns whether no other process has the store open now.
    pub fn is_alone(&self) -> bool {
        // Processes of other nodes are not known here.
        !self.engine.catalog.is_shared() && self.engine.sole.is_alone()
    }

    /// Grants trust in answers that are looked up from now on: they stay true for a moment, except for changes by this
    /// process. While another process has the store open, no trust is granted. A process that opens it later changes nothing
    /// before that time is over.
    pub fn trust(&self) -> Trusted {
        self.engine.trust.grant(|| self.is_alone())
    }

    /// Returns the store's number, which no other store has.
    pub fn id(&self) -> u64 {
        self.engine.catalog.log().store()
    }

    /// Returns the store's directory.
    pub fn dir(&self) -> &Path {
        &self.engine.dir
    }

    /// Returns the directories in which the store keeps its own files: those of its directory targets, and its own. A file that a user
    /// writes there may replace one of the store's.
    pub fn own_directories(&self) -> impl Iterator<Item = &Path> {
        let tiers = self.config().tiers.iter().filter(|tier| tier.kind.capabilities().local_path);
        tiers.flat_map(|tier| &tier.targets).map(|target| target.path.as_path()).chain([self.dir()])
    }

    /// Returns the store's configuration, as it was when this process opened it. Rules may have changed since then.
    pub fn config(&self) -> &Config {
        &self.engine.config
    }

    /// Returns the catalog, for tools that inspect it.
    pub fn catalog(&self) -> &Catalog {
        &self.engine.catalog
    }

    /// Returns the record of an object.
    pub fn stat(&self, key: &[u8]) -> Result<Object> {
        key::check(key)?;
        self.refresh(key)?;
        match self.engine.catalog.object(key)? {
            Some(object) => Ok(object),
            None if self.ask_new_origin(key)? => self.stat(key),
            None => Err(Error::not_found(key)),
        }
    }

    /// Returns up to `limit` objects whose key is `prefix` or lies below it, in order of keys, after the key `after`.
    pub fn list(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Vec<u8>, Object)>> {
        self.catch_up()?;
        self.engine.origins.heed();
        self.engine.origins.refresh_below(prefix, after, limit)?;
        Ok(self.engine.catalog.list(prefix, after, limit)?)
    }

    /// Deletes an object.
    pub fn remove(&self, key: &[u8]) -> Result<()> {
        self.check_changeable(key)?;
        let change =
            Change { expect: vec![Expect::Exists(key.to_vec())], edits: vec![Edit::Remove { key: key.to_vec() }] };
        self.engine.catalog.commit(change)?;
        self.engine.names.try_update_all();
        Ok(())
    }

    /// Renames an object. An object that has the key already is replaced. No bytes move.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.check_changeable(from)?;
        self.check_changeable(to)?;
        let expect = vec![Expect::Exists(from.to_vec()), Expect::Free(to.to_vec())];
        self.engine
            .catalog
            .commit(Change { expect, edits: vec![Edit::Rename { from: from.to_vec(), to: to.to_vec() }] })?;
        self.engine.mover.note_rename(from, to);
        self.engine.names.try_update_all();
        Ok(())
    }

    /// Replaces an object's attributes.
    pub fn set_attributes(&self, key: &[u8], mut attributes: Attributes) -> Result<()> {
        self.check_changeable(key)?;
        forget_origin(&mut attributes);
        let expect = vec![Expect::Exists(key.to_vec())];
        self.engine
            .catalog
            .commit(Change { expect, edits: vec![Edit::SetAttributes { key: key.to_vec(), attributes }] })?;
        self.engine.names.try_update_all();
        Ok(())
    }

    /// Returns statistics of the plans that this process has made.
    pub fn planned(&self) -> Planned {
        self.engine.planning.planner.planned()
    }

    /// Returns the places of an object's bytes.
    pub fn locate(&self, key: &[u8]) -> Result<Location> {
        key::check(key)?;
        self.refresh(key)?;
        let engine = &self.engine;
        let (object, extents) = engine.catalog.locate(key, 0, u64::MAX)?.ok_or_else(|| Error::not_found(key))?;
        let mut located = Vec::with_capacity(extents.len());
        for extent in extents {
            let mut replicas = Vec::new();
            for replica in &extent.replicas {
                let device = engine.tiers.device(replica.target)?;
                let place = replica.place;
                let is_named = place.is_plain() && device.target.files().is_some_and(|f| !f.is_linked(place.segment));
                let (file, position) = match is_named {
                    true => (Some(device.path.join(FILES_FOLDER).join(OsStr::from_bytes(key))), extent.frame_offset()),
                    false if place.is_plain() => (device.target.file(place.segment), extent.frame_offset()),
                    false => (device.target.file(place.segment), place.offset),
                };
                replicas.push((
                    device.tier,
                    ReplicaLocation {
                        tier: engine.tiers.tier(device).name.clone(),
                        target: device.path.display().to_string(),
                        node: device.node.clone(),
                        encoding: replica.encoding.to_string(),
                        state: ReplicaState::Present,
                        stored: u64::from(replica.stored),
                        position: file.is_some().then_some(position),
                        file,
                    },
                ));
            }
            for target in engine.catalog.owed_to(&extent.task(object.id, 0))? {
                let device = engine.tiers.device(target)?;
                replicas.push((
                    device.tier,
                    ReplicaLocation {
                        tier: engine.tiers.tier(device).name.clone(),
                        target: device.path.display().to_string(),
                        node: device.node.clone(),
                        encoding: String::new(),
                        state: ReplicaState::Owed,
                        stored: 0,
                        file: None,
                        position: None,
                    },
                ));
            }
            replicas.sort_by_key(|(tier, _)| *tier);
            let replicas = replicas.into_iter().map(|(_, replica)| replica).collect();
            located.push(ExtentLocation { offset: extent.offset, length: u64::from(extent.length), replicas });
        }
        Ok(Location { key: key::show(key), length: object.length, generation: object.generation, extents: located })
    }

    /// Returns a summary of the store.
    pub fn status(&self) -> Result<Status> {
        let engine = &self.engine;
        engine.care.check_targets()?;
        let mut queue = vec![0; engine.tiers.tiers.len()];
        for (target, owed) in engine.catalog.owed_by_target()? {
            queue[engine.tiers.device(target)?.tier] += owed;
        }
        let tiers = engine.tiers.tiers.iter().enumerate().map(|(level, tier)| {
            let devices = || engine.tiers.devices.iter().filter(|device| device.tier == level);
            let state = devices().map(|device| engine.tiers.read_state(device)).max().unwrap_or(TierState::Ok);
            let (used, free) = engine.tiers.used_and_free(devices());
            TierStatus {
                name: tier.name.clone(),
                used,
                capacity: used.saturating_add(free),
                queue: queue[level],
                state,
            }
        });
        let (objects, replanning) = (engine.catalog.count()?, engine.mover.replanning());
        let unplanned = engine.mover.count_unplanned()?;
        Ok(Status { objects, owed: queue.iter().sum(), unplanned, replanning, tiers: tiers.collect() })
    }

    /// Returns the space of all reachable targets together. A target without a limit has the space of its file system, and
    /// targets on one file system share its free space.
    pub fn room(&self) -> Room {
        let tiers = &self.engine.tiers;
        let (used, free) = tiers.used_and_free(tiers.devices.iter());
        Room { capacity: used.saturating_add(free), free }
    }

    /// Checks whether a store's directory may be at `dir`, which need not exist.
    ///
    /// # Errors
    /// [`Error::Store`] on a network file system, because a catalog can be used by one machine only. The error names
    /// suitable directories.
    pub fn check_place(dir: &Path) -> Result<()> {
        home::check_place(dir).map(drop)
    }

    /// Waits, for a minute at most, until no replica is pending, then makes everything durable.
    ///
    /// # Errors
    /// [`Error::StillOwed`] if time runs out. The next process that opens the store makes the pending replicas.
    pub fn close(self) -> Result<()> {
        self.last.closes.store(true, Ordering::Release);
        self.sync_within(MAX_CLOSE_WAIT)
    }

    /// Closes the store as it is: waits for no replica and, unless much was overwritten, for no disk. Frees what was dropped, if no other
    /// process has the store open.
    pub fn leave(self) {
        self.last.leaves.store(true, Ordering::Release);
    }

    /// Makes all commits durable, and leaves pending replicas to the next process that works in the background.
    pub fn close_at_once(self) -> Result<()> {
        self.last.closes.store(true, Ordering::Release);
        self.engine.journal.mark_synced()
    }
}

/// Makes the directory of a new store. No other process makes one there until the result is dropped.
///
/// # Errors
/// If a store is there.
fn begin_directory(dir: &Path) -> Result<Locked> {
    home::check_place(dir)?;
    check_free(dir)?;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(Error::io(format!("making {}", dir.display())))?;
    let alone = home::lock_new_store(dir)?;
    // Again, since another process may have made a store before this one had the lock.
    check_free(dir).map(|()| alone)
}

/// Checks that a directory has nothing of a store. Writes nothing there.
fn check_free(dir: &Path) -> Result<()> {
    if dir.join(terrace_tier::MARKER_FILE).exists() {
        let reason = "it is a target of a store, as its file terrace-target says; name another directory";
        return Err(home::refuse(dir, reason));
    }
    if dir.join("store").exists() {
        return Err(home::refuse(dir, "a store is here already; open it, or name another directory"));
    }
    if home::has_log(dir) { Err(home::lost_identity(dir)) } else { Ok(()) }
}

/// Returns the configuration of a new store: its targets are numbered in their order, and its paths are whole.
fn numbered(config: &Config) -> Result<Config> {
    let mut config = config.clone();
    config.tiers.iter_mut().flat_map(|tier| &mut tier.targets).for_each(|target| target.number = None);
    config.number_targets();
    config.make_paths_absolute()?;
    Ok(config)
}
