//! The store's tiers and targets, and their state as this process sees it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::catalog::TargetId;
use crate::config::{Config, TierKind};
use crate::report::TierState;
use crate::tier::decorate::{Limits, Throttle};
use crate::tier::{Directory, Ids, Memory, Target};
use crate::{Error, Result};

/// A target that failed is tried again after this.
const SET_ASIDE: Duration = Duration::from_secs(2);
/// What a tier is taken to transfer, in bytes per second, where it is not throttled.
const VOLATILE_SPEED: f64 = 2.5e9;
const DISK_SPEED: f64 = 5e8;

/// A tier: a performance level.
pub struct Tier {
    /// Its name.
    pub name: String,
    /// Whether it outlives a reboot.
    pub persistent: bool,
    /// Bytes per second when reading, and when writing.
    pub speed: (f64, f64),
    /// The share of its capacity above which the mover evicts.
    pub high_watermark: f64,
}

/// A target of a tier.
pub struct Device {
    /// Its number.
    pub id: TargetId,
    /// Its tier's place in the order, fastest first.
    pub tier: usize,
    /// Replicas of one extent never share a domain.
    pub domain: String,
    /// Where it is, as configured.
    pub path: PathBuf,
    /// The target itself.
    pub target: Arc<dyn Target>,
    /// Whether small frames are written to it by the caller's own thread.
    pub quick: bool,
    trouble: Mutex<Option<(Instant, TierState)>>,
}

impl Device {
    /// Whether it can be used, as far as is known.
    pub fn state(&self) -> TierState {
        match &*self.trouble.lock() {
            Some((since, state)) if since.elapsed() < SET_ASIDE => *state,
            _ => TierState::Ok,
        }
    }

    /// Sets the target aside for a while where the error is one of the device, not of one frame.
    pub fn failed(&self, error: &io::Error) {
        let state = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => TierState::Full,
            io::ErrorKind::ReadOnlyFilesystem => TierState::ReadOnly,
            io::ErrorKind::NotFound | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => return,
            _ => TierState::Away,
        };
        *self.trouble.lock() = Some((Instant::now(), state));
    }

    /// Forgets the trouble, so that the next use tries it again.
    pub fn try_again(&self) {
        *self.trouble.lock() = None;
    }
}

/// All tiers of a store.
pub struct Tiers {
    /// Fastest first.
    pub tiers: Vec<Tier>,
    /// All their targets, in the tiers' order; a target's id is its index.
    pub devices: Vec<Device>,
}

impl Tiers {
    /// Opens every target of the configuration.
    pub fn open(config: &Config, store: u64, dir: &Path, ids: &Arc<dyn Ids>) -> Result<Tiers> {
        let mut tiers = Vec::new();
        let mut devices: Vec<Device> = Vec::new();
        for (level, tier) in config.tiers.iter().enumerate() {
            let throttle = tier.throttle.as_ref();
            let limit = throttle.map(|t| Limits {
                read: t.read.map(|r| r.0),
                write: t.write.map(|r| r.0),
                latency: t.latency.map_or(Duration::ZERO, |l| l.0),
            });
            let usual = if tier.persistent { DISK_SPEED } else { VOLATILE_SPEED };
            let speed = |limit: Option<u64>| limit.map_or(usual, |l| l as f64);
            tiers.push(Tier {
                name: tier.name.clone(),
                persistent: tier.persistent,
                speed: (speed(limit.as_ref().and_then(|l| l.read)), speed(limit.as_ref().and_then(|l| l.write))),
                high_watermark: tier.high_watermark,
            });
            for described in &tier.targets {
                let id = devices.len() as TargetId;
                let capacity = tier.capacity.map_or(u64::MAX, |c| c.0);
                let path = described.path.clone();
                let context = || format!("tier {:?}: opening target {}", tier.name, path.display());
                let mut target: Arc<dyn Target> = match tier.kind {
                    TierKind::Directory => Arc::new(
                        Directory::create(&path, store, id, capacity, ids.clone()).map_err(Error::io(context()))?,
                    ),
                    TierKind::Memory => Arc::new(Memory::new(store, capacity, ids.clone())),
                };
                if let Some(limits) = limit.clone() {
                    let state = dir.join(format!("throttle-{id}"));
                    target = Arc::new(Throttle::new(target, limits, &state).map_err(Error::io(context()))?);
                }
                devices.push(Device {
                    id,
                    tier: level,
                    domain: described.domain.clone().unwrap_or_else(|| format!("target-{id}")),
                    path,
                    target,
                    quick: limit.is_none(),
                    trouble: Mutex::default(),
                });
            }
        }
        Ok(Tiers { tiers, devices })
    }

