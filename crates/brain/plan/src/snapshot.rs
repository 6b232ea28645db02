//! The state of the storage that the planner sees: plain data, read at one moment.

pub(crate) use crate::sets::MAX_SEARCHED_TARGETS;
pub use crate::sets::{MAX_TARGETS, MAX_TIERS, TargetSet, TierSet};
pub use terrace_cost::PAGE_BYTES;

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use terrace_cost::{TargetRates, Work, down, nearest};

use crate::policy::Policy;

/// The fill level of a tier is rounded to one of this many steps. Remembered plans become invalid at each step.
const FILL_LEVEL_STEPS: f64 = 8.0;

/// A performance level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tier {
    /// The tier's name.
    pub name: String,
    /// Whether data on the tier survive a reboot.
    pub persistent: bool,
    /// Power that one of its targets draws while it reads or writes, in watts.
    pub watts: f64,
}

/// One device, directory, node or bucket of a tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The index of the target's tier.
    pub tier: u8,
    /// The failure domain, an arbitrary number, such as that of a node. Two replicas of a page never share one.
    pub domain: u32,
    /// Bytes read per second.
    pub read: f64,
    /// Bytes written per second.
    pub write: f64,
    /// Seconds before the first byte.
    pub latency: f64,
    /// Free bytes.
    pub free: u64,
    /// The part of `free` that other plans have reserved, in bytes.
    pub reserved: u64,
    /// Queued operations per lane; 0 means idle.
    pub load: f64,
    /// The number of operations that run at the same time.
    pub lanes: u16,
    /// The target stores each object whole and unencoded, as an ordinary file.
    pub plain: bool,
    /// The target is on the machine of the writer. It is chosen before those of its class that are not.
    pub near: bool,
    /// The target accepts writes.
    pub up: bool,
}

/// Tiers and targets at one moment. Speeds and load are rounded to steps of 5 %, so that plans can be reused.
#[derive(Clone, Debug)]
pub struct Snapshot {
    tiers: Arc<[Tier]>,
    targets: Vec<Target>,
    core_watts: f64,
    rates: Vec<TargetRates>,
    /// The fill level of each tier, in steps of 1 / [`FILL_LEVEL_STEPS`].
    filled: [u8; MAX_TIERS],
    domains: Vec<Domain>,
    classes: Classes,
    /// The number of targets, and of their lanes. A selection of targets keeps those of the whole, so that the limits of
    /// plans stay.
    counts: [usize; 2],
    /// The fingerprint without the load, and the fingerprint with it.
    fingerprints: [u64; 2],
}

/// A target's failure domain.
#[derive(Clone, Copy, Debug)]
struct Domain {
    /// Its first target.
    first: u16,
    /// Whether it has no other target.
    alone: bool,
}

/// The classes of targets: the targets of a tier that differ in nothing that costs depend on, except for the load.
#[derive(Clone, Debug, Default)]
struct Classes {
    /// For each target, the number of its class.
    of: Vec<u16>,
    /// The targets of each class.
    members: Vec<Vec<u16>>,
}

/// Why a snapshot is not valid.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// More tiers than [`MAX_TIERS`], or more targets than [`MAX_TARGETS`].
    TooMany,
    /// The target with this index names a tier that does not exist.
    NoSuchTier(usize),
    /// A speed of the target with this index is not positive, or its latency or load is negative or not finite.
    NoSuchSpeed(usize),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::TooMany => {
                write!(f, "at most {MAX_TIERS} tiers and {MAX_TARGETS} targets can be planned for")
            }
            SnapshotError::NoSuchTier(target) => write!(f, "target {target} is of a tier that is not there"),
            SnapshotError::NoSuchSpeed(target) => {
                write!(f, "target {target}: speeds must be above 0, latency and load at least 0")
            }
        }
    }
}

impl std::error::Error for SnapshotError {}

