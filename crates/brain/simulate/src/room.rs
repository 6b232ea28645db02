//! What is taken of each target, and what a process knows of it.

use terrace_cost::Work;
use terrace_plan::snapshot::Snapshot;

use crate::choose::Piece;
use crate::cluster::{Cluster, ClusterError, ENDLESS, Place};
use crate::machine::Machine;

/// What whoever plans knows of what others write: it decides between targets that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knows {
    /// All that was planned, by whomever: the load is even.
    All,
    /// What has begun to be written, as Terrace's processes know it: what was planned and is still being encoded they do not.
    Begun,
}

/// How often a node looks at what it has learned of speeds, in seconds.
const FRESH: f64 = 0.1;
/// The share by which a speed may differ from what was planned with.
const HARDLY: f64 = 0.2;
/// How much a write counts against all before it.
const WEIGHT: f64 = 1.0 / 16.0;

/// The tiers as the processes of each node see them.
pub(crate) struct Room {
    knows: Knows,
    nodes: Vec<View>,
    /// Bytes that each server may hold, that are planned on it, and that have begun to be written.
    capacity: Vec<u64>,
    taken: Vec<u64>,
    begun: Vec<u64>,
    /// Bytes stored in each tier.
    tiers: Vec<u64>,
}

/// What a node knows.
#[derive(Clone)]
struct View {
    /// The tiers as if they were empty.
    empty: Snapshot,
    /// The share of each tier that is taken, in steps of 5 %, and the tiers with these.
    shares: Vec<u8>,
    filled: Snapshot,
    /// Seconds for which a byte was under way to each tier, and what was planned with.
    learned: Vec<f64>,
    used: Vec<f64>,
    looked: f64,
    /// Seconds for which a byte was under way from each tier: its targets count as equally quick.
    reading: Vec<f64>,
    /// What each target works.
    works: Vec<Work>,
}

impl Room {
    pub fn new(cluster: &Cluster, machine: &Machine<'_>, knows: Knows) -> Result<Room, ClusterError> {
        let empty = cluster.snapshot()?;
        let mut capacity = vec![ENDLESS; machine.len()];
        for node in 0..cluster.nodes {
            for at in 0..empty.targets().len() as u16 {
                let limit = cluster.tiers[machine.tier(at)].capacity;
                capacity[machine.target(node, at)] = limit.unwrap_or(ENDLESS);
            }
        }
        let of = |tier: usize| empty.targets().iter().find(|target| usize::from(target.tier) == tier);
        let speeds: Vec<f64> = (0..cluster.tiers.len()).map(|tier| of(tier).map_or(0.0, |t| 1.0 / t.write)).collect();
        let reading = (0..cluster.tiers.len()).map(|tier| of(tier).map_or(0.0, |t| 1.0 / t.read)).collect();
        let (filled, used) = (empty.clone(), speeds.clone());
        let view = View {
            empty,
            shares: Vec::new(),
            filled,
            learned: speeds,
            used,
            looked: 0.0,
            reading,
            works: cluster.works(),
        };
        let none = vec![0; machine.len()];
        let tiers = vec![0; cluster.tiers.len()];
        let nodes = vec![view; cluster.nodes];
        Ok(Room { knows, nodes, capacity, taken: none.clone(), begun: none, tiers })
    }

    /// The tiers as they are for a node, for a block of so many bytes.
    pub fn snapshot(&mut self, node: usize, bytes: u64, now: f64, machine: &Machine<'_>) -> &Snapshot {
        let Room { knows, nodes, capacity, taken, begun, .. } = self;
        let view = &mut nodes[node];
        view.look(now);
        let count = view.empty.targets().len() as u16;
        let mut shares = vec![(0.0, 0.0); view.empty.tiers().len()];
        for at in 0..count {
            let (target, share) = (machine.target(node, at), &mut shares[machine.tier(at)]);
            *share = (share.0 + taken[target] as f64, share.1 + capacity[target] as f64);
        }
        let steps: Vec<u8> = shares.iter().map(|(taken, all)| (taken / all.max(1.0) * 20.0).round() as u8).collect();
        if view.shares != steps {
            view.filled = view.empty.clone().filled(steps.iter().map(|steps| f64::from(*steps) / 20.0));
            view.shares = steps;
        }
        for at in 0..count {
            let target = machine.target(node, at);
            let free = capacity[target] - taken[target].min(capacity[target]);
            let seen = capacity[target] - begun[target].min(capacity[target]);
            let believes = *knows == Knows::Begun && free >= bytes;
            view.filled.set_space(at.into(), if believes { seen } else { free }, 0);
        }
        &view.filled
    }

