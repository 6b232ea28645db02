//! The used space of each target, and what each process knows of it.

use terrace_cost::Work;
use terrace_plan::snapshot::Snapshot;

use crate::choose::Piece;
use crate::cluster::{Cluster, ClusterError, UNLIMITED_CAPACITY_BYTES};
use crate::machine::Machine;

/// A planning process's knowledge about the writes of others. It decides between interchangeable targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knows {
    /// Everything that any process planned, so that the load is even.
    All,
    /// The writes that have started, as Terrace's processes know them. They do not know about blocks that are planned
    /// and still being encoded.
    Begun,
}

/// The interval at which a node applies the speeds that it has learned, in seconds.
const SPEED_UPDATE_INTERVAL_SECONDS: f64 = 0.1;
/// A node ignores learned speeds that deviate from the planned ones by at most this share.
const MAX_IGNORED_SPEED_DEVIATION: f64 = 0.2;
/// The weight of a new speed sample relative to all earlier ones.
const SPEED_SAMPLE_WEIGHT: f64 = 1.0 / 16.0;

/// The tiers as the processes of each node see them.
pub(crate) struct Room {
    knows: Knows,
    nodes: Vec<View>,
    /// For each server, the capacity, the planned bytes, and the bytes whose write has started.
    capacity: Vec<u64>,
    taken: Vec<u64>,
    begun: Vec<u64>,
    /// The bytes stored in each tier.
    tiers: Vec<u64>,
}

/// A node's knowledge.
#[derive(Clone)]
struct View {
    /// The tiers without used space.
    empty: Snapshot,
    /// The used share of each tier in steps of 5 %, and the tiers with these shares.
    shares: Vec<u8>,
    filled: Snapshot,
    /// The learned write time per byte of each tier in seconds, and the value in the current plan.
    learned: Vec<f64>,
    used: Vec<f64>,
    /// The time at which the learned values were last compared with those in the plan.
    compared: f64,
    /// The learned read time per byte of each tier in seconds; the targets of a tier count as equally fast.
    reading: Vec<f64>,
    /// The duration of each target's own work.
    works: Vec<Work>,
}

impl Room {
    pub fn new(cluster: &Cluster, machine: &Machine<'_>, knows: Knows) -> Result<Room, ClusterError> {
        let empty = cluster.snapshot()?;
        let mut capacity = vec![UNLIMITED_CAPACITY_BYTES; machine.len()];
        for node in 0..cluster.nodes {
            for at in 0..empty.targets().len() as u16 {
                let limit = cluster.holder(&cluster.tiers[machine.tier(at)]).capacity;
                capacity[machine.target(node, at)] = limit.unwrap_or(UNLIMITED_CAPACITY_BYTES);
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
            compared: 0.0,
            reading,
            works: cluster.works(),
        };
        let none = vec![0; machine.len()];
        let tiers = vec![0; cluster.tiers.len()];
        let nodes = vec![view; cluster.nodes];
        Ok(Room { knows, nodes, capacity, taken: none.clone(), begun: none, tiers })
    }

    /// Returns the tiers as a node sees them, for a block of `bytes` bytes.
    pub fn snapshot(&mut self, node: usize, bytes: u64, now: f64, machine: &Machine<'_>) -> &Snapshot {
        let Room { knows, nodes, capacity, taken, begun, .. } = self;
        let view = &mut nodes[node];
        view.apply_learned_speeds(now);
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

    /// Takes the space of planned pieces.
    pub fn take(&mut self, node: usize, pieces: &[Piece], machine: &Machine<'_>) {
        for piece in pieces {
            self.taken[machine.target(node, piece.target)] += round_up_bytes(piece.room);
            self.tiers[machine.tier(piece.target)] += round_up_bytes(piece.stored);
        }
    }

    /// Records the start of a write.
    pub fn record_write_start(&mut self, node: usize, piece: &Piece, machine: &Machine<'_>) {
        self.begun[machine.target(node, piece.target)] += round_up_bytes(piece.room);
    }

    /// Records the duration of a write, in seconds.
    pub fn record_write(&mut self, node: usize, piece: &Piece, seconds: f64, machine: &Machine<'_>) {
        if self.knows == Knows::Begun {
            let (tier, each) = (machine.tier(piece.target), seconds / f64::from(piece.stored).max(1.0));
            let learned = &mut self.nodes[node].learned[tier];
            *learned += (each - *learned) * SPEED_SAMPLE_WEIGHT;
        }
    }

    /// Records the duration of a read, in seconds.
    pub fn record_read(&mut self, node: usize, piece: &Piece, seconds: f64, machine: &Machine<'_>) {
        let learned = &mut self.nodes[node].reading[machine.tier(piece.target)];
        *learned += (seconds / f64::from(piece.stored).max(1.0) - *learned) * SPEED_SAMPLE_WEIGHT;
    }

    /// Returns the expected duration of a read in seconds. It depends only on what the processes of the node know, as
    /// in Terrace.
    pub fn expected_read_seconds(&self, node: usize, piece: &Piece, machine: &Machine<'_>) -> Option<f64> {
        let view = &self.nodes[node];
        let each = view.reading[machine.tier(piece.target)];
        let takes = view.empty.targets()[usize::from(piece.target)].latency + f64::from(piece.stored) * each;
        (self.knows == Knows::Begun).then_some(takes)
    }

    /// Returns the bytes stored in each tier.
    pub fn stored(&self) -> &[u64] {
        &self.tiers
    }
}

impl View {
    /// Applies the learned speeds to later plans if they deviate enough. A tier never counts as faster than the one
    /// before it.
    fn apply_learned_speeds(&mut self, now: f64) {
        if now < self.compared + SPEED_UPDATE_INTERVAL_SECONDS {
            return;
        }
        self.compared = now;
        let mut least = 0.0f64;
        let learned: Vec<f64> = self.learned.iter().map(|each| (least = least.max(*each), least).1).collect();
        let differ =
            |(learned, used): (&f64, &f64)| (1.0 / learned - 1.0 / used).abs() > MAX_IGNORED_SPEED_DEVIATION / used;
        if !learned.iter().zip(&self.used).any(differ) {
            return;
        }
        let mut targets = self.empty.targets().to_vec();
        targets.iter_mut().for_each(|target| target.write = round_speed(1.0 / learned[usize::from(target.tier)]));
        if let Ok(empty) = Snapshot::new(self.empty.tiers().to_vec(), targets, self.empty.core_watts()) {
            (self.empty, self.used) = (empty.working(self.works.iter().copied()), learned);
            self.shares.clear();
        }
    }
}

/// Rounds a speed to steps of a quarter, so that nodes with nearly the same speeds share remembered plans.
fn round_speed(speed: f64) -> f64 {
    1.25f64.powi((speed.ln() / 1.25f64.ln()).round() as i32)
}

/// Returns the capacity of all targets of a tier.
pub(crate) fn capacity(cluster: &Cluster, tier: &crate::Tier) -> Option<u64> {
    tier.capacity.map(|each| each.saturating_mul(cluster.own_targets(tier) as u64))
}

fn round_up_bytes(bytes: f32) -> u64 {
    f64::from(bytes).ceil() as u64
}