impl Snapshot {
    /// Creates a snapshot of tiers (fastest first) and their targets; `core_watts` is the power of one processor core.
    ///
    /// # Errors
    /// Any [`SnapshotError`].
    pub fn new(tiers: Vec<Tier>, targets: Vec<Target>, core_watts: f64) -> Result<Snapshot, SnapshotError> {
        if tiers.len() > MAX_TIERS || targets.len() > MAX_TARGETS {
            return Err(SnapshotError::TooMany);
        }
        let mut rates = Vec::with_capacity(targets.len());
        for (index, target) in targets.iter().enumerate() {
            let tier = tiers.get(usize::from(target.tier)).ok_or(SnapshotError::NoSuchTier(index))?;
            let fast = |speed: f64| speed.is_finite() && speed > 0.0;
            let known = |number: f64| number.is_finite() && number >= 0.0;
            if !(fast(target.read) && fast(target.write) && known(target.latency) && known(target.load)) {
                return Err(SnapshotError::NoSuchSpeed(index));
            }
            let (read, write, latency) =
                (1.0 / nearest(target.read), 1.0 / nearest(target.write), nearest(target.latency));
            rates.push(TargetRates {
                read,
                write,
                latency,
                displaced_write: 0.0,
                displaced_read: 0.0,
                work: Work { read, write, latency },
                displaced_joules: Work::default(),
                load: (target.load * 20.0).round() / 20.0,
                watts: tier.watts,
                core_watts,
            });
        }
        let (domains, classes) = (find_domains(&targets), find_classes(&targets, &rates));
        let fingerprints = [false, true].map(|load| compute_fingerprint(&tiers, &targets, &rates, load));
        let counts = [targets.len(), targets.iter().map(|target| usize::from(target.lanes)).sum()];
        let (tiers, filled) = (tiers.into(), [0; MAX_TIERS]);
        Ok(Snapshot { tiers, targets, core_watts, rates, filled, domains, classes, counts, fingerprints })
    }

    /// Returns the snapshot with these used shares of the tiers (0 is empty, 1 is full). Tiers without a share are
    /// empty.
    ///
    /// Data stored in a tier that fills up displace other data to the next tier. The amount of data to come is unknown.
    /// If it is distributed evenly over orders of magnitude, a tier with the used share `f` fills up with probability
    /// `f`. A byte there therefore costs `f` times the additional time that the next tier takes to write and read it.
    pub fn filled(mut self, shares: impl IntoIterator<Item = f64>) -> Snapshot {
        self.set_filled(shares);
        self
    }

    /// Returns the snapshot with these durations of the targets' own work, in seconds. A target's speeds and latency
    /// may describe what a caller waits for, which includes queueing behind other operations; queueing draws no power.
    pub fn working(mut self, works: impl IntoIterator<Item = Work>) -> Snapshot {
        for (rates, work) in self.rates.iter_mut().zip(works) {
            let [read, write, latency] = [work.read, work.write, work.latency].map(nearest);
            rates.work = Work { read, write, latency };
        }
        self.classes = find_classes(&self.targets, &self.rates);
        self.fingerprints =
            [false, true].map(|load| compute_fingerprint(&self.tiers, &self.targets, &self.rates, load));
        self
    }

    /// Updates the used share of each tier; see [`filled`](Snapshot::filled).
    pub fn set_filled(&mut self, shares: impl IntoIterator<Item = f64>) {
        let steps = |share: f64| (share.clamp(0.0, 1.0) * FILL_LEVEL_STEPS).round() as u8;
        let mut filled = [0; MAX_TIERS];
        filled.iter_mut().zip(shares).for_each(|(filled, share)| *filled = steps(share));
        if filled == self.filled {
            return;
        }
        for (tier, steps) in filled.iter().enumerate() {
            let later = |of: &Target| of.up && usize::from(of.tier) > tier;
            let next = self.targets.iter().zip(&self.rates).filter(|(target, _)| later(target));
            let Some(next) = next.min_by_key(|(target, _)| target.tier).map(|(_, rates)| *rates) else { break };
            let share = f64::from(*steps) / FILL_LEVEL_STEPS;
            for (_, rates) in self.targets.iter().zip(&mut self.rates).filter(|(of, _)| usize::from(of.tier) == tier) {
                rates.displaced_write = share * (next.write - rates.write).max(0.0);
                rates.displaced_read = share * (next.read - rates.read).max(0.0);
                let more = |of: fn(&Work) -> f64| {
                    share * (next.watts * of(&next.work) - rates.watts * of(&rates.work)).max(0.0)
                };
                let (read, write) = (more(|work| work.read), more(|work| work.write));
                rates.displaced_joules = Work { read, write, latency: 0.0 };
            }
        }
        self.filled = filled;
        self.classes = find_classes(&self.targets, &self.rates);
        self.fingerprints =
            [false, true].map(|load| compute_fingerprint(&self.tiers, &self.targets, &self.rates, load));
    }

