//! Opening the targets that a configuration names.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::Duration;

use terrace_catalog::TargetId;
use terrace_tier::decorate::{Deadline, Limits, Throttle};
use terrace_tier::{Ids, OpenedTarget, Space, TargetOwner};

use super::Device;
use super::monitor::Speed;
use super::trouble::Trouble;
use crate::config::{TargetConfig, TierConfig};
use crate::{Error, Result};

/// The assumed speed of an unused device without a throttle, in bytes per second.
const MEMORY_BYTES_PER_SECOND: f64 = 2.5e9;
const DISK_BYTES_PER_SECOND: f64 = 5e8;
const SERVICE_BYTES_PER_SECOND: f64 = 1e8;

/// The values that all targets of a store share.
pub struct Opener<'a> {
    /// The store's id.
    pub store: u64,
    /// The store's directory.
    pub dir: &'a Path,
    /// The source of numbers for new segments.
    pub ids: &'a Arc<dyn Ids>,
    /// The nodes that share the store.
    pub nodes: &'a KnownNodes,
    /// The measured speed of tiers, by name, for those that were profiled.
    pub profiled: BTreeMap<String, terrace_predict::ProfiledTier>,
}

/// The nodes that share a store, as far as they are known when it is opened.
#[derive(Default)]
pub struct KnownNodes {
    /// The node of this machine.
    pub own: Option<String>,
    /// Those that follow the log. None if the store belongs to one machine.
    pub there: Option<HashSet<String>>,
}

impl KnownNodes {
    fn is_away(&self, node: Option<&str>) -> bool {
        self.there.as_ref().zip(node).is_some_and(|(there, node)| !there.contains(node))
    }
}

impl Opener<'_> {
    /// Opens one target of the tier with index `level`, in the failure domain with number `domain`.
    pub fn open_device(
        &self,
        tier: &TierConfig,
        level: usize,
        described: &TargetConfig,
        id: TargetId,
        domain: u32,
    ) -> Result<Device> {
        let path = tier.place_name(described);
        let context = || format!("tier {:?}: opening target {}", tier.name, path.display());
        let node = tier.node_of(described);
        let is_near = node.is_some() && node == self.nodes.own;
        let is_node_away = !is_near && self.nodes.is_away(node.as_deref());
        let (kind, settings) = (&tier.kind, tier.settings(described));
        let owner = TargetOwner { store: self.store, number: id, dir: self.dir.to_owned(), ids: self.ids.clone() };
        if self.nodes.there.is_some() && !is_near {
            // Only its own node makes a target. One without its marker is away, perhaps because its disk is not mounted there.
            let noted = TargetOwner::note_made_elsewhere(self.dir, id);
            noted.map_err(Error::io(format!("writing into {}", self.dir.display())))?;
        }
        let opened = if is_node_away { kind.open_unseen(&settings, &owner) } else { kind.open(&settings, &owner) };
        let OpenedTarget { mut target, trouble } = opened.map_err(Error::io(context()))?;
        let capabilities = tier.kind.capabilities();
        if let Some(throttle) = &tier.throttle {
            let limits = Limits {
                read: throttle.read.map(|r| r.0),
                write: throttle.write.map(|r| r.0),
                latency: throttle.latency.map_or(Duration::ZERO, |l| l.0),
            };
            let state = self.dir.join(format!("throttle-{id}"));
            target = Arc::new(Throttle::new(target, limits, &state).map_err(Error::io(context()))?);
        }
        if let Some(limit) = tier.timeout.filter(|_| !capabilities.ends_hung_calls) {
            target = Arc::new(Deadline::new(target, limit.0));
        }
        let is_in_memory = capabilities.ends_with_process || capabilities.local_path && is_in_memory(&path);
        let (reading, writing) = self.expect_speeds(tier, is_in_memory);
        let assumed = Space::within(0, tier.capacity.map_or(u64::MAX, |c| c.0));
        // A target that hangs would take its time again.
        let space = if is_node_away || trouble.is_some() { assumed } else { target.space().unwrap_or(assumed) };
        let device = Device {
            id,
            tier: level,
            domain,
            is_near,
            node,
            path,
            capacity: AtomicU64::new(space.capacity),
            busy: AtomicU32::new(0),
            target,
            reading,
            writing,
            is_local: tier.throttle.is_none() && tier.timeout.is_none() && !capabilities.remote,
            is_in_memory: is_in_memory && !tier.persistent,
            appended: AtomicU64::new(0),
            capabilities,
            trouble: Trouble::default(),
            is_retired: AtomicBool::new(false),
            is_node_away: AtomicBool::new(is_node_away),
        };
        if let Some(e) = trouble {
            device.failed(&e);
        }
        Ok(device)
    }

    /// Returns the speeds of reading and writing that are expected of a target until it is measured: those of the profile, the limits of
    /// the throttle, or what is usual.
    fn expect_speeds(&self, tier: &TierConfig, is_in_memory: bool) -> (Speed, Speed) {
        let is_remote = tier.kind.capabilities().remote;
        let usual = match is_in_memory {
            _ if is_remote => SERVICE_BYTES_PER_SECOND,
            true => MEMORY_BYTES_PER_SECOND,
            false => DISK_BYTES_PER_SECOND,
        };
        let (throttle, profiled) = (tier.throttle.as_ref(), self.profiled.get(&tier.name));
        let limit = throttle.and_then(|throttle| throttle.latency).map_or(Duration::ZERO, |latency| latency.0);
        let latency = profiled.map_or(limit, |p| Duration::try_from_secs_f64(p.latency).unwrap_or(limit));
        let speed = |limit: Option<u64>, profiled: Option<f64>| {
            let speed = Speed::expected(profiled.unwrap_or(limit.map_or(usual, |rate| rate as f64)), latency);
            if is_remote { speed.over_link() } else { speed }
        };
        let read = throttle.and_then(|throttle| throttle.read).map(|rate| rate.0);
        let write = throttle.and_then(|throttle| throttle.write).map(|rate| rate.0);
        (speed(read, profiled.map(|p| p.read)), speed(write, profiled.map(|p| p.write)))
    }
}

/// Checks, before any target of new tiers is created, that each can be created and belongs to no store.
pub fn probe<'a>(tiers: impl Iterator<Item = &'a TierConfig>) -> Result<()> {
    for (tier, at) in tiers.flat_map(|tier| tier.targets.iter().map(move |at| (tier, at))) {
        let action = if tier.kind.capabilities().remote { "reaching" } else { "opening target" };
        let context = || format!("tier {:?}: {action} {}", tier.name, tier.place_name(at).display());
        tier.kind.probe(&tier.settings(at)).map_err(Error::io(context()))?;
    }
    Ok(())
}

/// Returns whether a path is on a file system in memory.
fn is_in_memory(path: &Path) -> bool {
    const TMPFS_MAGIC: u32 = 0x0102_1994;
    rustix::fs::statfs(path).is_ok_and(|s| s.f_type as u32 == TMPFS_MAGIC)
}
