//! [`SharedNode`]: this machine's node of a store that several nodes share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rustix_futex_sync::Mutex;
use terrace_catalog::log::Log;
use terrace_catalog::{Catalog, TargetId};
use terrace_member::{Client, ClientServer, Member, MemberError, OwnTarget, SnapshotFolder};
use terrace_order::{LogIdentity, LostLog, OfferedSnapshot, Order, OrderError};
use terrace_system::Locked;
use terrace_tier::removal::remove_file;
use terrace_tier::{Ids, TargetOwner, made_note};

use super::Store;
use super::change::position;
use super::shared_config::WrittenConfig;
use crate::config::{Config, publish};
use crate::devices::targets::probe;
use crate::home::{self, Cluster, Duty, StoreLock, boot, check_identity, known_log, lock_store};
use crate::mover::GRACE_PERIOD;
use crate::{Error, Result};

/// How long a call waits for the shared log.
pub(super) const LOG_PATIENCE: Duration = Duration::from_secs(30);
/// The lock of the process that is this machine's node.
const SHARED_NODE_LOCK: &str = "shared-node";
/// This machine's node of a store that several nodes share: it follows the log into the catalog, and serves the processes of the machine.
pub struct SharedNode {
    dir: PathBuf,
    cluster: Cluster,
    member: Arc<Member>,
    catalog: Arc<Catalog>,
    /// Ends before the member.
    server: ClientServer,
    /// Whether the targets of this node may lack frames that a loss of power has taken, as the boot mark says, too.
    is_doubtful: AtomicBool,
    /// The number of targets that this node has said to serve.
    served: AtomicUsize,
    /// The configuration in the store's directory. Held while it is written.
    config: Mutex<WrittenConfig>,
    /// The last commit that this node has, as far as the others may rely on it, and the objects that its processes read, as the log was last told of them.
    reported: Mutex<(u64, Vec<(u64, u64)>)>,
    /// Places that later commits have freed are not given back.
    last_given_back: Arc<AtomicU64>,
    /// Held as long as the node runs: that of the only node, and that of the store.
    _locks: (Locked, StoreLock),
}

impl SharedNode {
    /// Joins the log of the store in `dir`, and waits until the catalog has all of it. If the log has no configuration yet, it gets
    /// `config`.
    ///
    /// # Errors
    /// If another node runs on this directory, or the log does not answer.
    pub fn start(dir: &Path, order: Box<dyn Order + Send + Sync>, config: Option<&Config>) -> Result<SharedNode> {
        let id = check_identity(dir)?;
        let cluster = Cluster::read(dir)?.ok_or_else(|| home::refuse(dir, "no other node shares this store"))?;
        let only = home::Locks::new(dir).at_once(SHARED_NODE_LOCK)?;
        let only = only.ok_or_else(|| home::refuse(dir, "another node runs on this directory; end it first"))?;
        let lock = lock_store(dir)?;
        let mark = boot::read_mark(dir)?;
        if !mark.is_trusted() {
            boot::alone_unless(dir, &lock, || Ok(false))?;
            // The log has all of it.
            boot::forget_catalog(dir)?;
        }
        known_log::follow_identity(dir, order.identity())?;
        let is_doubtful = !mark.is_of_this_boot();
        if is_doubtful {
            boot::mark_doubtful(dir)?
        } else {
            boot::mark_in_use(dir)?
        }
        boot::shared(dir, &lock)?;
        let catalog = Arc::new(Catalog::open(&dir.join("catalog"), Log::open(&dir.join("log"), id)?)?);
        let folder = cluster.snapshots.clone().unwrap_or_else(|| dir.join("snapshots"));
        let snapshots = SnapshotFolder::new(&folder).map_err(Error::io(format!("making {}", folder.display())))?;
        let member = Member::start(order, catalog.clone(), &cluster.node, snapshots).map_err(of_log)?;
        let member = Arc::new(member);
        let server = ClientServer::start(member.clone(), dir).map_err(Error::io("making the node's socket"))?;
        catalog.share(Box::new(Client::connect(dir, id, LOG_PATIENCE).map_err(of_log)?));
        catalog.catch_up()?;
        if let Some(config) = config {
            let config = super::numbered(config)?;
            Cluster::check(&config)?;
            make_common_targets(dir, id, &config, member.numbers())?;
            publish(&catalog, &config)?;
        }
        let node = SharedNode {
            dir: dir.to_owned(),
            cluster,
            member,
            catalog,
            server,
            is_doubtful: is_doubtful.into(),
            served: AtomicUsize::new(0),
            config: Mutex::default(),
            reported: Mutex::default(),
            last_given_back: Arc::new(AtomicU64::new(u64::MAX)),
            _locks: (only, lock),
        };
        node.config.lock().keep(dir, &node.catalog)?;
        Ok(node)
    }

