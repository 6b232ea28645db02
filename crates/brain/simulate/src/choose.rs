//! [`Choose`]: who says where replicas go; [`Planner`]: Terrace's own planner.

use terrace_codec::Encoding;
use terrace_cost::{Costs, Expected};
use terrace_plan::plan::{GaveWay, Memo, NoRoom, Plan, Want, plan};
use terrace_plan::policy::Policy;
use terrace_plan::snapshot::{PAGE, Snapshot};

/// A part of a replica, or all of it, on a target. Blocks are of less than 4 GiB, so that 32 bits do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Which replica of the block.
    pub replica: u8,
    /// The target, as the snapshot has it.
    pub target: u16,
    /// Which block of the object: set by the simulation.
    pub block: u32,
    /// Bytes stored.
    pub stored: f32,
    /// Bytes of room that it is given.
    pub room: f32,
    /// Seconds to encode.
    pub encode: f32,
    /// Seconds to decode.
    pub decode: f32,
}

/// Says where a block's replicas go.
pub trait Choose {
    /// Adds the pieces of all replicas of a block of this kind, replica 0 first.
    ///
    /// # Errors
    /// [`NoRoom`] where not even one replica has a place.
    fn choose(&mut self, kind: usize, snapshot: &Snapshot, pieces: &mut Vec<Piece>) -> Result<(), NoRoom>;
}

/// A kind of block: how long it is, and what encodings do to it.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Bytes.
    pub bytes: u64,
    /// What encodings cost on it; storing it raw is always possible.
    pub costs: Vec<(Encoding, Expected)>,
}

/// The planner under a policy, where encodings cost what it expects.
pub struct Planner {
    policy: Policy,
    reads: f64,
    kinds: Vec<(Kind, Costs)>,
    memo: Memo,
    noted: Noted,
}

/// What plans did not hold to.
#[derive(Clone, Debug, Default)]
pub struct Noted {
    /// Blocks that were planned.
    pub blocks: u64,
    /// Those of fewer replicas than the policy wants.
    pub fewer: u64,
    /// For how many of them something gave way.
    pub gave_way: Vec<(GaveWay, u64)>,
}

impl Planner {
    /// For blocks of these kinds, which are expected to be read so many times; under one encoding only, if one is
    /// named.
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

    /// What plans did not hold to so far.
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
        let want = Want { reads: self.reads, ..Want::bytes(*bytes) };
        let planned = plan(&want, snapshot, &self.policy, costs, &mut self.memo)?;
        self.noted.note(planned, snapshot, &self.policy);
        for (replica, placed) in planned.replicas.iter().enumerate() {
            pieces.extend(placed.iter().map(|piece| {
                let raw = (u64::from(piece.pages) * PAGE).min(*bytes) as f64;
                let cost = known.iter().find(|(encoding, _)| *encoding == piece.encoding);
                let cost = cost.filter(|_| piece.encoding != Encoding::NONE).map(|(_, cost)| cost);
                let stored = cost.map_or(raw, |cost| raw * cost.stored) as f32;
                Piece {
                    replica: replica as u8,
                    target: piece.target.into(),
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
