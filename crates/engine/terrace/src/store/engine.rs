//! Creates the parts of an open store and connects them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use terrace_catalog::Catalog;
use terrace_system::fail;

use crate::arrivals::Arrivals;
use crate::care::Care;
use crate::config::Config;
use crate::devices::Tiers;
use crate::devices::targets::KnownNodes;
use crate::home::{AppendLocks, Leases, Locks, Rules, Sole, StoreLock, Trust, boot};
use crate::hotness::Hotness;
use crate::journal::Journal;
use crate::mover::{GRACE_PERIOD, Mover, PlainNames, Reaper, State};
use crate::origins::{DropCached, Origins};
use crate::place::{KeptOptions, Lessons, Planner, Planning};
use crate::read::{Cache, Fetched, HeldAccount, LostObjects, Reader, Suspects};
use crate::write::{Kept, Writer};
use crate::{Error, Result};

/// A long `put` records its extents after this many bytes, before it is visible.
const STAGE_BYTES: u64 = 64 << 20;

/// The parts of an open store. Each part uses only parts above it in this list.
pub(crate) struct Engine {
    pub dir: PathBuf,
    /// The configuration as it was when the store was opened. `planning` has the current rules.
    pub config: Arc<Config>,
    pub catalog: Arc<Catalog>,
    pub tiers: Arc<Tiers>,
    pub hotness: Arc<Hotness>,
    pub locks: Arc<Locks>,
    /// The pins of this process's open handles.
    pub leases: Arc<Leases>,
    pub journal: Arc<Journal>,
    pub planning: Arc<Planning>,
    pub writer: Arc<Writer>,
    pub origins: Arc<Origins>,
    pub reader: Arc<Reader>,
    pub names: Arc<PlainNames>,
    pub reaper: Arc<Reaper>,
    pub mover: Arc<Mover>,
    pub care: Care,
    /// The locks of writers that append to an object.
    pub append_locks: AppendLocks,
    pub trust: Trust,
    /// Whether a read sees all that other nodes had acknowledged before it began.
    pub reads_newest: bool,
    /// Held as long as this copy of the library has the store open.
    pub sole: Sole,
    /// Held, shared, as long as the store is open. Dropped last.
    pub lock: StoreLock,
}

/// The locks and files of a store's directory that are taken before the parts are created.
pub(super) struct Held {
    pub rules: Rules,
    pub trust: Trust,
    pub sole: Sole,
    pub lock: StoreLock,
    /// The nodes that share the store.
    pub nodes: KnownNodes,
}

impl Engine {
    /// Creates the parts of the store in `dir` on its open catalog.
    ///
    /// # Errors
    /// If a target belongs to another store, or cannot be opened as it is described.
    pub(super) fn new(dir: &Path, held: Held, catalog: Arc<Catalog>) -> Result<Engine> {
        let Held { rules, trust, sole, lock, nodes } = held;
        let (dir, config) = (dir.to_owned(), rules.now());
        let store = catalog.log().store();
        let tiers = Arc::new(Tiers::open(&config, &dir, &catalog, &nodes)?);
        let hotness = Arc::new(Hotness::new(&dir));
        let locks = Arc::new(Locks::new(&dir));
        let leases = Arc::new(Leases::new(&dir));
        let lessons = Arc::new(Lessons::new(&dir));
        let journal = Arc::new(Journal {
            dir: dir.clone(),
            catalog: catalog.clone(),
            tiers: tiers.clone(),
            snapshot_in_vain: AtomicU64::new(0),
        });
        let planning = Arc::new(Planning {
            rules,
            tiers: tiers.clone(),
            hotness: hotness.clone(),
            arrivals: Arrivals::default(),
            lessons: lessons.clone(),
            planner: Planner::default(),
            kept: KeptOptions::default(),
        });
        let writer = Arc::new(Writer {
            catalog: catalog.clone(),
            planning: planning.clone(),
            kept: Kept::default(),
            block_bytes: config.block(),
            stage_bytes: fail::limit("TERRACE_STAGE_BYTES", STAGE_BYTES),
        });
        let origins = Arc::new(Origins::new(&dir, catalog.clone(), planning.clone(), writer.clone()));
        let reader = Arc::new(Reader {
            store,
            tiers: tiers.clone(),
            lessons,
            origins: origins.clone(),
            cache: Cache::new(config.store.cache.0),
            held: HeldAccount::default(),
            fetched: Fetched::default(),
            suspects: Suspects::default(),
            lost: LostObjects::of(&dir),
        });
        let names = Arc::new(PlainNames {
            catalog: catalog.clone(),
            tiers: tiers.clone(),
            reader: reader.clone(),
            planning: planning.clone(),
            locks: locks.clone(),
        });
        let reaper = Arc::new(Reaper {
            catalog: catalog.clone(),
            tiers: tiers.clone(),
            journal: journal.clone(),
            locks: locks.clone(),
            leases: leases.clone(),
            names: names.clone(),
        });
        let mover = Arc::new(Mover {
            catalog: catalog.clone(),
            tiers: tiers.clone(),
            reader: reader.clone(),
            planning: planning.clone(),
            writer: writer.clone(),
            journal: journal.clone(),
            locks: locks.clone(),
            names: names.clone(),
            reaper: reaper.clone(),
            state: State::default(),
        });
        let room: Arc<dyn DropCached> = mover.clone();
        origins.set_room(Arc::downgrade(&room));
        let care = Care {
            catalog: catalog.clone(),
            tiers: tiers.clone(),
            reader: reader.clone(),
            planning: planning.clone(),
            journal: journal.clone(),
            mover: mover.clone(),
            locks: locks.clone(),
        };
        let append_locks = AppendLocks::open(&dir);
        Ok(Engine {
            dir,
            config,
            catalog,
            tiers,
            hotness,
            locks,
            leases,
            journal,
            planning,
            writer,
            origins,
            reader,
            names,
            reaper,
            mover,
            care,
            append_locks,
            trust,
            reads_newest: false,
            sole,
            lock,
        })
    }
}

impl Engine {
    /// Frees what was dropped, once this process reads nothing any more. A process that ends soon after it began would leave all of it to
    /// others, and a series of these would fill a disk. Leaves the store clean if it is, or if `cleans`.
    pub fn tidy_up(&self, cleans: bool) -> Result<()> {
        let is_marked = || Ok::<_, Error>(self.catalog.synced()? + 1 >= self.catalog.tail()?.sequence);
        // A mark syncs the disks, which a command that does not ask for it should not wait for.
        let cleans = cleans || is_marked()? || self.reaper.find_much_garbage()?;
        if cleans && !is_marked()? {
            self.journal.mark_synced()?;
        }
        // So that no other process does the same.
        if let Some(_lock) = self.locks.mover_at_once()? {
            // One that opens the store from now on finds nothing of it.
            self.reaper.reap(if self.sole.is_alone() { Duration::ZERO } else { GRACE_PERIOD })?;
        }
        // For the commits that say what was freed.
        if cleans && !is_marked()? { self.journal.mark_synced() } else { Ok(()) }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.catalog.inherited() {
            // This is a forked process. The lock is shared with the process that opened the store, which does all this.
            return;
        }
        self.mover.tell_repaired();
        self.mover.note_lacking();
        self.planning.lessons.keep();
        self.hotness.fold();
        self.leases.close();
        boot::close(&self.dir, &self.lock, &self.catalog);
    }
}
