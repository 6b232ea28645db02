//! The store's tiers and targets. Other nodes that share the store may add targets while it is open.

use std::collections::HashSet;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use rustix_futex_sync::{Mutex, MutexGuard};
use terrace_catalog::{Catalog, TargetId};
use terrace_tier::Ids;

use super::Device;
use super::targets::{KnownNodes, Opener};
use super::tiers::{LEARNED_FILE, TierList};
use crate::Result;
use crate::config::{Config, SharedConfig};

/// The known nodes and targets count for this time.
const NODES_FRESH_TIME: Duration = Duration::from_millis(500);

/// All tiers of a store, with their targets. It can be used like the newest list of them.
///
/// Lists that are replaced are kept as long as this one, because other threads may use them. Work that keeps a target's index takes it and
/// all that belongs to it from one list.
pub struct Tiers {
    first: Version,
    /// The node whose targets this process compares with the catalog. None: all targets. Set before other threads use the store.
    tended: OnceLock<String>,
    /// Held during a look at the nodes of a shared store, and while targets of theirs are opened.
    heeded: Mutex<Heeded>,
    /// The targets hold it, too.
    catalog: Weak<Catalog>,
    dir: PathBuf,
    own: Option<String>,
}

/// A list, and the one that has replaced it.
struct Version {
    list: TierList,
    next: OnceLock<Box<Version>>,
}

/// The last look at the nodes of a shared store.
#[derive(Default)]
struct Heeded {
    at: Option<Instant>,
    /// The version of the configuration by which targets were opened.
    generation: u64,
}

impl Deref for Tiers {
    type Target = TierList;

    fn deref(&self) -> &TierList {
        &self.newest().list
    }
}

impl Tiers {
    /// Opens every target of the configuration, but asks no node for its targets that is away.
    pub fn open(config: &Config, dir: &Path, catalog: &Arc<Catalog>, nodes: &KnownNodes) -> Result<Tiers> {
        let first = Version { list: open_list(config, dir, catalog, nodes, None)?, next: OnceLock::new() };
        Ok(Tiers {
            first,
            tended: OnceLock::new(),
            heeded: Mutex::default(),
            catalog: Arc::downgrade(catalog),
            dir: dir.to_owned(),
            own: nodes.own.clone(),
        })
    }

    fn newest(&self) -> &Version {
        let mut version = &self.first;
        while let Some(next) = version.next.get() {
            version = next;
        }
        version
    }

    /// Leaves it to the other nodes that share the store to compare their targets with the catalog.
    pub fn tend_only(&self, node: &str) {
        // The first one stays.
        let _ = self.tended.set(node.to_owned());
    }

    /// Returns whether this process compares a target with the catalog.
    pub fn is_tended(&self, device: &Device) -> bool {
        self.tended.get().is_none_or(|node| device.node.as_ref() == Some(node))
    }

    /// Returns a target by its number, also one that another node has just added.
    pub fn device(&self, id: TargetId) -> Result<&Device> {
        self.find(|list| list.device(id))
    }

    /// Finds the level of a tier, also of one that another node has just added.
    pub fn level(&self, name: &str) -> Result<usize> {
        self.find(|list| list.level(name))
    }

    fn find<'a, T>(&'a self, find: impl Fn(&'a TierList) -> Result<T>) -> Result<T> {
        let known = find(&self.newest().list);
        if known.is_err()
            && let Some(catalog) = self.catalog.upgrade().filter(|catalog| catalog.is_shared())
        {
            self.update_from(&catalog, self.heeded.lock())?;
            return find(&self.newest().list);
        }
        known
    }

    /// Uses no targets that were taken out of a shared store since it was opened, and none of nodes that are away, and opens those that
    /// were added. Does nothing if it was called a moment ago.
    pub fn heed_nodes(&self, catalog: &Catalog) -> Result<()> {
        // First, since each read comes here. The store of one machine takes no lock.
        if !catalog.is_shared() {
            return Ok(());
        }
        // Another thread that holds the lock does the same.
        let Some(heeded) = self.heeded.try_lock() else { return Ok(()) };
        if heeded.at.is_some_and(|at| at.elapsed() < NODES_FRESH_TIME) {
            return Ok(());
        }
        match self.catalog.upgrade() {
            Some(catalog) => self.update_from(&catalog, heeded),
            None => Ok(()),
        }
    }

    fn update_from(&self, catalog: &Arc<Catalog>, mut heeded: MutexGuard<'_, Heeded>) -> Result<()> {
        let there: HashSet<String> = catalog.members()?.into_iter().map(|(_, member)| member.node).collect();
        if let Some(shared) = SharedConfig::read(catalog)?.filter(|shared| shared.generation != heeded.generation) {
            let nodes = KnownNodes { own: self.own.clone(), there: Some(there.clone()) };
            self.grow(&shared.parse()?, catalog, &nodes)?;
            heeded.generation = shared.generation;
        }
        for device in &self.devices {
            // This machine's node may be there without a lease.
            let node = device.node.as_ref().filter(|_| !device.is_near);
            device.is_node_away.store(node.is_some_and(|node| !there.contains(node)), Ordering::Relaxed); // see the fields
            device.is_retired.store(catalog.is_retired(device.id)?, Ordering::Relaxed);
        }
        heeded.at = Some(Instant::now());
        Ok(())
    }

    /// Opens the targets that a configuration has in addition. The caller holds the lock, so lists follow each other.
    fn grow(&self, config: &Config, catalog: &Arc<Catalog>, nodes: &KnownNodes) -> Result<()> {
        let newest = self.newest();
        let mut targets = config.tiers.iter().flat_map(|tier| &tier.targets).filter_map(|target| target.number);
        if targets.all(|number| newest.list.device(number).is_ok()) {
            return Ok(());
        }
        // New tiers come last, so that a target of an older list is on the same level in each newer one.
        let known = newest.list.tiers.iter().map(|tier| &tier.name);
        if !known.eq(config.tiers.iter().map(|tier| &tier.name).take(newest.list.tiers.len())) {
            tracing::warn!("the store has other tiers than when it was opened; open it again to use them");
            return Ok(());
        }
        let list = open_list(config, &self.dir, catalog, nodes, Some(&newest.list))?;
        // Nobody else sets it: see above.
        let _ = newest.next.set(Box::new(Version { list, next: OnceLock::new() }));
        Ok(())
    }
}

fn open_list(
    config: &Config,
    dir: &Path,
    catalog: &Arc<Catalog>,
    nodes: &KnownNodes,
    before: Option<&TierList>,
) -> Result<TierList> {
    let ids: Arc<dyn Ids> = catalog.clone();
    let learned = std::fs::read_to_string(dir.join(LEARNED_FILE)).unwrap_or_default();
    let profiled = terrace_predict::profiled(&learned);
    let store = catalog.log().store();
    TierList::open(config, &Opener { store, dir, ids: &ids, nodes, profiled }, before)
}
