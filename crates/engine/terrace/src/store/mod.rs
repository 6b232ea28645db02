//! [`Store`]: opening one, and what it offers.

mod appends;
pub(crate) mod boot;
mod change;
mod destroy;
mod device;
mod discard;
mod filesystem;
mod leases;
mod machine;
mod monitor;
mod mounts;
mod node_local;
mod open;
mod place_check;
mod restore;
mod rules;
mod sole;
mod space;
mod targets;
mod tiers;
mod trouble;
mod trust;

pub(crate) use device::Device;
pub(crate) use discard::Discard;
pub(crate) use leases::{Lease, Leases};
pub(crate) use tiers::Tiers;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use terrace_catalog::{Attributes, Catalog, Change, Edit, Expect, Object, Task};
use terrace_format::key;
use terrace_system::{Locked, replace_durably};
use terrace_tier::FILES;

use crate::config::Config;
use crate::hotness::Hotness;
use crate::mover::Mover;
use crate::place::{Planned, Planner, Streams};
use crate::read::{Cache, Fetched};
use crate::report::{ExtentLocation, Location, ReplicaLocation, ReplicaState, Status, TierState, TierStatus};
use crate::{Error, Result};
use appends::AppendTurns;
use machine::MachineLock;
use rules::Rules;
use sole::Sole;
use trust::Trust;

pub use trust::Trusted;

/// The store's format; a store of a newer one is refused.
const FORMAT: u32 = 1;
/// A long `put` records its extents after this many bytes, before it is visible.
const STAGE_BYTES: u64 = 64 << 20;
/// How long [`Store::close`] waits for owed replicas.
const CLOSE_WAITS: Duration = Duration::from_secs(60);

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
    // Dropped before `inner`: the last clone ends the background thread, which borrows `inner` while it works.
    _last: Arc<Last>,
    pub(crate) inner: Arc<Inner>,
    /// Whether it may change what lies below `.terrace/`.
    internal: bool,
}

struct Last(Arc<Inner>);

impl Drop for Last {
    fn drop(&mut self) {
        if self.0.catalog.inherited() {
            self.0.mover.forget();
        } else {
            self.0.mover.stop();
        }
    }
}

/// What the parts of the engine share.
pub(crate) struct Inner {
    pub dir: PathBuf,
    /// The configuration as it was when the store was opened. `rules` has the rules of now.
    pub config: Config,
    pub rules: Rules,
    pub catalog: Arc<Catalog>,
    pub tiers: Tiers,
    pub mover: Mover,
    /// What small reads have decoded.
    pub cache: Cache,
    /// What was fetched before it was asked for.
    pub fetched: Fetched,
    /// What was learned of which streams of bytes.
    pub streams: Streams,
    pub planner: Planner,
    pub hotness: Hotness,
    /// Extents of a long `put` are recorded each time so many bytes have gathered.
    pub stage_bytes: u64,
    /// What this process's open handles pin.
    pub leases: Leases,
    /// Who appends to an object.
    pub appends: AppendTurns,
    trust: Trust,
    /// Held as long as this copy of the library has the store open.
    sole: Sole,
    /// Held, shared, as long as the store is open.
    lock: StoreLock,
}

/// The lock of a store's directory for this process, and for its machine.
pub(crate) struct StoreLock {
    lock: Locked,
    // Dropped last: another machine may open the store from then on.
    _machine: MachineLock,
}

impl Deref for StoreLock {
    type Target = Locked;

    fn deref(&self) -> &Locked {
        &self.lock
    }
}

