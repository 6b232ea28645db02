//! [`resolve`]: combines the requirements of three levels into one policy.

use smallvec::SmallVec;

use super::requirement::Count;
use super::{Ack, Ask, Field, Level, Policy, Replicas, Requirement, Resolution, Source, Value};
use terrace_cost::Weights;

/// Returns the policy for the requirements of three levels, and each decision between them.
///
/// The fields `replicas`, `ack` and `weights` of a level override its requirements, and a level overrides those below
/// it in each setting that it decides. Of two conflicting requirements of a level, the later one is dropped; one that conflicts
/// with a higher level keeps the settings that the higher one leaves open. The weights of a level's requirements add up (HReplica
/// IV-B.2: complementary requirements).
pub fn resolve(operation: &Ask, application: &Ask, system: &Ask, range: Replicas) -> (Policy, Vec<Resolution>) {
    resolve_levels(&[(Level::Operation, operation), (Level::Application, application), (Level::System, system)], range)
}

/// Like [`resolve`], for any number of levels, highest first. A program and the rule for a key are both of level
/// [`Level::Application`].
pub fn resolve_levels(levels: &[(Level, &Ask)], range: Replicas) -> (Policy, Vec<Resolution>) {
    let mut log = Vec::new();
    let accepted = accept_requirements(levels, &mut log);
    log.extend(find_complements(&accepted));
    let has = |requirement| accepted.iter().any(|wish| wish.requirement == requirement);
    let shared = has(Requirement::MinReadLatency) && has(Requirement::MinStorage);

    let (mut replicas, mut ack, mut weights) = (Slot(None), Slot(None), Slot(None));
    for (rank, &(level, ask)) in levels.iter().enumerate() {
        let explicit = Source::Explicit(level);
        replicas.set_if_empty(ask.replicas, explicit, Field::Replicas, &mut log);
        ack.set_if_empty(ask.ack, explicit, Field::Ack, &mut log);
        weights.set_if_empty(ask.weights.map(|all| [all; 2]), explicit, Field::Weights, &mut log);
        let of_level = || accepted.iter().filter(|wish| wish.rank == rank);
        for wish in of_level() {
            let source = Source::Requirement(wish.requirement, level);
            replicas.set_if_empty(wish.count(range, shared), source, Field::Replicas, &mut log);
            ack.set_if_empty(wish.requirement.row().ack, source, Field::Ack, &mut log);
        }
        let together = shared
            .then_some([READ_LATENCY_WEIGHTS, MIN_STORAGE_WEIGHTS])
            .filter(|_| of_level().any(|wish| wish.is_of_pair()));
        let weighed = || of_level().filter(|wish| wish.requirement.row().weights.is_some());
        if let Some(first) = weighed().next() {
            let sum = weighed().filter_map(|wish| wish.requirement.row().weights);
            let sum = sum.fold([0.0; 3], |sum, row| [sum[0] + row[0], sum[1] + row[1], sum[2] + row[2]]);
            let both = together.or_else(|| Weights::new(sum[0], sum[1], sum[2]).map(|all| [all; 2]));
            let source = Source::Requirement(first.requirement, level);
            if together.is_none() && weights.0.is_none() {
                let row = |wish: &Wish| wish.requirement.row().weights;
                let differ = weighed().filter(|wish| row(wish) != row(first));
                let added = |wish: &Wish| (first.requirement, wish.requirement);
                log.extend(differ.map(added).map(|(first, second)| Resolution::Added { first, second, level }));
            }
            weights.set_if_empty(both, source, Field::Weights, &mut log);
        }
    }
    if shared && weights.is([READ_LATENCY_WEIGHTS, MIN_STORAGE_WEIGHTS]) {
        log.push(Resolution::Shared { first: Requirement::MinReadLatency, rest: Requirement::MinStorage });
    }

    let durable = accepted.iter().find(|wish| wish.requirement == Requirement::MaxDurability).map(|wish| wish.rank);
    // If a level allows volatile replicas explicitly, neither its requirements nor the levels below revoke that.
    let volatile = levels.iter().position(|(_, ask)| ask.volatile == Some(true));

    let budget = levels.iter().find_map(|(_, ask)| ask.budget);
    let (least, most) = (range.min.clamp(1, Replicas::MAX_COUNT), range.max.clamp(1, Replicas::MAX_COUNT));
    let wanted = replicas.or(if budget.is_some() { most } else { range.default });
    let used = wanted.clamp(least, most.max(least));
    if used != wanted {
        log.push(Resolution::Clamped { asked: wanted, used });
    }
    let [first, rest] = weights.or([Weights::EQUAL; 2]);
    let policy = Policy {
        replicas: used,
        least,
        ack: ack.or(Ack::Placed),
        first,
        rest,
        raw_first: has(Requirement::MinReadLatency),
        energy: has(Requirement::MinEnergy),
        spread: has(Requirement::MaxLoadBalance),
        distinct_tiers: has(Requirement::MaxReadBandwidth),
        any_target: has(Requirement::MaxWriteAvailability),
        volatile: levels.iter().find_map(|(_, ask)| ask.volatile).unwrap_or(false),
        persistent: durable.is_some_and(|durable| volatile.is_none_or(|volatile| durable < volatile)),
        budget,
        max_latency: levels.iter().find_map(|(_, ask)| ask.max_latency),
        tiers: levels.iter().find_map(|(_, ask)| ask.tiers).unwrap_or_default(),
        ..Policy::default()
    };
    (policy, log)
}

