//! [`Choose`]: the interface that places replicas; [`Planner`]: its implementation by Terrace's planner.

use terrace_codec::Encoding;
use terrace_cost::{Costs, Expected};
use terrace_plan::plan::{GaveWay, Memo, NoRoom, Plan, Want, plan};
use terrace_plan::policy::Policy;
use terrace_plan::snapshot::{PAGE_BYTES, Snapshot};

/// A part of a replica, or a whole replica, on a target. Blocks are smaller than 4 GiB, so that 32 bits suffice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// The index of the replica.
    pub replica: u8,
    /// The index of the target in the snapshot.
    pub target: u16,
    /// The index of the block in the object; the simulation sets it.
    pub block: u32,
    /// The stored bytes.
    pub stored: f32,
    /// The bytes of space that are reserved for it.
    pub room: f32,
    /// The time to encode it, in seconds.
    pub encode: f32,
    /// The time to decode it, in seconds.
    pub decode: f32,
}

/// Places the replicas of blocks.
pub trait Choose {
    /// Appends the pieces of all replicas of a block of this kind, replica 0 first.
    ///
    /// # Errors
    /// [`NoRoom`] if not even one replica fits.
    fn choose(&mut self, kind: usize, snapshot: &Snapshot, pieces: &mut Vec<Piece>) -> Result<(), NoRoom>;
}

/// A kind of block: its length, and the costs of encodings on it.
#[derive(Clone, Debug)]
pub struct Kind {
    /// The length in bytes.
    pub bytes: u64,
    /// The costs of encodings on it; raw storage is always possible.
    pub costs: Vec<(Encoding, Expected)>,
}

/// The planner under a policy. Encodings cost exactly what the planner expects.
pub struct Planner {
    policy: Policy,
    reads: f64,
    kinds: Vec<(Kind, Costs)>,
    memo: Memo,
    noted: Noted,
}

/// The deviations of plans from the policy.
#[derive(Clone, Debug, Default)]
pub struct Noted {
    /// The number of planned blocks.
    pub blocks: u64,
    /// The number of blocks with fewer replicas than the policy wants.
    pub fewer: u64,
    /// The number of blocks for which each wish was dropped.
    pub gave_way: Vec<(GaveWay, u64)>,
}

impl Planner {
    /// Creates a planner for blocks of these kinds with an expected number of reads; restricted to one encoding if one
    /// is named.
    pub fn new(policy: Policy, reads: f64, kinds: Vec<Kind>, only: Option<Encoding>) -> Planner {
        let kinds = kinds.into_iter().map(|kind| {
            let of = |encoding: Encoding| kind.costs.iter().find(|(known, _)| *known == encoding);
            let costs = match only {
                None => Costs::new(kind.costs.iter().copied()),
                Some(only) => of(only).map_or_else(|| Costs::new([]), |(_, cost)| Costs::only(only, cost)),
            };
            (kind, costs)
        });
        Planner { policy, reads, kinds: kinds.collect(), memo: Memo::new(1 << 14), noted: Noted::default() }
    }

    /// Returns the deviations of plans from the policy so far.
    pub fn noted(&self) -> &Noted {
        &self.noted
    }
}

impl Noted {
    fn note(&mut self, planned: &Plan, snapshot: &Snapshot, policy: &Policy) {
        self.blocks += 1;
        self.fewer += u64::from(planned.replicas.len() < policy.replicas.into());
        for way in planned.gave_way.iter().filter(|way| planned.shows(**way, snapshot, policy)) {
            match self.gave_way.iter_mut().find(|(known, _)| known == way) {
                Some((_, blocks)) => *blocks += 1,
                None => self.gave_way.push((*way, 1)),
            }
        }
    }
}

impl Choose for Planner {
    fn choose(&mut self, kind: usize, snapshot: &Snapshot, pieces: &mut Vec<Piece>) -> Result<(), NoRoom> {
        let (Kind { bytes, costs: known }, costs) = &self.kinds[kind];
        // Any number that differs from block to block.
        let want = Want { reads: self.reads, hash: Some(self.noted.blocks), ..Want::bytes(*bytes) };
        let planned = plan(&want, snapshot, &self.policy, costs, &mut self.memo)?;
        self.noted.note(planned, snapshot, &self.policy);
        for (replica, placed) in planned.replicas.iter().enumerate() {
            pieces.extend(placed.iter().map(|piece| {
                let raw = (u64::from(piece.pages) * PAGE_BYTES).min(*bytes) as f64;
                let cost = known.iter().find(|(encoding, _)| *encoding == piece.encoding);
                let cost = cost.filter(|_| piece.encoding != Encoding::NONE).map(|(_, cost)| cost);
                let stored = cost.map_or(raw, |cost| raw * cost.stored) as f32;
                Piece {
                    replica: replica as u8,
                    target: piece.target,
                    block: 0,
                    stored,
                    room: stored,
                    encode: cost.map_or(0.0, |cost| raw * cost.encode) as f32,
                    decode: cost.map_or(0.0, |cost| raw * cost.decode) as f32,
                }
            }));
        }
        Ok(())
    }
}