    /// Returns the tiers.
    pub fn tiers(&self) -> &[Tier] {
        &self.tiers
    }

    /// Returns the targets as they were given.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Returns the rates of each target that the cost models use.
    pub fn rates(&self) -> &[TargetRates] {
        &self.rates
    }

    /// Returns the power of one processor core, in watts.
    pub fn core_watts(&self) -> f64 {
        self.core_watts
    }

    /// Returns the set of the tiers with these names.
    ///
    /// # Errors
    /// The first name that no tier has.
    pub fn tiers_named<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<TierSet, &'a str> {
        let index = |name| self.tiers.iter().position(|tier| tier.name == name).ok_or(name);
        Ok(TierSet::of(names.into_iter().map(index).collect::<Result<Vec<usize>, _>>()?))
    }

    /// Sets a target's free bytes and the part of them that other plans have reserved. Does nothing if the target does
    /// not exist.
    pub fn set_space(&mut self, target: usize, free: u64, reserved: u64) {
        if let Some(target) = self.targets.get_mut(target) {
            (target.free, target.reserved) = (free, reserved);
        }
    }

    /// Sets the current load of a target, which decides between interchangeable targets. Does nothing if the target
    /// does not exist. The load that costs are computed from, under a policy that counts it, stays as given to
    /// [`Snapshot::new`].
    pub fn set_load(&mut self, target: usize, load: f64) {
        if let Some(target) = self.targets.get_mut(target) {
            target.load = load;
        }
    }

    /// Returns the bytes that a plan may use on a target: free and not reserved, rounded down by at most 5 %. Returns
    /// `enough` if there are at least `enough`, because more makes no difference.
    pub fn space(&self, target: usize, enough: u64) -> u64 {
        let target = &self.targets[target];
        let free = target.free.saturating_sub(target.reserved);
        if free >= enough { enough } else { down(free) }
    }

    /// Returns the index of the first target in this target's failure domain, as a number for the domain.
    pub(crate) fn domain(&self, target: usize) -> u16 {
        self.domains[target].first
    }

    /// Returns the number of failure domains among these targets that accept writes: the maximum number of replicas
    /// that have a place.
    pub fn domains_up(&self, targets: &TargetSet) -> u8 {
        let usable = |index: &usize| self.targets[*index].up && targets.has(*index);
        let is_first = |index: &usize| {
            let Domain { first, alone } = self.domains[*index];
            alone || !(usize::from(first)..*index).any(|other| self.domain(other) == first && usable(&other))
        };
        let count = (0..self.targets.len()).filter(usable).filter(is_first).count();
        count.min(u8::MAX.into()) as u8
    }

    /// Returns a key that is equal for targets of the same class under a policy. Costs, and the policy's limits, do not
    /// distinguish targets of a class; their free space and their failure domains may differ.
    pub(crate) fn class(&self, target: usize, policy: &Policy) -> (u16, u64) {
        let slow = policy.max_latency.is_some_and(|most| self.targets[target].latency > most);
        let load = if policy.spread { self.rates[target].load } else { 0.0 };
        // A load is never negative, so that its sign is free.
        (self.classes.of[target], load.to_bits() | u64::from(slow) << 63)
    }

    /// Returns the targets of a target's class, regardless of the policy.
    pub(crate) fn members(&self, target: usize) -> &[u16] {
        &self.classes.members[usize::from(self.classes.of[target])]
    }

    /// Returns whether two targets are interchangeable in every plan for the targets `among`, if their free space makes
    /// no difference: they are of one class, and either in the same domain or both alone in theirs.
    pub(crate) fn are_twins(&self, a: usize, b: usize, among: &TargetSet, policy: &Policy) -> bool {
        let (of, other) = (self.domains[a], self.domains[b]);
        (of.first == other.first || (of.alone && other.alone))
            && among.has(a) == among.has(b)
            && self.class(a, policy) == self.class(b, policy)
    }

    /// Returns the number of targets, and of their lanes, regardless of a selection.
    pub(crate) fn counts(&self) -> [usize; 2] {
        self.counts
    }

    /// Returns a snapshot of only these targets, in this order.
    pub(crate) fn select(&self, indexes: &[u16]) -> Snapshot {
        let targets: Vec<Target> = indexes.iter().map(|index| self.targets[usize::from(*index)].clone()).collect();
        let rates: Vec<TargetRates> = indexes.iter().map(|index| self.rates[usize::from(*index)]).collect();
        let (domains, classes) = (find_domains(&targets), find_classes(&targets, &rates));
        let (tiers, fingerprints) = (self.tiers.clone(), self.fingerprints);
        Snapshot { tiers, targets, rates, domains, classes, fingerprints, ..*self }
    }

    /// Returns a hash of everything that plans depend on, except for the free space. The load is included only if
    /// `load` is set.
    pub(crate) fn fingerprint(&self, load: bool) -> u64 {
        self.fingerprints[usize::from(load)]
    }
}

