//! The nodes that share a store: their state, and their removal.

use std::collections::BTreeMap;

use serde_bytes::ByteBuf;
use terrace_catalog::{Change, Edit, Expect, Extent, TargetId, Task, frames};
use terrace_format::key;
use terrace_plan::snapshot::TierSet;

use super::Store;
use crate::config::SharedConfig;
use crate::home::{Cluster, refuse};
use crate::report::{Moved, NodeState, NodeTarget};
use crate::{Error, Result};

/// A node that works gets new replicas while it is emptied. Then it is emptied again, this many times at most.
const MAX_REMOVAL_ROUNDS: usize = 8;
/// The approximate number of edits in one commit.
const EDITS_PER_COMMIT: usize = 1024;

/// Bytes whose only replicas are on a node.
#[derive(Default)]
struct Only {
    objects: u64,
    bytes: u64,
    first: Option<Vec<u8>>,
    edits: Vec<Edit>,
}

impl Store {
    /// Returns the name of this machine's node. None if the store belongs to one machine.
    pub fn node(&self) -> Result<Option<String>> {
        match self.is_shared() {
            true => Ok(Cluster::read(&self.engine.dir)?.map(|cluster| cluster.node)),
            false => Ok(None),
        }
    }

    /// Returns a number that nothing else in the store has.
    pub fn new_number(&self) -> Result<u64> {
        Ok(self.engine.catalog.next_id()?)
    }

    /// Returns the nodes that share the store, and their targets, by name. There are none if the store belongs to one machine.
    pub fn nodes(&self) -> Result<Vec<NodeState>> {
        let catalog = &self.engine.catalog;
        let mut nodes: BTreeMap<String, NodeState> = BTreeMap::new();
        if !catalog.is_shared() {
            return Ok(Vec::new());
        }
        // The configuration of this process may be older than the removal of a node.
        let is_retired = |target| catalog.is_retired(target).unwrap_or(false);
        for device in &self.engine.tiers.devices {
            let Some(name) = device.node.as_ref().filter(|_| !is_retired(device.id)) else { continue };
            let node = nodes.entry(name.clone()).or_insert_with(|| NodeState::away(name));
            let (served, segments) = (catalog.served(device.id)?, catalog.segments(device.id)?);
            node.targets.push(NodeTarget {
                tier: self.engine.tiers.tier(device).name.clone(),
                path: device.path.display().to_string(),
                frames: segments.iter().map(|(_, live)| live.frames).sum(),
                bytes: segments.iter().map(|(_, live)| live.bytes).sum(),
                incarnation: served.map_or(0, |served| served.short),
                synced: served.map_or(0, |served| served.synced),
                is_doubtful: served.is_some_and(|served| served.doubtful),
            });
        }
        for (_, member) in catalog.members()? {
            let node = nodes.entry(member.node.clone()).or_insert_with(|| NodeState::away(&member.node));
            (node.is_there, node.reported) = (true, node.reported.max(member.reported));
        }
        Ok(nodes.into_values().collect())
    }

    /// Moves everything off the targets of a node. Extents keep their number of replicas as far as there are other nodes. What a node
    /// that does not answer holds is copied from other replicas.
    ///
    /// # Errors
    /// [`Error::Config`] if no other node has targets.
    pub fn drain_node(&self, name: &str) -> Result<Moved> {
        self.engine.mover.drain_node(name)
    }

