//! Where replicas go, and under which encoding: the decisions of `terrace-plan`, fed with what `terrace-predict` expects
//! of the bytes and with the store's tiers as they are.

mod explain;
mod memory;
mod planner;
mod policy;
mod speeds;
mod streams;

pub use explain::{Explained, Measured, Question, WhatIf};
pub use planner::Planned;
pub(crate) use planner::{Planner, Site};
pub(crate) use policy::{Policy, policy, policy_under};
pub(crate) use speeds::{WAITS, taken};
pub(crate) use streams::{LEARNED, Streams};

use std::io;
use std::sync::Arc;

use rustix_futex_sync::Mutex;
use smallvec::SmallVec;
use terrace_catalog::{Extent, Replica, TargetId};
use terrace_codec::{Element, Encoding};
use terrace_cost::Weights;
use terrace_cost::{Costs, Expected};
use terrace_format::frame::{Coded, Identity};
use terrace_plan::policy::{Ack, Budget, Policy as Wanted};
use terrace_plan::snapshot::TierSet;
use xxhash_rust::xxh3::xxh3_64;

use self::planner::Pace;
use self::streams::{Aim, Known, SHORT_EXTENT_BYTES};
use crate::store::{Device, Inner};
use crate::write::{append_to, with_scratch};

/// Shorter extents are not worth a thought: what is known of the stream serves.
const WORTH: usize = 8 << 10;
/// To devices that take so many bytes in a second nothing is gained by encoding.
const FAST: f64 = 1e9;
/// Hardly anything but the bytes stored matters where the ratio has at least this weight.
const DENSE: f64 = 0.8;
/// What is taken of an encoding of which nothing is known but what it stored.
const USUAL: Expected = Expected::from_speeds(3e8, 1e9, 1.0);
/// How often what is written is taken to be read, at least.
const READS: f64 = 1.0;

/// Places the replicas of one object's extents.
pub(crate) struct Placer<'a> {
    inner: &'a Inner,
    key: &'a [u8],
    wanted: Wanted,
    known: Arc<Mutex<Known>>,
    /// The object, for the stream that it is part of.
    file: u64,
    /// The encoding that the rule for the object wants.
    pinned: Option<Encoding>,
}

/// A replica-to-be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub target: TargetId,
    pub encoding: Encoding,
}

/// Replicas-to-be of an extent; the first is the one to be written first and read first.
pub(crate) type Places = SmallVec<[Placed; 3]>;

/// Where the first bytes of a run go.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    /// How many of the bytes it is for.
    pub length: usize,
    pub replicas: Places,
    /// Whether the first replica's target has a higher latency than was asked for.
    pub is_slow: bool,
}

