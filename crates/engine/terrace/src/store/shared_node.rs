//! [`SharedNode`]: this machine's node of a store that several nodes share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix_futex_sync::Mutex;
use terrace_catalog::log::Log;
use terrace_catalog::{Attributes, Catalog, Change, Edit, Expect, TargetId};
use terrace_member::{Client, ClientServer, Member, MemberError, OwnTarget, SnapshotFolder};
use terrace_order::Order;
use terrace_system::Locked;
use terrace_tier::Ids;

use super::Store;
use crate::config::Config;
use crate::home::{self, Cluster, StoreLock, boot, check_identity, lock_store};
use crate::mover::GRACE_PERIOD;
use crate::{Error, Result};

/// How long a call waits for the shared log.
pub(super) const LOG_PATIENCE: Duration = Duration::from_secs(30);
/// The lock of the process that is this machine's node.
const SHARED_NODE_LOCK: &str = "shared-node";
/// The object that holds the store's configuration.
const CONFIG_KEY: &[u8] = b".terrace/cluster/config";
/// Its attribute with the text.
const CONFIG_ATTRIBUTE: &str = "toml";

/// This machine's node of a store that several nodes share: it follows the log into the catalog, and serves the processes of the machine.
pub struct SharedNode {
    dir: PathBuf,
    cluster: Cluster,
    member: Arc<Member>,
    catalog: Arc<Catalog>,
    /// Ends before the member.
    server: ClientServer,
    /// Whether the catalog may lack frames that a loss of power has taken.
    was_cut_off: bool,
    /// The last commit of this node and the objects that its processes read, as the log was last told of them.
    reported: Mutex<(u64, Vec<(u64, u64)>)>,
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
        boot::mark_in_use(dir)?;
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
            publish(&catalog, config)?;
        }
        let node = SharedNode {
            dir: dir.to_owned(),
            cluster,
            member,
            catalog,
            server,
            was_cut_off: mark.was_cut_off(),
            reported: Mutex::default(),
            _locks: (only, lock),
        };
        node.write_config()?;
        Ok(node)
    }

    /// Numbers for the segments of this node's targets.
    pub fn numbers(&self) -> Arc<dyn Ids> {
        self.member.numbers()
    }

    /// The catalog, for the opener of the store in this process.
    pub(super) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.clone()
    }

    /// Says that this node serves its targets. Call it once they can be reached.
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
            doubtful: self.was_cut_off,
        });
        self.member.serve(own.collect()).map_err(of_log)
    }

    /// The targets of this node.
    fn own<'a>(&'a self, store: &'a Store) -> impl Iterator<Item = TargetId> + 'a {
        let is_own = |device: &&crate::devices::Device| device.node.as_ref() == Some(&self.cluster.node);
        store.engine.tiers.devices.iter().filter(is_own).map(|device| device.id)
    }

    /// Does what a node does about once a second: tells the log how far it is, and what its processes read; syncs its targets; and keeps
    /// the log in order, if it is the keeper. Only the keeper's process makes pending replicas, evicts, and gives space back.
    ///
    /// # Errors
    /// If the log does not answer, or is not followed any more.
    pub fn tend(&self, store: &Store) -> Result<()> {
        let is_keeper = self.member.keep(GRACE_PERIOD).map_err(of_log)?;
        store.engine.locks.let_move(is_keeper);
        store.engine.leases.drop_dead(&self.catalog)?;
        let now = (self.catalog.tail()?.sequence, self.catalog.leased()?);
        let mut reported = self.reported.lock();
        if *reported != now {
            self.member.report(now.1.clone()).map_err(of_log)?;
            *reported = now;
        }
        drop(reported);
        for target in self.own(store) {
            self.sync(store, target)?;
        }
        // Their own nodes have compared them. This process acknowledges nothing, so it may go on with what is there now.
        for device in store.engine.tiers.devices.iter().filter(|device| !store.engine.tiers.is_tended(device)) {
            if device.target.is_new() {
                device.target.forget_new().map_err(Error::io(format!("looking at {}", device.path.display())))?;
            }
        }
        Ok(())
    }

    /// Syncs a target of this node, as far as commits have named frames there since the last time.
    fn sync(&self, store: &Store, target: TargetId) -> Result<()> {
        let (device, sequence) = (store.engine.tiers.device(target)?, self.catalog.tail()?.sequence);
        let Some(served) = self.catalog.served(target)?.filter(|served| served.persistent) else { return Ok(()) };
        // Frames that are gone must be noted before the rest counts as synced.
        if served.synced >= sequence && !served.doubtful || device.target.is_new() {
            return Ok(());
        }
        match store.engine.journal.sync_target(device, served.synced) {
            Ok(()) => self.member.note_synced(target, sequence).map_err(of_log),
            Err(error) => {
                device.failed(&error);
                Ok(())
            }
        }
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
        let SharedNode { dir, server, member, catalog, .. } = self;
        drop(server);
        drop(member);
        catalog.force_sync()?;
        boot::mark_clean(&dir)
    }

    /// Writes the configuration that the log has into the store's directory.
    fn write_config(&self) -> Result<()> {
        let object = self.catalog.object(CONFIG_KEY)?;
        let text = object.as_ref().and_then(|object| object.attributes.user.get(CONFIG_ATTRIBUTE));
        let text = text.ok_or_else(|| {
            home::refuse(&self.dir, "the shared log has no configuration; run `terrace init --cluster` again")
        })?;
        home::write_file(&self.dir.join("terrace.toml"), text.as_bytes())
    }
}

/// Puts the configuration into the log, for the nodes that join later.
fn publish(catalog: &Catalog, config: &Config) -> Result<()> {
    let config = super::numbered(config)?;
    Cluster::check(&config)?;
    let user = [(CONFIG_ATTRIBUTE.to_owned(), config.to_toml())].into();
    let attributes = Attributes { user, ..Attributes::default() };
    let object = catalog.next_id()?;
    let edit = Edit::Put {
        key: CONFIG_KEY.to_vec(),
        object,
        length: 0,
        want: 1,
        attributes,
        staged: false,
        extents: Vec::new(),
    };
    catalog.commit(Change { expect: vec![Expect::Absent(CONFIG_KEY.to_vec())], edits: vec![edit] })?;
    Ok(())
}

pub(super) fn of_log(error: MemberError) -> Error {
    Error::SharedLog { reason: error.to_string() }
}
