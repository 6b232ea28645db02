//! The meaning of the steps of nodes, in the simplest words.

use std::collections::{BTreeMap, HashMap};

use terrace_catalog::Catalog;
use terrace_format::{Change, Edit, Extent, Object, Place, Replica, Step, TargetId, Task};

struct Served {
    incarnation: u64,
    short: u64,
    is_doubtful: bool,
    synced: u64,
}

#[derive(Default)]
pub struct Members {
    joined: u64,
    /// The short number, and the last commit that the index had.
    live: BTreeMap<u64, (u64, u64)>,
    served: BTreeMap<TargetId, Served>,
    floor: u64,
    /// The last commit that added a frame to each segment.
    added: HashMap<(TargetId, u64), u64>,
    pub floors_raised: usize,
    pub floors_refused: usize,
}

fn short_of(place: Place) -> u64 {
    place.segment >> 39
}

fn new_replicas(change: &Change) -> Vec<Replica> {
    let of = |edit: &Edit| match edit {
        Edit::Made { replica, .. } => vec![*replica],
        edit => edit
            .new_extents()
            .map_or(Vec::new(), |(_, new)| new.iter().flat_map(|n| n.extent.replicas.clone()).collect()),
    };
    change.edits.iter().flat_map(of).collect()
}

impl Members {
    /// Carries out a step that is no client's, after commit `now`, with which `catalog` ends.
    pub fn carry_out(&mut self, catalog: &Catalog, incarnation: u64, step: Step, now: u64) {
        match step {
            Step::Join { .. } => {
                self.joined += 1;
                self.live.insert(incarnation, (self.joined, 0));
            }
            Step::Leave { incarnation } => drop(self.live.remove(&incarnation)),
            Step::Report { sequence, .. } => {
                if let Some((_, reported)) = self.live.get_mut(&incarnation) {
                    *reported = sequence.max(*reported);
                }
            }
            Step::Serve { target, doubtful, .. } => {
                let Some((short, _)) = self.live.get(&incarnation).copied() else { return };
                let before = self.served.remove(&target);
                let synced = before.as_ref().map_or(0, |before| before.synced);
                let is_doubtful = doubtful || before.is_some_and(|before| before.is_doubtful);
                self.served.insert(target, Served { incarnation, short, is_doubtful, synced });
            }
            Step::Synced { target, sequence } => {
                if let Some(served) = self.served.get_mut(&target).filter(|served| served.incarnation == incarnation) {
                    (served.is_doubtful, served.synced) = (false, sequence.max(served.synced));
                }
            }
            Step::Floor { sequence } => {
                let reported = self.live.values().map(|(_, reported)| *reported);
                let needed = self.needed_and_unsynced(catalog);
                let may_rise = reported.chain(needed).all(|known| known >= sequence) && sequence <= now;
                if may_rise && sequence > self.floor {
                    self.floor = sequence;
                    self.floors_raised += 1;
                } else {
                    self.floors_refused += 1;
                }
            }
            Step::Begin { .. } | Step::Change { .. } | Step::End { .. } | Step::Piece { .. } | Step::Whole { .. } => {
                unreachable!("a client's step")
            }
        }
    }

    /// The marks of the targets that hold a frame which is needed and not synced.
    fn needed_and_unsynced(&self, catalog: &Catalog) -> Vec<u64> {
        let mut marks = Vec::new();
        let mut note = |extents: &[Extent]| {
            for replica in extents.iter().flat_map(|extent| &extent.replicas) {
                let Some(served) = self.served.get(&replica.target) else { continue };
                let added = self.added.get(&(replica.target, replica.place.segment));
                marks.extend(added.filter(|added| **added > served.synced).map(|_| served.synced));
            }
        };
        let each = |_: &[u8], _: &Object, extents: &[Extent]| {
            note(extents);
            Ok::<_, terrace_catalog::Error>(true)
        };
        catalog.each_object(b"", each).unwrap();
        for (object, _) in catalog.staged().unwrap() {
            note(&catalog.staged_extents(object).unwrap());
        }
        marks
    }

    pub fn is_stale(&self, change: &Change) -> bool {
        let is_stale = |r: &Replica| self.served.get(&r.target).is_some_and(|served| served.short != short_of(r.place));
        new_replicas(change).iter().any(is_stale)
    }

    pub fn note(&mut self, change: &Change, sequence: u64) {
        for replica in new_replicas(change) {
            self.added.insert((replica.target, replica.place.segment), sequence);
        }
    }

    /// Whether a frame has a synced replica beside that of the task's target.
    pub fn keeps_synced(&self, catalog: &Catalog, task: &Task, key: &[u8]) -> bool {
        let is_synced = |r: &Replica| {
            let Some(served) = self.served.get(&r.target) else { return false };
            let added = self.added.get(&(r.target, r.place.segment)).copied().unwrap_or(0);
            !served.is_doubtful && self.live.contains_key(&served.incarnation) && added <= served.synced
        };
        let extent = catalog.frame(task, key).unwrap();
        extent.is_some_and(|e| e.replicas.iter().any(|replica| replica.target != task.target && is_synced(replica)))
    }
}
