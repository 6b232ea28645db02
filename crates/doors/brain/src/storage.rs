//! [`Storage`]: the tiers and targets of the host as they are now.

use std::collections::HashMap;

use serde_json::{Value, json};
use terrace_cost::{ASSUMED_CORE_WATTS, MeasuredSpeed};
use terrace_plan::snapshot::{Snapshot, Target, Tier, TierSet};
use terrace_predict::Pace;

use crate::Failure;
use crate::target::DescribedTarget;

/// The tiers and targets of the host, and the speeds that were learned.
pub(crate) struct Storage {
    levels: Vec<Level>,
    places: Vec<Place>,
    snapshot: Snapshot,
}

/// A tier. Its targets share what is learned of its speed: if each had its own, all bytes would go to the one that was measured to be the
/// quickest.
struct Level {
    tier: Tier,
    reading: MeasuredSpeed,
    writing: MeasuredSpeed,
}

/// A target.
struct Place {
    /// The index of its tier.
    tier: u8,
    domain: u32,
    lanes: u16,
    free: u64,
    total: u64,
    /// The queued operations for each lane.
    load: f64,
    /// Whether it accepts writes.
    up: bool,
}

/// The learned speeds of a tier: its name, and the speeds for reads and for writes.
pub(crate) type LearnedSpeeds = (String, [MeasuredSpeed; 2]);

impl Storage {
    /// Sorts targets into tiers.
    pub fn new(targets: &[DescribedTarget]) -> Result<Storage, Failure> {
        let (mut levels, mut places): (Vec<Level>, Vec<Place>) = (Vec::new(), Vec::new());
        let mut domains: HashMap<&str, u32> = HashMap::new();
        for (number, target) in (0u32..).zip(targets) {
            let DescribedTarget { reading, writing, free, total, watts, lanes, persistent, .. } = *target;
            let tier = Tier { name: target.tier.clone(), persistent, watts };
            let same = |level: &Level| (&level.tier, level.reading, level.writing) == (&tier, reading, writing);
            let wrong = |reason: &str| Failure::Invalid(format!("target {number}: {reason} {:?}", target.tier));
            match levels.iter().position(|level| level.tier.name == target.tier) {
                Some(at) if at + 1 < levels.len() => return Err(wrong("it does not stand beside the others of")),
                Some(at) if !same(&levels[at]) => {
                    return Err(wrong("its speeds, power or persistence are not those of the others of"));
                }
                Some(_) => {}
                None => levels.push(Level { tier, reading, writing }),
            }
            // The number of the domain's first target.
            let domain = target.domain.as_deref().map_or(number, |name| *domains.entry(name).or_insert(number));
            // More tiers than fit are refused below.
            let tier = (levels.len() - 1).min(u8::MAX.into()) as u8;
            places.push(Place { tier, domain, lanes, free, total, load: 0.0, up: true });
        }
        let snapshot = describe(&levels, &places)?;
        Ok(Storage { levels, places, snapshot })
    }

    /// Returns the state for the planner.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns the set of the tiers with these names.
    pub fn named(&self, names: &str) -> Result<TierSet, Failure> {
        self.snapshot.tiers_named(names.split('+').map(str::trim)).map_err(|name| {
            let known: Vec<&str> = self.levels.iter().map(|level| level.tier.name.as_str()).collect();
            Failure::Invalid(format!("tiers: there is no tier {name:?}, but {}", known.join(", ")))
        })
    }

    /// Changes the state of a target.
    pub fn update(&mut self, target: usize, free: u64, load: f64, up: bool) -> Result<(), Failure> {
        self.check(target)?;
        if !(load >= 0.0 && load.is_finite()) {
            return Err(Failure::Invalid(format!(
                "a load of {load} is none; give the queued operations for each lane"
            )));
        }
        let place = &mut self.places[target];
        let is_same = (place.up, place.load) == (up, load);
        (place.free, place.total, place.load, place.up) = (free, place.total.max(free), load, up);
        if is_same {
            self.renew_space(target);
            return Ok(());
        }
        self.renew()
    }

    /// Notes that bytes were stored on a target.
    pub fn take(&mut self, target: usize, bytes: u64) -> Result<(), Failure> {
        self.check(target)?;
        self.places[target].free = self.places[target].free.saturating_sub(bytes);
        self.renew_space(target);
        Ok(())
    }

    /// Learns from an operation on a target: a write, or a read.
    pub fn learn(&mut self, target: usize, is_write: bool, bytes: usize, seconds: f64) -> Result<(), Failure> {
        self.check(target)?;
        let level = &mut self.levels[usize::from(self.places[target].tier)];
        let speed = if is_write { &mut level.writing } else { &mut level.reading };
        *speed = Some(speed.learn(bytes, seconds)).filter(|speed| speed.is_sound()).unwrap_or(*speed);
        self.renew()
    }

