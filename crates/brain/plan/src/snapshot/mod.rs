//! What the planner knows of the storage: plain data, read at some moment.

mod sets;

pub use sets::{TargetSet, TierSet};
pub use terrace_cost::PAGE;

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};
use terrace_cost::{TargetRates, Work, down, nearest};

use crate::policy::Policy;

/// The most targets of a snapshot.
pub const MAX_TARGETS: usize = 64;
/// The most tiers of a snapshot.
pub const MAX_TIERS: usize = 32;

/// Steps in which a tier fills up: at each, what was planned is planned anew.
const STEPS: f64 = 8.0;

/// A performance level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tier {
    /// Its name.
    pub name: String,
    /// Whether it outlives a reboot.
    pub persistent: bool,
    /// What a target of it draws while it reads or writes, in watts.
    pub watts: f64,
}

/// One device, directory, node or bucket of a tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The index of its tier.
    pub tier: u8,
    /// Replicas of a page never share a domain; any number.
    pub domain: u32,
    /// Bytes read per second.
    pub read: f64,
    /// Bytes written per second.
    pub write: f64,
    /// Seconds before the first byte.
    pub latency: f64,
    /// Free bytes.
    pub free: u64,
    /// Bytes of these that are promised to others.
    pub reserved: u64,
    /// Operations waiting for each that it can do at a time; 0 is idle.
    pub load: f64,
    /// Operations that it can do at a time.
    pub lanes: u16,
    /// It holds an object's bytes whole and as they are.
    pub plain: bool,
    /// It can be written to.
    pub up: bool,
}

/// Tiers and targets as they were at some moment, speeds and load rounded to steps of 5 %.
#[derive(Clone, Debug)]
pub struct Snapshot {
    tiers: Vec<Tier>,
    targets: Vec<Target>,
    core_watts: f64,
    rates: Vec<TargetRates>,
    /// How full each tier is, in [`STEPS`].
    filled: [u8; MAX_TIERS],
    domains: Vec<u8>,
    /// For each target the first that is alike, and whether there is another.
    kinds: Vec<(u8, bool)>,
    /// Without load and with it.
    fingerprints: [u64; 2],
}

