//! The store's tiers and targets, and their state as this process sees it.

use std::path::Path;
use std::sync::Arc;

use super::device::Device;
use super::targets::Opener;
use crate::catalog::TargetId;
use crate::config::Config;
use crate::report::TierState;
use crate::tier::Ids;
use crate::{Error, Result};

/// A tier: a performance level.
pub struct Tier {
    /// Its name.
    pub name: String,
    /// Whether it outlives a reboot.
    pub persistent: bool,
    /// The share of its capacity above which the mover evicts.
    pub high_watermark: f64,
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
        let opener = Opener { store, dir, ids };
        for (level, tier) in config.tiers.iter().enumerate() {
            tiers.push(Tier {
                name: tier.name.clone(),
                persistent: tier.persistent,
                high_watermark: tier.high_watermark,
            });
            for described in &tier.targets {
                let id = described.number.unwrap_or(devices.len() as TargetId);
                devices.push(opener.device(tier, level, described, id)?);
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
            .map(|d| (d, d.filled()))
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
