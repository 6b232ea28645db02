//! The slow, obvious store: which states it may be in, after each kind of loss.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::versions::Version;

/// Lanes have keys of their own, so that what one of them may hold does not multiply with what others may hold.
pub const LANE_COUNT: usize = 3;

/// A version's number by key.
pub type World = BTreeMap<String, u64>;

/// The changes of a command.
#[derive(Clone, Debug)]
pub enum Change {
    Put(String, u64),
    Remove(String),
    Rename(String, String),
    Copy(String, String),
}

impl Change {
    fn apply(&self, world: &mut World) {
        match self {
            Change::Put(key, version) => {
                world.insert(key.clone(), *version);
            }
            Change::Remove(key) => {
                world.remove(key);
            }
            Change::Rename(from, to) => {
                if let Some(version) = world.remove(from) {
                    world.insert(to.clone(), version);
                }
            }
            Change::Copy(from, to) => {
                if let Some(version) = world.get(from).copied() {
                    world.insert(to.clone(), version);
                }
            }
        }
    }
}

/// Losses, from the smallest to the largest. An acknowledgement holds up to the loss that it is named after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// Every process: what is `placed` survives.
    Processes,
    /// All failure domains but one, and with them the store's own log: what is `replicated` survives.
    Domains,
    /// The power: what is `durable` survives.
    Power,
}

const ALL_LOSSES: [Loss; 3] = [Loss::Processes, Loss::Domains, Loss::Power];

/// The states that one lane may be in.
#[derive(Clone)]
struct Worlds(BTreeSet<World>);

impl Worlds {
    /// Applies a change that surely or maybe was made.
    fn apply(&mut self, change: &Change, surely: bool) {
        let changed = self.0.iter().map(|world| {
            let mut world = world.clone();
            change.apply(&mut world);
            world
        });
        let changed: BTreeSet<World> = changed.collect();
        match surely {
            true => self.0 = changed,
            false => self.0.extend(changed),
        }
    }
}

#[derive(Clone)]
pub struct Model {
    /// For each loss, the states that each lane may be in after it.
    lanes: [[Worlds; LANE_COUNT]; 3],
    pub versions: HashMap<u64, Version>,
}

impl Model {
    pub fn new() -> Model {
        let empty = || Worlds(BTreeSet::from([World::new()]));
        let lanes = [(); 3].map(|()| [(); LANE_COUNT].map(|()| empty()));
        Model { lanes, versions: HashMap::new() }
    }

    /// Applies a change that was acknowledged up to this loss; without an acknowledgement, it may have happened.
    pub fn apply(&mut self, lane: usize, change: &Change, holds: Option<Loss>) {
        for loss in ALL_LOSSES {
            self.lanes[loss as usize][lane].apply(change, holds.is_some_and(|holds| loss <= holds));
        }
    }

    /// All that is there now is safe from every loss.
    pub fn synced(&mut self) {
        let now = self.lanes[0].clone();
        for worlds in &now {
            for version in worlds.0.iter().flat_map(BTreeMap::values) {
                if let Some(version) = self.versions.get_mut(version) {
                    version.replicated = true;
                }
            }
        }
        self.lanes = [now.clone(), now.clone(), now];
    }

    /// The contents of a lane, which are known as long as no fault has happened.
    pub fn now(&self, lane: usize) -> &World {
        self.lanes[0][lane].0.iter().next().unwrap()
    }

    /// Everything that is there.
    pub fn all(&self) -> World {
        (0..LANE_COUNT).flat_map(|lane| self.now(lane).clone()).collect()
    }

    /// The versions that a key may have.
    pub fn versions_at(&self, key: &str) -> Vec<u64> {
        self.lanes[0].iter().flat_map(|worlds| &worlds.0).filter_map(|world| world.get(key).copied()).collect()
    }

    /// Takes in what was found after a loss; otherwise what was expected.
    pub fn observe(&mut self, loss: Loss, found: &World) -> Result<(), String> {
        for lane in 0..LANE_COUNT {
            let here: World = found.iter().filter(|(key, _)| lane_of(key) == Some(lane)).map(clone).collect();
            let allowed = &self.lanes[loss as usize][lane].0;
            if !allowed.contains(&here) {
                return Err(explain(lane, loss, &here, allowed));
            }
            let found = Worlds(BTreeSet::from([here]));
            self.lanes[0][lane] = found.clone();
            if loss > Loss::Processes {
                // What has survived the loss is where it cannot be lost by the same loss again.
                self.lanes[1][lane] = found.clone();
            }
            if loss == Loss::Power {
                self.lanes[2][lane] = found;
            }
        }
        match found.keys().find(|key| lane_of(key).is_none()) {
            Some(key) => Err(format!("{key} was never put")),
            None => Ok(()),
        }
    }

    /// Notes whether a move may have left what is there with too few replicas.
    pub fn note_thinned(&mut self, thinned: bool) {
        self.versions.values_mut().for_each(|version| version.thinned = thinned);
    }

    /// Nothing is known of replicas: those in memory are gone.
    pub fn forget_replicas(&mut self) {
        self.versions.values_mut().for_each(|version| version.replicated = false);
    }

    /// Whether a sync is due because too many states are possible.
    pub fn is_vague(&self) -> bool {
        self.lanes.iter().flatten().any(|worlds| worlds.0.len() > 500)
    }
}

fn clone((key, version): (&String, &u64)) -> (String, u64) {
    (key.clone(), *version)
}

/// The lane that a key belongs to.
pub fn lane_of(key: &str) -> Option<usize> {
    (0..LANE_COUNT).find(|lane| key.starts_with(&format!("l{lane}/")))
}

/// How what was found differs from the states that are allowed.
fn explain(lane: usize, loss: Loss, found: &World, allowed: &BTreeSet<World>) -> String {
    let mut keys: BTreeSet<&String> = found.keys().collect();
    keys.extend(allowed.iter().flat_map(BTreeMap::keys));
    let mut lines = vec![format!("lane {lane}, after the loss of {loss:?}: none of {} states fits", allowed.len())];
    for key in keys {
        let may: BTreeSet<Option<u64>> = allowed.iter().map(|world| world.get(key).copied()).collect();
        let is = found.get(key).copied();
        if may.len() > 1 || !may.contains(&is) {
            lines.push(format!("  {key} is version {is:?}, may be one of {may:?}"));
        }
    }
    lines.join("\n")
}