/// Why a snapshot cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// More tiers than [`MAX_TIERS`], or more targets than [`MAX_TARGETS`].
    TooMany,
    /// This target names a tier that is not there.
    NoSuchTier(usize),
    /// A speed of this target is not positive, or its latency or load is negative or no number.
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
    /// The tiers, fastest first, their targets, and the watts of a processor core.
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
        let first_of = |domain| targets.iter().position(|target| target.domain == domain).unwrap_or(0) as u8;
        let domains = targets.iter().map(|target| first_of(target.domain)).collect();
        let kinds = kinds(&targets, &rates);
        let fingerprints = [false, true].map(|load| fingerprint(&tiers, &targets, &rates, load));
        Ok(Snapshot { tiers, targets, core_watts, rates, filled: [0; MAX_TIERS], domains, kinds, fingerprints })
    }

    /// The same, where so much of each tier is taken already (0 nothing, 1 all; tiers that are not named are empty).
    ///
    /// What is stored in a tier that fills up pushes other data into the next one. How much more will come is not known;
    /// where nothing but what has come so far tells, a tier of which the share `f` is taken will be filled with
    /// probability `f` (amounts of data are spread evenly over orders of magnitude). So a byte there costs `f` times what
    /// it takes longer to write and to read in the next tier.
    pub fn filled(mut self, shares: impl IntoIterator<Item = f64>) -> Snapshot {
        self.set_filled(shares);
        self
    }

    /// The same, where each target works for so long itself, in seconds: its speeds and its latency may be those of what is
    /// waited for, which others' operations are part of, and which draws nothing.
    pub fn working(mut self, works: impl IntoIterator<Item = Work>) -> Snapshot {
        for (rates, work) in self.rates.iter_mut().zip(works) {
            let [read, write, latency] = [work.read, work.write, work.latency].map(nearest);
            rates.work = Work { read, write, latency };
        }
        self.kinds = kinds(&self.targets, &self.rates);
        self.fingerprints = [false, true].map(|load| fingerprint(&self.tiers, &self.targets, &self.rates, load));
        self
    }

    /// Says anew how much of each tier is taken, as [`filled`](Snapshot::filled) does.
    pub fn set_filled(&mut self, shares: impl IntoIterator<Item = f64>) {
        let steps = |share: f64| (share.clamp(0.0, 1.0) * STEPS).round() as u8;
        let mut filled = [0; MAX_TIERS];
        filled.iter_mut().zip(shares).for_each(|(filled, share)| *filled = steps(share));
        if filled == self.filled {
            return;
        }
        for (tier, steps) in filled.iter().enumerate() {
            let later = |of: &Target| of.up && usize::from(of.tier) > tier;
            let next = self.targets.iter().zip(&self.rates).filter(|(target, _)| later(target));
            let Some(next) = next.min_by_key(|(target, _)| target.tier).map(|(_, rates)| *rates) else { break };
            let share = f64::from(*steps) / STEPS;
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
        self.kinds = kinds(&self.targets, &self.rates);
        self.fingerprints = [false, true].map(|load| fingerprint(&self.tiers, &self.targets, &self.rates, load));
    }

    /// The tiers.
    pub fn tiers(&self) -> &[Tier] {
        &self.tiers
    }

    /// The targets, as given.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// What the cost models see of each target.
    pub fn rates(&self) -> &[TargetRates] {
        &self.rates
    }

    /// Watts of a processor core.
    pub fn core_watts(&self) -> f64 {
        self.core_watts
    }

    /// The tiers of these names; the name that is none as the error.
    ///
    /// # Errors
    /// The first name that no tier has.
    pub fn tiers_named<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<TierSet, &'a str> {
        let index = |name| self.tiers.iter().position(|tier| tier.name == name).ok_or(name);
        Ok(TierSet::of(names.into_iter().map(index).collect::<Result<Vec<usize>, _>>()?))
    }

    /// Sets a target's free bytes and those of them that are promised to others; no target of that index: nothing.
    pub fn set_space(&mut self, target: usize, free: u64, reserved: u64) {
        if let Some(target) = self.targets.get_mut(target) {
            (target.free, target.reserved) = (free, reserved);
        }
    }

    /// Says how busy a target is now, which decides between those that are alike; no target of that index: nothing. What
    /// load costs, where a policy counts it, stays as it was given.
    pub fn set_load(&mut self, target: usize, load: f64) {
        if let Some(target) = self.targets.get_mut(target) {
            target.load = load;
        }
    }

    /// The bytes that a plan may take of a target: what is free and not promised, rounded down by at most 5 %; exact
    /// above `enough`, where more makes no difference.
    pub fn space(&self, target: usize, enough: u64) -> u64 {
        let target = &self.targets[target];
        let free = target.free.saturating_sub(target.reserved);
        if free >= enough { enough } else { down(free) }
    }

    /// The index of the first target of a target's domain: a small number for it.
    pub(crate) fn domain(&self, target: usize) -> u8 {
        self.domains[target]
    }

    /// How many domains of these targets can be written to: more replicas than that have no place.
    pub fn domains_up(&self, targets: TargetSet) -> u8 {
        let usable = |index: usize| self.targets[index].up && targets.has(index);
        let up = (0..self.targets.len()).filter(|index| usable(*index));
        up.fold(0u64, |set, index| set | 1 << self.domains[index]).count_ones() as u8
    }

    /// Whether two targets differ in nothing that a plan for `among` these depends on, but for their space: either may
    /// stand in the other's place.
    pub(crate) fn alike(&self, a: usize, b: usize, among: TargetSet, policy: &Policy) -> bool {
        let slow = |target: usize| policy.max_latency.is_some_and(|most| self.targets[target].latency > most);
        self.kinds[a].0 == self.kinds[b].0
            && slow(a) == slow(b)
            && among.has(a) == among.has(b)
            && (!policy.spread || self.rates[a].load == self.rates[b].load)
    }

    /// Whether another target may be alike.
    pub(crate) fn has_twin(&self, target: usize) -> bool {
        self.kinds[target].1
    }

    /// A hash of all that plans depend on, but for the space, and the load where it does not matter.
    pub(crate) fn fingerprint(&self, load: bool) -> u64 {
        self.fingerprints[usize::from(load)]
    }
}

/// For each target the first of those with the same speeds on the same tier, in a domain of its own or in the same one.
fn kinds(targets: &[Target], rates: &[TargetRates]) -> Vec<(u8, bool)> {
    let alone = |of: &Target| targets.iter().filter(|target| target.domain == of.domain).count() == 1;
    let idle = |index: usize| TargetRates { load: 0.0, ..rates[index] };
    let alike = |a: usize, b: usize| {
        let (of, other) = (&targets[a], &targets[b]);
        let domains = of.domain == other.domain || (alone(of) && alone(other));
        let same = (of.tier, of.lanes, of.plain, of.up) == (other.tier, other.lanes, other.plain, other.up);
        a == b || (domains && same && idle(a) == idle(b))
    };
    let all = || 0..targets.len();
    let first = |target| all().find(|other| alike(*other, target)).unwrap_or(target) as u8;
    all().map(|target| (first(target), all().filter(|other| alike(*other, target)).count() > 1)).collect()
}

fn fingerprint(tiers: &[Tier], targets: &[Target], rates: &[TargetRates], with_load: bool) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    for tier in tiers {
        tier.persistent.hash(&mut hasher);
    }
    for (target, rates) in targets.iter().zip(rates) {
        (target.tier, target.domain, target.lanes, target.plain, target.up).hash(&mut hasher);
        let TargetRates { read, write, latency, displaced_write, displaced_read, work, displaced_joules, .. } = *rates;
        [read, write, latency, displaced_write, displaced_read].map(f64::to_bits).hash(&mut hasher);
        for Work { read, write, latency } in [work, displaced_joules] {
            [read, write, latency].map(f64::to_bits).hash(&mut hasher);
        }
        let load = if with_load { rates.load } else { 0.0 };
        [load, rates.watts, rates.core_watts].map(f64::to_bits).hash(&mut hasher);
    }
    hasher.finish()
}