    /// Takes the space of what is planned.
    pub fn take(&mut self, node: usize, pieces: &[Piece], machine: &Machine<'_>) {
        for piece in pieces {
            self.taken[machine.target(node, piece.target)] += whole(piece.room);
            self.tiers[machine.tier(piece.target)] += whole(piece.stored);
        }
    }

    /// Notes what begins to be written.
    pub fn begins(&mut self, node: usize, piece: &Piece, machine: &Machine<'_>) {
        self.begun[machine.target(node, piece.target)] += whole(piece.room);
    }

    /// Notes how many seconds a piece was under way that was written.
    pub fn wrote(&mut self, node: usize, piece: &Piece, seconds: f64, machine: &Machine<'_>) {
        if self.knows == Knows::Begun {
            let (tier, each) = (machine.tier(piece.target), seconds / f64::from(piece.stored).max(1.0));
            let learned = &mut self.nodes[node].learned[tier];
            *learned += (each - *learned) * WEIGHT;
        }
    }

    /// Notes how many seconds a piece was under way that was read.
    pub fn got(&mut self, node: usize, piece: &Piece, seconds: f64, machine: &Machine<'_>) {
        let learned = &mut self.nodes[node].reading[machine.tier(piece.target)];
        *learned += (seconds / f64::from(piece.stored).max(1.0) - *learned) * WEIGHT;
    }

    /// Seconds that reading a piece should take, as a process of the node knows it, which is all that Terrace's know.
    pub fn reading(&self, node: usize, piece: &Piece, machine: &Machine<'_>) -> Option<f64> {
        let view = &self.nodes[node];
        let each = view.reading[machine.tier(piece.target)];
        let takes = view.empty.targets()[usize::from(piece.target)].latency + f64::from(piece.stored) * each;
        (self.knows == Knows::Begun).then_some(takes)
    }

    /// Bytes stored in each tier.
    pub fn stored(&self) -> &[u64] {
        &self.tiers
    }
}

impl View {
    /// Plans with what was learned of speeds from now on, where that differs. A tier is never quicker than one before.
    fn look(&mut self, now: f64) {
        if now < self.looked + FRESH {
            return;
        }
        self.looked = now;
        let mut least = 0.0f64;
        let learned: Vec<f64> = self.learned.iter().map(|each| (least = least.max(*each), least).1).collect();
        let differ = |(learned, used): (&f64, &f64)| (1.0 / learned - 1.0 / used).abs() > HARDLY / used;
        if !learned.iter().zip(&self.used).any(differ) {
            return;
        }
        let mut targets = self.empty.targets().to_vec();
        targets.iter_mut().for_each(|target| target.write = step(1.0 / learned[usize::from(target.tier)]));
        if let Ok(empty) = Snapshot::new(self.empty.tiers().to_vec(), targets, self.empty.core_watts()) {
            (self.empty, self.used) = (empty.working(self.works.iter().copied()), learned);
            self.shares.clear();
        }
    }
}

/// The nearest step of a quarter, so that nodes that learned nearly the same share what was planned.
fn step(speed: f64) -> f64 {
    1.25f64.powi((speed.ln() / 1.25f64.ln()).round() as i32)
}

/// What all targets of a tier hold together.
pub(crate) fn capacity(cluster: &Cluster, tier: &crate::Tier) -> Option<u64> {
    let copies = if tier.place == Place::Node { cluster.nodes } else { 1 };
    tier.capacity.map(|each| each.saturating_mul((copies * tier.targets) as u64))
}

fn whole(bytes: f32) -> u64 {
    f64::from(bytes).ceil() as u64
}