    /// Takes a node out of the store for good: empties its targets, and removes them from the configuration of all nodes. Its files stay
    /// where they are.
    ///
    /// # Errors
    /// [`Error::OnlyReplicas`] if the node does not answer and holds bytes that are nowhere else, unless `force`: then they are lost.
    /// [`Error::NoSpace`] if other targets do not take what it holds.
    pub fn remove_node(&self, name: &str, force: bool) -> Result<Moved> {
        let mut all = Moved::default();
        for _ in 0..MAX_REMOVAL_ROUNDS {
            let moved = self.drain_node(name)?;
            all.add(&moved);
            let own = |device: &&crate::devices::Device| device.node.as_deref() == Some(name);
            let targets: Vec<TargetId> = self.engine.tiers.devices.iter().filter(own).map(|device| device.id).collect();
            self.give_up(name, &targets, force)?;
            match self.retire(&targets) {
                Err(Error::Conflict { .. }) if moved.kept > 0 => {
                    let tiers = format!("{}; free some, or add a target", self.engine.tiers.describe(TierSet::ALL));
                    return Err(Error::NoSpace { tiers });
                }
                Err(Error::Conflict { .. }) => {}
                done => return done.map(|()| all),
            }
        }
        let reason = format!("node {name} still gets new replicas; stop it, and then repeat this");
        Err(refuse(&self.engine.dir, &reason))
    }

    /// Gives up what is only on these targets, which do not answer.
    fn give_up(&self, name: &str, targets: &[TargetId], force: bool) -> Result<()> {
        let answers = |target: &TargetId| {
            self.engine.tiers.device(*target).is_ok_and(|device| device.target.check_again().is_ok())
        };
        let silent: Vec<TargetId> = targets.iter().copied().filter(|target| !answers(target)).collect();
        let mut only = Only::default();
        self.engine.catalog.each_object(b"", |key, object, extents| {
            only.add(key, object.id, extents, &silent);
            Ok::<_, Error>(true)
        })?;
        for (object, key) in self.engine.catalog.staged()? {
            only.add(&key, object, &self.engine.catalog.staged_extents(object)?, &silent);
        }
        let Only { objects, bytes, first: Some(first), edits } = only else { return Ok(()) };
        if !force {
            return Err(Error::OnlyReplicas { node: name.to_owned(), objects, bytes, first: key::show(&first) });
        }
        tracing::warn!(node = name, objects, bytes, "gave up the only replicas of these objects");
        for edits in edits.chunks(EDITS_PER_COMMIT) {
            self.engine.catalog.commit(Change { expect: Vec::new(), edits: edits.to_vec() })?;
        }
        Ok(())
    }

    /// Takes unused targets out of the store and its configuration.
    fn retire(&self, targets: &[TargetId]) -> Result<()> {
        let shared = SharedConfig::read(&self.engine.catalog)?
            .ok_or_else(|| refuse(&self.engine.dir, "the shared log has no configuration"))?;
        let mut config = shared.parse()?;
        for tier in &mut config.tiers {
            tier.targets.retain(|target| target.number.is_none_or(|number| !targets.contains(&number)));
        }
        if let Some(empty) = config.tiers.iter().find(|tier| tier.targets.is_empty()) {
            return Err(Error::Config(format!("tier {:?} would have no target left", empty.name)));
        }
        let expect = targets.iter().map(|target| Expect::Unused(*target)).collect();
        let edits = targets.iter().map(|target| Edit::Retire { target: *target }).collect();
        shared.replace(&self.engine.catalog, &config, Change { expect, edits })
    }
}

impl Only {
    /// Adds the extents of an object that have replicas on these targets only. What is pending there is not pending any more.
    fn add(&mut self, key: &[u8], object: u64, extents: &[Extent], targets: &[TargetId]) {
        let mut is_counted = false;
        let is_only = |extent: &&Extent| {
            !extent.replicas.is_empty() && extent.replicas.iter().all(|replica| targets.contains(&replica.target))
        };
        for extent in frames(extents).filter(is_only) {
            self.bytes += u64::from(extent.length);
            self.objects += u64::from(!std::mem::replace(&mut is_counted, true));
            self.first.get_or_insert_with(|| key.to_vec());
            for replica in &extent.replicas {
                let task = Task { target: replica.target, ..extent.task(object, 0) };
                // A replica that is to be made again may be the last one to go. It cannot be made, so it is not pending for long.
                let key = ByteBuf::from(key);
                self.edits.push(Edit::Lost { task, key, place: replica.place, owed: Some(task.target) });
                self.edits.push(Edit::Forgive { task });
            }
            for target in targets {
                self.edits.push(Edit::Forgive { task: extent.task(object, *target) });
            }
        }
    }
}