    /// Makes the shared log again in the place of one that is lost, from the catalog of the node in `dir`, which does not run. `make`
    /// writes the log that begins with the snapshot. Returns the number of records of the old log that the new one has.
    ///
    /// # Errors
    /// If the catalog may lack records since the machine went down, or other nodes cannot see the snapshot.
    pub fn recover(
        dir: &Path,
        make: impl FnOnce(LogIdentity, &OfferedSnapshot) -> Result<(), OrderError>,
    ) -> Result<u64> {
        let id = check_identity(dir)?;
        let cluster = Cluster::read(dir)?.ok_or_else(|| home::refuse(dir, "no other node shares this store"))?;
        let only = home::Locks::new(dir).at_once(SHARED_NODE_LOCK)?;
        let _only = only.ok_or_else(|| home::refuse(dir, "its node runs; end the nodes of all machines first"))?;
        let _lock = lock_store(dir)?;
        if !boot::read_mark(dir)?.is_trusted() {
            let reason = "its catalog may lack records, since the machine has gone down; do this on another node";
            return Err(home::refuse(dir, reason));
        }
        let folder = cluster.snapshots.as_ref().ok_or_else(|| {
            home::refuse(
                dir,
                "the other nodes need a folder that all see; write `snapshots = \"FOLDER\"` into cluster.toml",
            )
        })?;
        let before = known_log::read(dir)?.ok_or_else(|| home::refuse(dir, "it has never followed the shared log"))?;
        let catalog = Catalog::open(&dir.join("catalog"), Log::open(&dir.join("log"), id)?)?;
        let slot = catalog.followed()?.slot;
        let number = boot::random_id().map_err(Error::io("reading /dev/urandom"))?;
        let identity = LogIdentity { number, before: Some(LostLog { number: before, slot }) };
        let folder = SnapshotFolder::new(folder).map_err(Error::io(format!("making {}", folder.display())))?;
        let snapshot = folder.write_for_new_log(&catalog, &cluster.node, number).map_err(of_log)?;
        make(identity, &snapshot).map_err(|e| of_log(e.into()))?;
        Ok(slot)
    }

    /// Lets the node in `dir`, which does not run, make empty targets at its next start in place of its targets of a tier, whose content is
    /// lost for good. Then it lists their replicas as pending. Returns the number of these targets.
    ///
    /// # Errors
    /// [`Error::Config`] if there is no such tier, or this node has no target of it.
    pub fn renew_targets(dir: &Path, tier: &str) -> Result<usize> {
        check_identity(dir)?;
        let cluster = Cluster::read(dir)?.ok_or_else(|| home::refuse(dir, "no other node shares this store"))?;
        let only = home::Locks::new(dir).at_once(SHARED_NODE_LOCK)?;
        let _only = only.ok_or_else(|| home::refuse(dir, "its node runs; end it first, and start it afterwards"))?;
        let lock = lock_store(dir)?;
        boot::alone(dir, &lock)?;
        let config = home::read_config(dir)?;
        let targets = &config.tiers[position(&config, tier)?].targets;
        let own: Vec<_> = targets.iter().filter(|target| target.node.as_ref() == Some(&cluster.node)).collect();
        if own.is_empty() {
            return Err(Error::Config(format!(
                "tier {tier:?} has no target of this machine's node, {:?}; run this on the machine that had the lost one",
                cluster.node
            )));
        }
        for number in own.iter().filter_map(|target| target.number) {
            remove_file(&made_note(dir, number)).map_err(Error::io(format!("removing the note of target {number}")))?;
        }
        Ok(own.len())
    }

