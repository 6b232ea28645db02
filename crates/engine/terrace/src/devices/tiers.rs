//! A list of the store's tiers and targets, and their state as this process sees it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use terrace_catalog::TargetId;
use terrace_plan::snapshot::TierSet;

use super::device::Device;
use super::targets::Opener;
use crate::config::{Config, Layout};
use crate::report::TierState;
use crate::{Error, Result};

/// The file of the store's directory that holds the measurements of codecs and devices.
pub const LEARNED_FILE: &str = "predictor.json";

/// A tier: a performance level.
pub struct Tier {
    /// Its name.
    pub name: String,
    /// Whether it survives a reboot.
    pub persistent: bool,
    /// The share of its capacity above which the mover evicts.
    pub high_watermark: f64,
    /// Whether it holds objects as plain files, unless a rule says otherwise.
    pub plain: bool,
    /// The power of a target while it reads or writes, in watts.
    pub watts: f64,
}

/// All tiers of a store.
pub struct TierList {
    /// Fastest first.
    pub tiers: Vec<Tier>,
    /// All their targets, in the tiers' order.
    pub devices: Vec<Device>,
    /// The index in `devices` of the target with each number.
    index: Vec<Option<usize>>,
}

impl TierList {
    /// Opens every target of the configuration that is not in the list `before`, but asks no node for its targets that is away. Targets that
    /// the configuration has no more stay, and are not used.
    pub fn open(config: &Config, opener: &Opener<'_>, before: Option<&TierList>) -> Result<TierList> {
        let mut tiers = Vec::new();
        let mut devices: Vec<Device> = Vec::new();
        let mut domains = HashMap::new();
        for (level, tier) in config.tiers.iter().enumerate() {
            tiers.push(Tier {
                name: tier.name.clone(),
                persistent: tier.persistent,
                high_watermark: tier.high_watermark,
                watts: tier.watts,
                plain: tier.layout == Layout::Plain,
            });
            for described in &tier.targets {
                let id = described.number.unwrap_or(devices.len() as TargetId);
                let count = domains.len() as u32;
                let domain = *domains.entry(tier.domain_of(described, id)).or_insert(count);
                devices.push(match before.and_then(|before| before.device(id).ok()) {
                    Some(known) => known.again(domain),
                    None => opener.open_device(tier, level, described, id, domain)?,
                });
            }
        }
        let is_listed = |device: &Device| devices.iter().any(|other| other.id == device.id);
        let gone: Vec<&Device> =
            before.iter().flat_map(|before| &before.devices).filter(|device| !is_listed(device)).collect();
        for (domain, device) in (domains.len() as u32..).zip(gone) {
            let gone = device.again(domain);
            gone.is_retired.store(true, Ordering::Relaxed); // see the field
            devices.push(gone);
        }
        devices.sort_by_key(|device| device.tier);
        let mut index = vec![None; devices.iter().map(|d| usize::from(d.id) + 1).max().unwrap_or(0)];
        for (at, device) in devices.iter().enumerate() {
            index[usize::from(device.id)] = Some(at);
        }
        Ok(TierList { tiers, devices, index })
    }

    /// Returns the index of a target in `devices`.
    pub fn position(&self, id: TargetId) -> Option<usize> {
        self.index.get(usize::from(id)).copied().flatten()
    }

    /// Returns a target by its number.
    pub fn device(&self, id: TargetId) -> Result<&Device> {
        self.position(id).and_then(|at| self.devices.get(at)).ok_or_else(|| Error::Damaged {
            what: "a replica's record".into(),
            reason: format!(
                "its file terrace.toml has no target {id}; is a tier's section missing there? Write it again as it was"
            ),
        })
    }

    /// Returns all targets of a target's tier.
    pub fn peers(&self, device: &Device) -> &[Device] {
        let first = self.devices.partition_point(|other| other.tier < device.tier);
        let count = self.devices[first..].partition_point(|other| other.tier == device.tier);
        &self.devices[first..first + count]
    }

    /// Returns a target's tier.
    pub fn tier(&self, device: &Device) -> &Tier {
        &self.tiers[device.tier]
    }

    /// Chooses up to `want` targets to which replicas can be owed when no target takes them now. They are on the `allowed`
    /// tiers, and on other domains than those of `chosen`. The last one is persistent, unless `volatile` is set or one
    /// before it is persistent.
    pub fn for_later(&self, chosen: &[TargetId], want: usize, allowed: TierSet, volatile: bool) -> Vec<TargetId> {
        let lasts = |device: &Device| self.tier(device).persistent;
        let mut taken: Vec<&Device> = chosen.iter().filter_map(|id| self.device(*id).ok()).collect();
        for _ in 0..want {
            let free = |d: &&Device| {
                !d.is_retired() && allowed.has(d.tier as u8) && taken.iter().all(|t| t.domain != d.domain)
            };
            let must_last = !volatile && taken.len() + 1 == chosen.len() + want && !taken.iter().any(|t| lasts(t));
            let mut all = self.devices.iter().filter(free);
            match if must_last { all.find(|d| lasts(d)) } else { all.next() } {
                Some(device) => taken.push(device),
                None => break,
            }
        }
        taken[chosen.len().min(taken.len())..].iter().map(|d| d.id).collect()
    }

    /// Finds the level of a tier.
    ///
    /// # Errors
    /// [`Error::Config`] with the names of all tiers, if none has this one.
    pub fn level(&self, name: &str) -> Result<usize> {
        self.tiers.iter().position(|tier| tier.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.tiers.iter().map(|tier| tier.name.as_str()).collect();
            Error::Config(format!("there is no tier {name:?}; there are {}", names.join(", ")))
        })
    }

    /// Returns the tiers with these names.
    pub fn named(&self, names: &[String]) -> TierSet {
        TierSet::of((0..self.tiers.len()).filter(|level| names.contains(&self.tiers[*level].name)))
    }

    /// Returns how many replicas an extent can have on these tiers: the number of their failure domains.
    pub fn domains(&self, allowed: TierSet, persistent: bool) -> usize {
        let usable = |d: &&Device| allowed.has(d.tier as u8) && (self.tier(d).persistent || !persistent);
        let mut domains: Vec<u32> = self.devices.iter().filter(usable).map(|d| d.domain).collect();
        domains.sort_unstable();
        domains.dedup();
        domains.len()
    }

    /// Reads the current state of a target. A target that is filled to its tier's watermark counts as full.
    pub fn read_state(&self, device: &Device) -> TierState {
        match device.space() {
            Ok(space) if space.used as f64 >= space.capacity as f64 * self.tier(device).high_watermark => {
                device.state().max(TierState::Full)
            }
            Ok(_) => device.state(),
            Err(error) => {
                device.failed(&error);
                device.state()
            }
        }
    }

    /// Describes the use and state of the tiers for errors.
    pub fn describe(&self, tiers: TierSet) -> String {
        let words: Vec<String> = self
            .devices
            .iter()
            .filter(|d| tiers.has(d.tier as u8))
            .map(|d| {
                let space = d.space().unwrap_or_default();
                let state = format!("{:?}", self.read_state(d)).to_lowercase();
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