    /// Refuses a number that no target has.
    pub fn check(&self, target: usize) -> Result<(), Failure> {
        let count = self.places.len();
        let refused = || Failure::Invalid(format!("there is no target {target}, only 0 to {}", count - 1));
        if target < count { Ok(()) } else { Err(refused()) }
    }

    /// Returns the speeds of a target's tier, for reads and for writes.
    pub fn speeds(&self, target: usize) -> [MeasuredSpeed; 2] {
        let Level { reading, writing, .. } = &self.levels[usize::from(self.places[target].tier)];
        [*reading, *writing]
    }

    /// Returns the pace of a target for the predictor. On a tier that fills up, this includes the time to displace other bytes.
    pub fn pace(&self, target: usize) -> Pace {
        let rates = self.snapshot.rates()[target];
        Pace { write: 1.0 / (rates.write + rates.displaced_write), read: 1.0 / (rates.read + rates.displaced_read) }
    }

    /// Returns the pace of the slowest tier.
    pub fn slowest(&self) -> Option<Pace> {
        let paces = self.levels.iter().map(|level| Pace { write: level.writing.rate, read: level.reading.rate });
        paces.min_by(|a, b| a.write.total_cmp(&b.write))
    }

    /// Returns the speeds of all tiers, to save them.
    pub fn learned(&self) -> Vec<LearnedSpeeds> {
        self.levels.iter().map(|level| (level.tier.name.clone(), [level.reading, level.writing])).collect()
    }

    /// Takes saved speeds for the tiers that have these names.
    pub fn recall(&mut self, learned: &[LearnedSpeeds]) -> Result<(), Failure> {
        for level in &mut self.levels {
            let saved = learned.iter().find(|(name, _)| *name == level.tier.name);
            if let Some((_, [reading, writing])) = saved.filter(|(_, all)| all.iter().all(|speed| speed.is_sound())) {
                (level.reading, level.writing) = (*reading, *writing);
            }
        }
        self.renew()
    }

    /// Describes the tiers and targets.
    pub fn report(&self) -> Value {
        let tiers = self.levels.iter().map(|Level { tier, reading, writing }| {
            json!({ "name": tier.name, "persistent": tier.persistent, "read": reading.rate, "write": writing.rate,
                "read_latency": reading.latency, "write_latency": writing.latency })
        });
        let targets = self.places.iter().map(|Place { tier, free, total, load, up, .. }| {
            let tier = &self.levels[usize::from(*tier)].tier.name;
            json!({ "tier": tier, "free": free, "total": total, "load": load, "up": up })
        });
        json!({ "tiers": tiers.collect::<Vec<_>>(), "targets": targets.collect::<Vec<_>>() })
    }

    /// Brings the snapshot up to date after a change of speeds, of a load, or of whether a target is up.
    fn renew(&mut self) -> Result<(), Failure> {
        self.snapshot = describe(&self.levels, &self.places)?;
        Ok(())
    }

    /// Brings the snapshot up to date after a change of a target's space.
    fn renew_space(&mut self, target: usize) {
        self.snapshot.set_space(target, self.places[target].free, 0);
        self.snapshot.set_filled(filled(&self.levels, &self.places));
    }
}

/// Describes tiers and targets to the planner. The order of the tiers stands: one that was measured to be faster than an earlier one counts as equally
/// fast.
fn describe(levels: &[Level], places: &[Place]) -> Result<Snapshot, Failure> {
    let limits = levels.iter().scan([f64::INFINITY, f64::INFINITY, 0.0], |limits, Level { reading, writing, .. }| {
        *limits = [reading.rate.min(limits[0]), writing.rate.min(limits[1]), writing.latency.max(limits[2])];
        Some(*limits)
    });
    let limits: Vec<[f64; 3]> = limits.collect();
    let targets = places.iter().map(|place| {
        let [read, write, latency] = limits[usize::from(place.tier)];
        let Place { tier, domain, lanes, free, load, up, .. } = *place;
        Target { tier, domain, read, write, latency, free, reserved: 0, load, lanes, plain: false, near: false, up }
    });
    let tiers = levels.iter().map(|level| level.tier.clone()).collect();
    Ok(Snapshot::new(tiers, targets.collect(), ASSUMED_CORE_WATTS)?.filled(filled(levels, places)))
}

/// Returns the used share of each tier, from 0 to 1.
fn filled(levels: &[Level], places: &[Place]) -> Vec<f64> {
    let mut sums = vec![(0.0, 0.0); levels.len()];
    for Place { tier, free, total, .. } in places {
        let (used, all) = &mut sums[usize::from(*tier)];
        *used += (total - free) as f64;
        *all += *total as f64;
    }
    sums.into_iter().map(|(used, all)| used / f64::max(all, 1.0)).collect()
}