impl Store {
    /// Makes a new store in `dir`, with the tiers of `config`.
    ///
    /// # Errors
    /// Where `dir` holds a store already, or a tier's directory cannot be made or belongs to another store.
    pub fn init(dir: &Path, config: &Config) -> Result<Store> {
        let context = |what: &str| format!("{what} {}", dir.display());
        place_check::check_place(dir)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(Error::io(context("making")))?;
        let alone = init_lock(dir)?;
        if dir.join("store").exists() {
            return Err(refuse(dir, "a store is here already; open it, or name another directory"));
        }
        if has_log(dir) {
            return Err(lost_identity(dir));
        }
        let id = boot::random_id().map_err(Error::io("reading random bytes"))?;
        let mut config = config.clone();
        config.tiers.iter_mut().flat_map(|tier| &mut tier.targets).for_each(|target| target.number = None);
        config.number_targets();
        config.settle_paths()?;
        targets::probe(&config)?;
        write(&dir.join("terrace.toml"), config.to_toml().as_bytes())?;
        terrace_catalog::log::write_reach(dir, id, 0).map_err(Error::io(context("writing into")))?;
        let made = write(&dir.join("store"), format!("format {FORMAT}\nid {id:016x}\n").as_bytes());
        // Whoever comes now finds a store, and the opener below must be alone.
        drop(alone);
        let made = made.and_then(|()| Store::open(dir));
        if made.is_err() {
            // It is no store then; where even that fails, the error at hand says why.
            let _ = fs::remove_file(dir.join("store"));
        }
        made
    }

    /// Does something while no other process has the store open.
    pub(crate) fn alone<T>(&self, run: impl FnOnce(&Inner) -> Result<T>) -> Result<T> {
        let Inner { dir, lock, .. } = &*self.inner;
        let done = boot::alone(dir, lock).and_then(|()| run(&self.inner));
        boot::shared(dir, lock)?;
        done
    }

    /// The same store for Terrace's own crates, which keep what they must below `.terrace/`.
    #[doc(hidden)]
    pub fn internal(&self) -> Store {
        Store { internal: true, ..self.clone() }
    }

    /// Checks that an object of this key may be made, changed or removed.
    pub(crate) fn check_changeable(&self, key: &[u8]) -> Result<()> {
        key::check(key)?;
        match key::below(key, key::RESERVED) && !self.internal {
            true => Err(Error::Reserved { key: key::show(key) }),
            false => Ok(()),
        }
    }

    /// Whether no other process has the store open at this moment.
    pub fn is_alone(&self) -> bool {
        self.inner.sole.is_alone()
    }

    /// Until when what is looked up from now on stays true, but for what this process changes: a moment, or no time at all while another
    /// process has the store open. One that comes then changes nothing before.
    pub fn trust(&self) -> Trusted {
        self.inner.trust.grant(|| self.is_alone())
    }

    /// The store's number, which no other store has.
    pub fn id(&self) -> u64 {
        self.inner.catalog.log().store()
    }

    /// The store's directory.
    pub fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// The store's configuration, as it was when this process opened it. Rules may have changed since then.
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// The catalog, for tools that look into it.
    pub fn catalog(&self) -> &Catalog {
        &self.inner.catalog
    }

    /// What is known about an object.
    pub fn stat(&self, key: &[u8]) -> Result<Object> {
        key::check(key)?;
        self.inner.catalog.object(key)?.ok_or_else(|| Error::not_found(key))
    }

    /// Up to `limit` objects whose key is `prefix` or lies below it, in order of keys, after the key `after`.
    pub fn list(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Vec<u8>, Object)>> {
        Ok(self.inner.catalog.list(prefix, after, limit)?)
    }

    /// Deletes an object.
    pub fn remove(&self, key: &[u8]) -> Result<()> {
        self.check_changeable(key)?;
        let change =
            Change { expect: vec![Expect::Exists(key.to_vec())], edits: vec![Edit::Remove { key: key.to_vec() }] };
        self.inner.catalog.commit(change)?;
        self.follow();
        Ok(())
    }