    /// A target by its number.
    pub fn device(&self, id: TargetId) -> Result<&Device> {
        self.devices.get(usize::from(id)).ok_or_else(|| Error::Damaged {
            what: "a replica's record".into(),
            reason: format!("the store has no target {id}"),
        })
    }

    /// A target's tier.
    pub fn tier(&self, device: &Device) -> &Tier {
        &self.tiers[device.tier]
    }

    /// Where up to `want` more replicas go, beside those on `chosen`: the fastest tiers that are up, on distinct
    /// domains, and one of them all on a persistent tier unless `volatile`.
    pub fn place(
        &self,
        want: usize,
        chosen: impl Iterator<Item = TargetId>,
        volatile: bool,
        allowed: Option<&[String]>,
    ) -> Vec<TargetId> {
        let mut order: Vec<(&Device, u64)> = self
            .devices
            .iter()
            .filter(|d| d.state() == TierState::Ok)
            .filter(|d| allowed.is_none_or(|names| names.contains(&self.tier(d).name)))
            .map(|d| (d, if self.alone(d) { 0 } else { d.target.space().map_or(u64::MAX, |s| s.used) }))
            .collect();
        order.sort_by_key(|(d, used)| (d.tier, *used, d.id));
        let mut taken: Vec<&Device> = chosen.filter_map(|id| self.device(id).ok()).collect();
        let first = taken.len();
        for (device, _) in &order {
            if taken.len() < first + want && taken.iter().all(|t| t.domain != device.domain) {
                taken.push(device);
            }
        }
        if !volatile && !taken.iter().any(|d| self.tier(d).persistent) {
            let others = &taken[..taken.len().min(first + want - 1)];
            let persistent =
                order.iter().find(|(d, _)| self.tier(d).persistent && others.iter().all(|t| t.domain != d.domain));
            if let Some((device, _)) = persistent {
                taken.truncate(first + want - 1);
                taken.push(device);
            }
        }
        taken[first..].iter().map(|d| d.id).collect()
    }

    /// Whether it is its tier's only target, so that none needs to be compared with it.
    fn alone(&self, device: &Device) -> bool {
        self.devices.iter().filter(|d| d.tier == device.tier).count() == 1
    }

    /// Up to `want` targets that are set aside, on domains other than those of `chosen`.
    pub fn in_trouble(&self, chosen: impl Iterator<Item = TargetId>, want: usize) -> Vec<TargetId> {
        let mut taken: Vec<&Device> = chosen.filter_map(|id| self.device(id).ok()).collect();
        let first = taken.len();
        for device in self.devices.iter().filter(|d| d.state() != TierState::Ok) {
            if taken.len() < first + want && taken.iter().all(|t| t.domain != device.domain) {
                taken.push(device);
            }
        }
        taken[first..].iter().map(|d| d.id).collect()
    }

    /// How many replicas an extent can have here: there are no more domains.
    pub fn domains(&self) -> usize {
        let mut names: Vec<&str> = self.devices.iter().map(|d| d.domain.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    }

    /// The tiers' use and state in words, for errors.
    pub fn describe(&self) -> String {
        let words: Vec<String> = self
            .devices
            .iter()
            .map(|d| {
                let space = d.target.space().unwrap_or_default();
                let state = format!("{:?}", d.state()).to_lowercase();
                format!(
                    "{} ({}): {} of {} bytes used, {state}",
                    self.tier(d).name,
                    d.path.display(),
                    space.used,
                    space.capacity
                )
            })
            .collect();
        words.join("; ")
    }
}
