//! The store's tiers and targets, and their state as this process sees it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::monitor::Speed;
use crate::catalog::TargetId;
use crate::config::{Config, TierKind};
use crate::frame::Frame;
use crate::report::TierState;
use crate::tier::decorate::{Limits, Throttle};
use crate::tier::{Directory, Ids, Memory, Place, Space, Target};
use crate::{Error, Result};

/// A target that failed is tried again after this.
const SET_ASIDE: Duration = Duration::from_secs(2);
/// What a device is taken to transfer, in bytes per second, before it was used and where it is not throttled.
const MEMORY_SPEED: f64 = 2.5e9;
const DISK_SPEED: f64 = 5e8;

/// A tier: a performance level.
pub struct Tier {
    /// Its name.
    pub name: String,
    /// Whether it outlives a reboot.
    pub persistent: bool,
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
    /// Bytes in use, about: as found when last looked, and what this process appended since.
    filled: AtomicU64,
    /// How quick it is to read from.
    pub reading: Speed,
    /// How quick it is to write to.
    pub writing: Speed,
    /// Whether small frames are written to it by the caller's own thread.
    pub quick: bool,
    trouble: Mutex<Option<(Instant, TierState)>>,
}

impl Device {
    /// Appends a frame, and notes how long it took.
    pub fn append(&self, frame: &Frame<'_>) -> io::Result<Place> {
        let start = Instant::now();
        let place = self.target.append(frame)?;
        self.writing.note(place.length as usize, start.elapsed());
        self.filled.fetch_add(place.length.into(), Ordering::Relaxed);
        Ok(place)
    }

    /// What is allocated, and the limit.
    pub fn space(&self) -> io::Result<Space> {
        let space = self.target.space()?;
        self.filled.store(space.used, Ordering::Relaxed);
        Ok(space)
    }

    /// Reads from a frame, and notes how long it took.
    pub fn read(&self, place: Place, skip: u32, out: &mut [u8]) -> io::Result<()> {
        let start = Instant::now();
        self.target.read(place, skip, out)?;
        self.reading.note(out.len(), start.elapsed());
        Ok(())
    }

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
        if self.state() == TierState::Ok {
            tracing::warn!(target = %self.path.display(), %error, "set aside");
        }
        *self.trouble.lock() = Some((Instant::now(), state));
    }

    /// Forgets the trouble, so that the next use tries it again.
    pub fn try_again(&self) {
        *self.trouble.lock() = None;
    }
}

/// Whether a path lies in memory. What is no directory is: the targets of tests.
fn in_memory(path: &Path) -> bool {
    const TMPFS: u32 = 0x0102_1994;
    rustix::fs::statfs(path).map_or(true, |s| s.f_type as u32 == TMPFS)
}

/// All tiers of a store.
pub struct Tiers {
    /// Fastest first.
    pub tiers: Vec<Tier>,
    /// All their targets, in the tiers' order.
    pub devices: Vec<Device>,
    /// Where in `devices` the target of each number is.
    index: Vec<Option<usize>>,
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
            let latency = limit.as_ref().map_or(Duration::ZERO, |l| l.latency);
            tiers.push(Tier {
                name: tier.name.clone(),
                persistent: tier.persistent,
                high_watermark: tier.high_watermark,
            });
            for described in &tier.targets {
                let id = described.number.unwrap_or(devices.len() as TargetId);
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
                let usual = if in_memory(&path) { MEMORY_SPEED } else { DISK_SPEED };
                let speed = |set: Option<u64>| Speed::expected(set.map_or(usual, |rate| rate as f64), latency);
                devices.push(Device {
                    id,
                    tier: level,
                    domain: described.domain.clone().unwrap_or_else(|| format!("target-{id}")),
                    path,
                    filled: AtomicU64::new(target.space().map_or(0, |s| s.used)),
                    target,
                    reading: speed(limit.as_ref().and_then(|l| l.read)),
                    writing: speed(limit.as_ref().and_then(|l| l.write)),
                    quick: limit.is_none(),
                    trouble: Mutex::default(),
                });
            }
        }
        let mut index = vec![None; devices.iter().map(|d| usize::from(d.id) + 1).max().unwrap_or(0)];
        for (at, device) in devices.iter().enumerate() {
            index[usize::from(device.id)] = Some(at);
        }
        Ok(Tiers { tiers, devices, index })
    }

    /// A target by its number.
    pub fn device(&self, id: TargetId) -> Result<&Device> {
        let at = self.index.get(usize::from(id)).copied().flatten();
        at.and_then(|at| self.devices.get(at)).ok_or_else(|| Error::Damaged {
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
            .map(|d| (d, d.filled.load(Ordering::Relaxed)))
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
                let space = d.space().unwrap_or_default();
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