/// The weights of replica 0 if both fast reads and small storage are required.
const READ_LATENCY_WEIGHTS: Weights = Weights { compress: 0.0, decompress: 1.0, ratio: 0.0 };
/// The weights of the other replicas if both fast reads and small storage are required.
const MIN_STORAGE_WEIGHTS: Weights = Weights::ARCHIVAL;

/// An accepted requirement.
struct Wish {
    requirement: Requirement,
    number: Option<u8>,
    /// The index of the level, which distinguishes two levels of the same kind.
    rank: usize,
    level: Level,
}

impl Wish {
    fn is_of_pair(&self) -> bool {
        matches!(self.requirement, Requirement::MinReadLatency | Requirement::MinStorage)
    }

    /// Returns the number of replicas that the requirement sets. If `min_read_latency` and `min_storage` apply
    /// together, neither sets one, because they would set opposite bounds.
    fn count(&self, range: Replicas, shared: bool) -> Option<u8> {
        let bound = |count| match count {
            Count::Min => range.min,
            Count::Max => range.max,
        };
        let row = self.requirement.row().replicas.filter(|_| !(shared && self.is_of_pair()));
        self.number.or(row.map(bound))
    }
}

/// Returns the accepted requirements in the order of their levels, then of their positions.
fn accept_requirements(levels: &[(Level, &Ask)], log: &mut Vec<Resolution>) -> SmallVec<[Wish; 8]> {
    let mut accepted: SmallVec<[Wish; 8]> = SmallVec::new();
    let mut off: SmallVec<[Requirement; 8]> = SmallVec::new();
    for (rank, &(level, ask)) in levels.iter().enumerate() {
        for asked in &ask.requirements {
            let requirement = asked.requirement;
            let number = match asked.value {
                Value::Off => {
                    off.push(requirement);
                    continue;
                }
                Value::On => None,
                Value::Number(number) => Some(number),
            };
            let drops = |wish: &&Wish| wish.rank == rank || requirement.is_decided_by(wish.requirement);
            let mut dropping = accepted.iter().filter(drops);
            let conflict = dropping.find_map(|wish| Some((wish, wish.requirement.conflict(requirement)?)));
            if off.contains(&requirement) {
                log.push(Resolution::SwitchedOff { requirement, level });
            } else if let Some((wish, over)) = conflict {
                let (stands, above) = (wish.requirement, wish.level);
                log.push(Resolution::Dropped { requirement, level, stands, above, over });
            } else if !accepted.iter().any(|wish| wish.requirement == requirement) {
                accepted.push(Wish { requirement, number, rank, level });
            }
        }
    }
    accepted
}

/// Returns the pairs of requirements that complement each other.
fn find_complements(accepted: &[Wish]) -> Vec<Resolution> {
    let pairs =
        accepted.iter().enumerate().flat_map(|(i, first)| accepted[i + 1..].iter().map(move |second| (first, second)));
    let requirements = pairs.map(|(first, second)| (first.requirement, second.requirement));
    let complement = |(first, second): (Requirement, Requirement)| {
        Some(Resolution::Complement { first, second, over: first.complement(second)? })
    };
    requirements.filter_map(complement).collect()
}

/// A part of the policy and its origin; the first value set is kept.
struct Slot<T>(Option<(T, Source)>);

impl<T: PartialEq + Copy> Slot<T> {
    fn set_if_empty(&mut self, value: Option<T>, source: Source, over: Field, log: &mut Vec<Resolution>) {
        let Some(value) = value else { return };
        match self.0 {
            None => self.0 = Some((value, source)),
            Some((held, _)) if held == value => {}
            Some((_, winner)) => log.push(Resolution::Overridden { loser: source, winner, over }),
        }
    }

    fn is(&self, value: T) -> bool {
        self.0.is_some_and(|(held, _)| held == value)
    }

    fn or(&self, default: T) -> T {
        self.0.map_or(default, |(held, _)| held)
    }
}

#[cfg(test)]
mod tests;