impl<'a> Placer<'a> {
    /// For the bytes of `key`, whose elements' type may be known.
    pub fn new(inner: &'a Inner, key: &'a [u8], element: Option<Element>, wanted: Wanted) -> Placer<'a> {
        let pinned = pinned(inner, key);
        let wanted = Wanted { raw_first: wanted.raw_first && pinned.is_none(), ..wanted };
        Placer { inner, key, wanted, known: inner.streams.of(key, element), file: xxh3_64(key), pinned }
    }

    /// Where the replicas of `raw`, the object's bytes from `offset` on, go, or of as much of it as goes to the same
    /// places. None where no target has room.
    pub fn place(&self, offset: u64, raw: &[u8]) -> Placement {
        let reads = self.reads(offset, raw.len());
        let site = Site { wanted: self.wanted, beside: &[], reads };
        let costs = self.costs();
        let mut placement = self.plan_with(raw.len(), &site, &costs);
        if let Some(first) = placement.replicas.first()
            && let Ok(device) = self.inner.tiers.device(first.target)
        {
            self.study(offset, raw, device, &self.wanted.first, reads);
            // Another thread may have learned of the same stream meanwhile.
            let now = self.costs();
            if !Arc::ptr_eq(&now, &costs) {
                placement = self.plan_with(raw.len(), &site, &now);
            }
        }
        if !placement.replicas.is_empty() {
            return placement;
        }
        let out_of_reach = |most| self.inner.planner.is_out_of_reach(&self.inner.tiers, self.wanted.tiers, most);
        if self.wanted.max_latency.is_some_and(out_of_reach) {
            // No eviction makes a target quicker: it gives way, and the receipt says so.
            let wanted = Wanted { max_latency: None, ..self.wanted };
            let placed = self.plan_lasting_or_not(raw.len(), &Site { wanted, ..site });
            return Placement { is_slow: true, ..placed };
        }
        self.plan_lasting_or_not(raw.len(), &site)
    }

    /// Plans; where what outlives a reboot is full or away for now, for memory alone, and the rest is owed.
    fn plan_lasting_or_not(&self, length: usize, site: &Site<'_>) -> Placement {
        let placement = self.plan(length, site);
        if placement.replicas.is_empty() && !site.wanted.volatile && !site.wanted.is_all_persistent() {
            return self.plan(length, &Site { wanted: Wanted { volatile: true, ..site.wanted }, ..*site });
        }
        placement
    }

    /// How many replicas an extent is to have of which so many were planned: under a budget as many as fit.
    pub fn count(&self, planned: usize) -> usize {
        let wanted = usize::from(self.wanted.replicas);
        if self.wanted.budget.is_some() { planned.clamp(1, wanted) } else { wanted }
    }

    /// Targets to owe replicas to that none takes now.
    pub fn for_later(&self, missing: usize, beside: &[TargetId]) -> Vec<TargetId> {
        let levels = &self.inner.tiers.tiers;
        let all_persistent = self.wanted.is_all_persistent();
        let fits = |level: &usize| !all_persistent || levels.get(*level).is_some_and(|tier| tier.persistent);
        let allowed = self.allowed((0..levels.len()).filter(fits));
        self.inner.tiers.for_later(beside, missing, allowed, self.wanted.volatile)
    }

    /// A target that outlives a reboot, to owe a replica to where none of these does and one has to.
    pub fn lasting_for_later(&self, chosen: &[TargetId]) -> Option<TargetId> {
        let lasts =
            |id: &TargetId| self.inner.tiers.device(*id).is_ok_and(|device| self.inner.tiers.tier(device).persistent);
        let lacks = !self.wanted.volatile && !chosen.iter().any(lasts);
        let owed = || self.inner.tiers.for_later(chosen, 1, self.wanted.tiers, false);
        if lacks { owed().first().copied() } else { None }
    }

    /// Where up to `missing` more replicas of an extent go, beside those on `beside`.
    pub fn place_more(&self, length: usize, missing: usize, beside: &[TargetId]) -> Places {
        let wanted = Wanted { replicas: missing.min(255) as u8, ..self.wanted };
        self.plan(length, &Site { wanted, beside, reads: 0.0 }).replicas
    }

    /// Where one more replica of an extent goes, on these tiers. Whether it may be in memory is for `volatile` to say alone.
    pub fn place_on(&self, tiers: TierSet, length: usize, beside: &[TargetId], volatile: bool) -> Option<TargetId> {
        let (ack, max_latency, persistent) = (Ack::Placed, None, false);
        let wanted = Wanted { replicas: 1, tiers, volatile, persistent, ack, max_latency, ..self.wanted };
        self.plan(length, &Site { wanted, beside, reads: 0.0 }).replicas.first().map(|placed| placed.target)
    }

    /// Of these tiers, those that replicas may be on.
    pub fn allowed(&self, tiers: impl IntoIterator<Item = usize>) -> TierSet {
        TierSet::of(tiers.into_iter().filter(|level| self.wanted.tiers.has(*level as u8)))
    }

    /// Where the replicas of a stored extent should be, and how encoded, planned with what is there so that little is
    /// moved; with `stay`, on the targets where they are. Nothing where no plan is better known.
    pub fn replan(&self, extent: &Extent, raw: &[u8], stay: bool) -> Places {
        let site = Site { wanted: self.wanted, beside: &[], reads: self.reads(extent.offset, raw.len()) };
        let costs = match self.pinned {
            Some(_) => self.costs(),
            None => Arc::new(self.surveyed(extent, raw)),
        };
        self.inner.planner.replan(&self.inner.tiers, raw.len(), &site, &costs, &extent.replicas, stay)
    }

    /// What is expected of every encoding on a stored extent; of those that it is in, what they made of it.
    fn surveyed(&self, extent: &Extent, raw: &[u8]) -> Costs {
        let mut expected = self.inner.streams.survey_extent(&self.known, raw, &self.inner.tiers, &self.wanted);
        let encoded = || extent.replicas.iter().filter(|replica| replica.encoding != Encoding::NONE);
        let made = |replica: &Replica| f64::from(replica.stored.max(1)) / f64::from(extent.raw_len);
        let of = |encoding| expected.iter().find(|(known, _)| *known == encoding).map(|(_, expected)| expected.stored);
        // Short extents were not surveyed one by one: what one encoding made of these bytes tells what others would.
        let share = encoded().find_map(|replica| Some(made(replica) / of(replica.encoding)?));
        if let Some(share) = share.filter(|_| raw.len() < SHORT_EXTENT_BYTES) {
            expected.iter_mut().for_each(|(_, expected)| expected.stored *= share);
        }
        for replica in encoded() {
            let stored = made(replica);
            match expected.iter_mut().find(|(encoding, _)| *encoding == replica.encoding) {
                Some((_, known)) => known.stored = stored,
                None => expected.push((replica.encoding, Expected { stored, ..USUAL })),
            }
        }
        Costs::new(expected)
    }

    /// How to encode one more replica of an extent on `device`.
    pub fn encoding(&self, device: &Device, extent: &Extent, raw: &[u8], missing: usize) -> Encoding {
        if let Some(pinned) = self.pinned {
            return pinned;
        }
        let nearest = extent.replicas.iter().all(|r| {
            r.target == device.id || self.inner.tiers.device(r.target).is_ok_and(|other| other.tier > device.tier)
        });
        let (weights, reads) =
            if nearest { (self.wanted.first, self.reads(extent.offset, raw.len())) } else { (self.wanted.rest, 0.0) };
        self.study(extent.frame_offset(), raw, device, &weights, reads);
        let stored: u64 = extent.replicas.iter().filter(|r| r.target != device.id).map(|r| u64::from(r.stored)).sum();
        let left = |Budget(times): Budget| (times - stored as f64 / raw.len() as f64) / missing.max(1) as f64;
        let wanted = Wanted {
            first: weights,
            raw_first: nearest && self.wanted.raw_first,
            budget: self.wanted.budget.map(|budget| Budget(left(budget).max(0.0))),
            ..self.wanted
        };
        let costs = self.known.lock().costs.clone();
        self.inner.planner.encoding(&self.inner.tiers, device, raw.len(), reads, wanted, &costs)
    }

    /// Whether the bytes stored are limited.
    pub fn has_budget(&self) -> bool {
        self.wanted.budget.is_some()
    }

    /// Whether an extent is to have one more replica on `device`, of so many bytes: what the budget pays for, and what it may
    /// not cost, as many as are wanted at least, and one that outlives a reboot.
    pub fn affords(&self, extent: &Extent, device: &Device, stored: u32) -> bool {
        let few = extent.replicas.len() < usize::from(self.wanted.least);
        few || self.pays(extent, stored) || self.saves(extent, device)
    }

    /// Whether the budget pays for one more replica, of so many bytes.
    fn pays(&self, extent: &Extent, stored: u32) -> bool {
        let all: f64 = extent.replicas.iter().map(|replica| f64::from(replica.stored)).sum();
        self.wanted.budget.is_none_or(|Budget(times)| all + f64::from(stored) <= times * f64::from(extent.raw_len))
    }

    /// Replicas in memory that the budget does not pay for beside one more, of so many bytes, that outlives a reboot.
    pub fn beyond<'e>(&self, extent: &'e Extent, stored: u32) -> impl Iterator<Item = &'e Replica> {
        let fleeting = |replica: &&Replica| {
            self.inner.tiers.device(replica.target).is_ok_and(|device| !self.inner.tiers.tier(device).persistent)
        };
        let (mut left, least) = (extent.clone(), usize::from(self.wanted.least));
        extent.replicas.iter().filter(fleeting).filter(move |replica| {
            let goes = left.replicas.len() >= least && !self.pays(&left, stored);
            left.replicas.retain(|kept| !goes || kept != *replica);
            goes
        })
    }

    /// Whether a replica on `device` would be the first that outlives a reboot, as one has to.
    fn saves(&self, extent: &Extent, device: &Device) -> bool {
        let lasts = |device: &Device| self.inner.tiers.tier(device).persistent;
        let saved = |replica: &Replica| self.inner.tiers.device(replica.target).is_ok_and(lasts);
        !self.wanted.volatile && lasts(device) && !extent.replicas.iter().any(saved)
    }

    /// Encodes an extent, appends a replica of it, and learns from what that took.
    pub fn append(&self, device: &Device, identity: Identity, encoding: Encoding, raw: &[u8]) -> io::Result<Replica> {
        let encoding = self.pinned.unwrap_or(encoding);
        if raw.len() < WORTH {
            return append_to(device, identity, encoding, raw);
        }
        let replica = append_to(device, identity, encoding, raw)?;
        let encoded = match encoding {
            Encoding::NONE => Coded { raw: raw.len(), stored: raw.len(), seconds: 0.0 },
            _ => with_scratch(|scratch| scratch.encoded),
        };
        self.inner.streams.learn(&self.known, encoding, encoded);
        Ok(replica)
    }

    /// How often bytes are expected to be read.
    fn reads(&self, offset: u64, length: usize) -> f64 {
        READS.max(self.inner.hotness.reads(self.key, offset, offset + length as u64))
    }

    /// What is expected of the encodings that may be used.
    fn costs(&self) -> Arc<Costs> {
        let mut known = self.known.lock();
        match self.pinned {
            Some(pinned) => known.pinned(pinned).clone(),
            None => known.costs.clone(),
        }
    }

    fn plan(&self, length: usize, site: &Site<'_>) -> Placement {
        self.plan_with(length, site, &self.costs())
    }

    fn plan_with(&self, length: usize, site: &Site<'_>, costs: &Costs) -> Placement {
        self.inner.planner.place(&self.inner.tiers, length, site, costs)
    }

    /// Studies the bytes for a device, where that may pay.
    fn study(&self, offset: u64, raw: &[u8], device: &Device, weights: &Weights, reads: f64) {
        if self.pinned.is_some() || raw.len() < WORTH {
            return;
        }
        let tiers = &self.inner.tiers;
        let pace = self.inner.planner.pace(tiers, device);
        let rate = |device: &Device| Pace { write: device.writing.rate(), read: device.reading.rate() };
        let slowest = || tiers.devices.iter().map(rate).min_by(|a, b| a.write.total_cmp(&b.write));
        let slowest = self.known.lock().is_new().then(slowest).flatten();
        let aim = Aim { pace, slowest, weights, reads, dense: is_dense(&self.wanted, weights) };
        if aim.dense || aim.pace.write < FAST {
            self.inner.streams.study(&self.known, (self.file, offset), raw, &aim);
        }
    }
}

/// Whether bytes stored are what matters: by their weight, or because a budget of them is to hold many replicas.
fn is_dense(wanted: &Wanted, weights: &Weights) -> bool {
    weights.ratio > DENSE || wanted.budget.is_some()
}

/// The encoding that the rule for a key names.
fn pinned(inner: &Inner, key: &[u8]) -> Option<Encoding> {
    inner.rules.now().rule_for(key).and_then(|rule| rule.encoding.as_deref().copied())
}