    /// Gives an object another key; an object that had it is replaced. No bytes move.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.check_changeable(from)?;
        self.check_changeable(to)?;
        let expect = vec![Expect::Exists(from.to_vec()), Expect::Free(to.to_vec())];
        self.inner
            .catalog
            .commit(Change { expect, edits: vec![Edit::Rename { from: from.to_vec(), to: to.to_vec() }] })?;
        self.note_rename(from, to);
        self.follow();
        Ok(())
    }

    /// Replaces an object's attributes.
    pub fn set_attributes(&self, key: &[u8], attributes: Attributes) -> Result<()> {
        self.check_changeable(key)?;
        let expect = vec![Expect::Exists(key.to_vec())];
        self.inner
            .catalog
            .commit(Change { expect, edits: vec![Edit::SetAttributes { key: key.to_vec(), attributes }] })?;
        self.follow();
        Ok(())
    }

    /// What this process has planned so far.
    pub fn planned(&self) -> Planned {
        self.inner.planner.planned()
    }

    /// Where an object's bytes are.
    pub fn locate(&self, key: &[u8]) -> Result<Location> {
        key::check(key)?;
        let inner = &self.inner;
        let (object, extents) = inner.catalog.locate(key, 0, u64::MAX)?.ok_or_else(|| Error::not_found(key))?;
        let mut located = Vec::with_capacity(extents.len());
        for extent in extents {
            let mut replicas = Vec::new();
            for replica in &extent.replicas {
                let device = inner.tiers.device(replica.target)?;
                let (file, position) = match replica.place.is_plain() {
                    true => (Some(device.path.join(FILES).join(OsStr::from_bytes(key))), extent.frame_offset()),
                    false => (device.target.file(replica.place.segment), replica.place.offset),
                };
                replicas.push((
                    device.tier,
                    ReplicaLocation {
                        tier: inner.tiers.tier(device).name.clone(),
                        target: device.path.display().to_string(),
                        encoding: replica.encoding.to_string(),
                        state: ReplicaState::Present,
                        stored: u64::from(replica.stored),
                        position: file.is_some().then_some(position),
                        file,
                    },
                ));
            }
            let task = Task { object: object.id, frame_offset: extent.frame_offset(), write: extent.write, target: 0 };
            for target in inner.catalog.owed_to(&task)? {
                let device = inner.tiers.device(target)?;
                replicas.push((
                    device.tier,
                    ReplicaLocation {
                        tier: inner.tiers.tier(device).name.clone(),
                        target: device.path.display().to_string(),
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

    /// The store at a glance.
    pub fn status(&self) -> Result<Status> {
        let inner = &self.inner;
        inner.look_at_targets()?;
        let mut queue = vec![0; inner.tiers.tiers.len()];
        let mut owed = 0;
        let mut after = None;
        loop {
            let found = inner.catalog.owed(after.as_ref(), 4096)?;
            owed += found.len() as u64;
            for (task, _) in &found {
                queue[inner.tiers.device(task.target)?.tier] += 1;
            }
            match found.last() {
                Some((last, _)) => after = Some(*last),
                None => break,
            }
        }
        let tiers = inner.tiers.tiers.iter().enumerate().map(|(level, tier)| {
            let devices = || inner.tiers.devices.iter().filter(|device| device.tier == level);
            let state = devices().map(|device| inner.tiers.look(device)).max().unwrap_or(TierState::Ok);
            let (used, free) = inner.used_and_free(devices());
            TierStatus {
                name: tier.name.clone(),
                used,
                capacity: used.saturating_add(free),
                queue: queue[level],
                state,
            }
        });
        let (objects, replanning) = (inner.catalog.count()?, inner.replanning());
        Ok(Status { objects, owed, replanning, tiers: tiers.collect() })
    }

    /// Waits, for a minute at most, until nothing is owed, then makes all durable.
    ///
    /// # Errors
    /// [`Error::StillOwed`] where time ran out: what is owed is then made by whoever has the store open next.
    pub fn close(self) -> Result<()> {
        self.sync_within(CLOSE_WAITS)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.catalog.inherited() {
            // The lock is shared with the process that opened the store, whose affair all this is.
            return;
        }
        self.tell_repaired();
        self.streams.keep();
        self.hotness.fold();
        self.leases.close();
        boot::close(&self.dir, &self.lock, &self.catalog);
    }
}

/// Held while a store is made: one process does it.
fn init_lock(dir: &Path) -> Result<Locked> {
    let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(dir.join("lock"));
    let file = file.map_err(Error::io(format!("locking {}", dir.join("lock").display())))?;
    // The store's own users hold it, shared.
    let Ok(Some(lock)) = Locked::at_once(file) else {
        return Err(refuse(dir, "a store is here already, or is just being made; open it, or name another directory"));
    };
    boot::shared(dir, &lock)?;
    Ok(lock)
}

fn refuse(dir: &Path, reason: &str) -> Error {
    Error::Store { path: dir.to_owned(), reason: reason.to_owned() }
}

pub(crate) fn read_config(dir: &Path) -> Result<Config> {
    let path = dir.join("terrace.toml");
    let text = fs::read_to_string(&path).map_err(Error::io(format!("reading {}", path.display())))?;
    Config::parse(&text, &path.display().to_string())
}

/// The store's id.
///
/// # Errors
/// Where no store is in `dir`, or one that is being destroyed.
fn read_identity(dir: &Path) -> Result<u64> {
    match read_state(dir)? {
        (id, false) => Ok(id),
        (_, true) => Err(refuse(dir, "it is being destroyed; `terrace destroy` goes on with that")),
    }
}

/// Whether the log of a store is here.
fn has_log(dir: &Path) -> bool {
    crate::care::holds_files(&dir.join("log"))
}

/// The error where the file that says which store this is was lost or damaged.
fn lost_identity(dir: &Path) -> Error {
    let reason = "a store is here, but its file `store` is lost or damaged. Write that again: the lines `format 1` and `id ID`, with the ID from the file terrace-target of any of its targets";
    refuse(dir, reason)
}

/// The store's id, and whether somebody has begun to destroy it.
fn read_state(dir: &Path) -> Result<(u64, bool)> {
    let text = match fs::read_to_string(dir.join("store")) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            // A target has a copy of the log, and is no store that lost its file.
            return Err(match has_log(dir) && !dir.join(terrace_tier::MARK).exists() {
                true => lost_identity(dir),
                false => refuse(dir, "no store is here; `terrace init --store DIR` makes one"),
            });
        }
        Err(e) if e.kind() == io::ErrorKind::InvalidData => return Err(lost_identity(dir)),
        Err(e) => return Err(Error::io(format!("reading {}", dir.join("store").display()))(e)),
    };
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    match field("format").and_then(|f| f.parse::<u32>().ok()) {
        Some(FORMAT) => {}
        Some(newer) if newer > FORMAT => {
            return Err(refuse(
                dir,
                &format!("its format is {newer}, this program knows {FORMAT}; use a newer terrace"),
            ));
        }
        _ => return Err(lost_identity(dir)),
    }
    let id = field("id").and_then(|f| u64::from_str_radix(f, 16).ok());
    let id = id.ok_or_else(|| lost_identity(dir))?;
    Ok((id, text.lines().any(|line| line == destroy::DESTROYED)))
}

/// The store's lock, shared by all processes that have it open. Refused where another machine may have it open.
fn lock_file(dir: &Path) -> Result<StoreLock> {
    let _machine = MachineLock::take(dir, &place_check::check_place(dir)?)?;
    let path = dir.join("lock");
    let context = || format!("locking {}", path.display());
    let file = File::options().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path);
    let lock = file.and_then(Locked::share).map_err(Error::io(context()))?;
    Ok(StoreLock { lock, _machine })
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    replace_durably(path, bytes).map_err(Error::io(format!("writing {}", path.display())))
}