fn find_domains(targets: &[Target]) -> Vec<Domain> {
    let mut known: HashMap<u32, Domain> = HashMap::with_capacity(targets.len());
    for (index, target) in (0..=u16::MAX).zip(targets) {
        known.entry(target.domain).and_modify(|of| of.alone = false).or_insert(Domain { first: index, alone: true });
    }
    targets.iter().map(|target| known[&target.domain]).collect()
}

fn find_classes(targets: &[Target], rates: &[TargetRates]) -> Classes {
    let mut classes = Classes::default();
    let mut known = HashMap::with_capacity(targets.len());
    for (index, (target, rates)) in (0..=u16::MAX).zip(targets.iter().zip(rates)) {
        let key = (target.tier, target.lanes, target.plain, target.up, list_bits(rates, false));
        let class = *known.entry(key).or_insert(classes.members.len() as u16);
        if usize::from(class) == classes.members.len() {
            classes.members.push(Vec::new());
        }
        classes.of.push(class);
        classes.members[usize::from(class)].push(index);
    }
    classes
}

/// Returns all numbers of a target's rates as bits; the load is 0 unless `with_load` is set.
fn list_bits(rates: &TargetRates, with_load: bool) -> [u64; 14] {
    let TargetRates { read, write, latency, displaced_write, displaced_read, work, displaced_joules, .. } = *rates;
    let load = if with_load { rates.load } else { 0.0 };
    let [own, displaced] = [work, displaced_joules].map(|Work { read, write, latency }| [read, write, latency]);
    let times = [read, write, latency, displaced_write, displaced_read];
    let others =
        [own[0], own[1], own[2], displaced[0], displaced[1], displaced[2], load, rates.watts, rates.core_watts];
    let mut bits = [0; 14];
    bits.iter_mut().zip(times.into_iter().chain(others)).for_each(|(bits, number)| *bits = number.to_bits());
    bits
}

fn compute_fingerprint(tiers: &[Tier], targets: &[Target], rates: &[TargetRates], with_load: bool) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    for tier in tiers {
        tier.persistent.hash(&mut hasher);
    }
    for (target, rates) in targets.iter().zip(rates) {
        (target.tier, target.domain, target.lanes, target.plain, target.up).hash(&mut hasher);
        list_bits(rates, with_load).hash(&mut hasher);
    }
    hasher.finish()
}