    /// Numbers for the segments of this node's targets.
    pub fn numbers(&self) -> Arc<dyn Ids> {
        self.member.numbers()
    }

    /// The last commit that may give back places, which is changed through this: a saved catalog names what later ones free.
    pub fn last_given_back(&self) -> Arc<AtomicU64> {
        self.last_given_back.clone()
    }

    /// The catalog, for the opener of the store in this process.
    pub(super) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.clone()
    }

    /// Says that this node serves its targets. Call it once they can be reached. [`SharedNode::tend`] does it for those that are added later.
    ///
    /// # Errors
    /// If the log is not followed any more.
    pub fn serve(&self, store: &Store) -> Result<()> {
        let own = self.own(store).map(|target| OwnTarget {
            target,
            persistent: store
                .engine
                .tiers
                .device(target)
                .is_ok_and(|device| store.engine.tiers.tier(device).persistent),
            doubtful: self.is_doubtful.load(Ordering::Relaxed), // set before there are threads
        });
        let own: Vec<OwnTarget> = own.collect();
        if own.is_empty() {
            tracing::warn!(
                node = self.cluster.node,
                "the configuration has no target of this node, so it only uses the store; `terrace node add` adds one"
            );
        }
        // Only one thread calls this at a time.
        self.served.store(own.len(), Ordering::Relaxed);
        self.member.serve(own).map_err(of_log)
    }

    /// The targets of this node.
    fn own<'a>(&'a self, store: &'a Store) -> impl Iterator<Item = TargetId> + 'a {
        let is_own = |device: &&crate::devices::Device| device.node.as_ref() == Some(&self.cluster.node);
        store.engine.tiers.devices.iter().filter(is_own).map(|device| device.id)
    }

    /// Does what a node does about once a second: tells the log how far it is, and what its processes read; syncs its targets; and keeps
    /// the log in order, if it is the keeper. Each node makes the pending replicas of its own targets, evicts from them, and gives their space
    /// back; the keeper also does what is done once for all.
    ///
    /// # Errors
    /// If the log does not answer, or is not followed any more.
    pub fn tend(&self, store: &Store) -> Result<()> {
        let is_keeper = self.member.keep(GRACE_PERIOD).map_err(of_log)?;
        store.engine.locks.set_duty(if is_keeper { Duty::All } else { Duty::Own });
        store.engine.leases.drop_dead(&self.catalog)?;
        // Relaxed: a limit that is seen late only holds back more.
        let last = self.catalog.tail()?.sequence.min(self.last_given_back.load(Ordering::Relaxed));
        let now = (last, self.catalog.leased()?);
        let mut reported = self.reported.lock();
        if *reported != now {
            self.member.report_until(now.0, now.1.clone()).map_err(of_log)?;
            *reported = now;
        }
        drop(reported);
        self.config.lock().keep(&self.dir, &self.catalog)?;
        if self.own(store).count() > self.served.load(Ordering::Relaxed) {
            self.serve(store)?;
        }
        let is_new = |target| store.engine.tiers.device(target).is_ok_and(|device| device.target.is_new());
        if self.own(store).any(is_new) {
            // Before the rest counts as synced.
            store.check_targets()?;
        }
        let mut is_settled = true;
        for target in self.own(store) {
            is_settled &= self.sync(store, target)?;
        }
        // One thread tends the node.
        if is_settled && self.is_doubtful.swap(false, Ordering::Relaxed) {
            boot::mark_in_use(&self.dir)?;
        }
        // Their own nodes have compared them. This process acknowledges nothing, so it may go on with what is there now.
        for device in store.engine.tiers.devices.iter().filter(|device| !store.engine.tiers.is_tended(device)) {
            if device.target.is_new() {
                device.target.forget_new().map_err(Error::io(format!("looking at {}", device.path.display())))?;
            }
        }
        Ok(())
    }

    /// Syncs a target of this node, as far as commits have named frames there since the last time. Returns whether the log knows which of
    /// its frames a loss of power has taken.
    fn sync(&self, store: &Store, target: TargetId) -> Result<bool> {
        let (device, sequence) = (store.engine.tiers.device(target)?, self.catalog.tail()?.sequence);
        let incarnation = self.member.incarnation().map(|(incarnation, _)| incarnation);
        let served = self.catalog.served(target)?.filter(|served| Some(served.incarnation) == incarnation);
        // Before the log has this incarnation, changes may still name frames of the one before. Frames of an emptied target must be noted
        // as gone before the rest counts as synced.
        let Some(served) = served.filter(|_| !device.target.is_new()) else { return Ok(false) };
        if served.synced >= sequence && !served.doubtful {
            return Ok(true);
        }
        if served.doubtful {
            store.engine.care.owe_unsynced(device, served.synced)?;
        }
        match if served.persistent { store.engine.journal.sync_target(device, served.synced) } else { Ok(()) } {
            Ok(()) => self.member.note_synced(target, sequence).map_err(of_log)?,
            Err(error) => device.failed(&error),
        }
        Ok(!served.doubtful)
    }

    /// Returns an error if this node follows the log no more. It must be started again.
    ///
    /// # Errors
    /// [`Error::SharedLog`] with the reason.
    pub fn check(&self) -> Result<()> {
        self.member.check().map_err(of_log)
    }

    /// Leaves a snapshot for nodes that are behind, after which the keeper may trim the log.
    ///
    /// # Errors
    /// If the folder takes none, or the log does not answer.
    pub fn offer_snapshot(&self) -> Result<()> {
        match self.cluster.snapshots {
            Some(_) => self.member.offer_snapshot().map_err(of_log),
            None => Ok(()),
        }
    }

    /// Ends the node. The catalog is kept for its next start.
    ///
    /// # Errors
    /// If the catalog cannot be made durable; the next start then makes it from the log.
    pub fn end(self) -> Result<()> {
        let SharedNode { dir, server, member, catalog, is_doubtful, .. } = self;
        drop(server);
        drop(member);
        catalog.force_sync()?;
        // Otherwise the next start looks for lost frames.
        if is_doubtful.into_inner() { Ok(()) } else { boot::mark_clean(&dir) }
    }
}

/// Makes the targets that all nodes reach. The nodes then take one without its marker for one that is away.
fn make_common_targets(dir: &Path, store: u64, config: &Config, ids: Arc<dyn Ids>) -> Result<()> {
    let common = || config.tiers.iter().filter(|tier| Cluster::is_common(tier));
    probe(common())?;
    for (tier, target) in common().flat_map(|tier| tier.targets.iter().map(move |target| (tier, target))) {
        let number = target.number.unwrap_or_default();
        let owner = TargetOwner { store, number, dir: dir.to_owned(), ids: ids.clone() };
        let opened = tier.kind.open(&tier.settings(target), &owner);
        let done = opened.and_then(|opened| opened.trouble.map_or(Ok(()), Err));
        done.map_err(Error::io(format!("making target {}", tier.place_name(target).display())))?;
    }
    Ok(())
}

pub(super) fn of_log(error: MemberError) -> Error {
    Error::SharedLog { reason: error.to_string() }
}
