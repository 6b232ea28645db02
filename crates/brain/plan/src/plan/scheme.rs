//! [`Plan`]: the planner's result (the paper's scheme).

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use terrace_codec::Encoding;

use crate::policy::Policy;
use crate::snapshot::{PAGE_BYTES, Snapshot, Target};

/// A run of a request's pages in one replica, with its target and encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The first page, relative to the start of the request.
    pub start: u32,
    /// The number of pages.
    pub pages: u32,
    /// The index of the target.
    pub target: u16,
    /// The encoding of its bytes.
    #[serde(with = "crate::named")]
    pub encoding: Encoding,
    /// The expected number of stored bytes.
    pub stored: u64,
}

impl Piece {
    /// Returns the first page after the piece.
    pub fn end(&self) -> u32 {
        self.start + self.pages
    }
}

/// The cost of a plan in picoseconds (picojoules under `min_energy`), compared field by field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cost {
    /// The duration (HReplica eq. 1) of the write: of replica 0 if the write does not wait for the others, otherwise of
    /// all replicas.
    pub first: u64,
    /// The cost of the replicas that the write does not wait for.
    pub then: u64,
}

/// A planned replica: pieces in page order that cover all pages without gaps.
pub type ReplicaPlan = SmallVec<[Piece; 2]>;

/// A wish that is not strict, and that the planner dropped so that as many replicas fit. The variants are in the order
/// in which wishes are dropped. A wish is dropped only after those before it that the policy contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GaveWay {
    /// Replica 0 is stored raw.
    RawFirst,
    /// Replicas of a page lie on distinct tiers.
    DistinctTiers,
    /// A replica has at most as many pieces as there are tiers (HReplica Table II).
    Pieces,
    /// Only `tiers`, and `max_latency`, hold (under `max_write_availability`).
    Targets,
    /// The budget holds; the fewest replicas that are allowed need more.
    Budget,
}

/// The placement of a request's replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The number of pages of the request.
    pub pages: u32,
    /// The replicas; the first is written first and read.
    pub replicas: SmallVec<[ReplicaPlan; 3]>,
    /// The number of replicas that the policy wants.
    pub wanted: u8,
    /// The cost; pages that stay where they are cost a twentieth less.
    pub cost: Cost,
    /// The plan is proven to be the cheapest for this number of replicas: exactly up to 16 pages, to within 1/1000
    /// above. False if that is not known.
    pub proven: bool,
    /// The wishes that were dropped for this number of replicas.
    pub gave_way: SmallVec<[GaveWay; 4]>,
    /// The bytes that have to be written; pages that stay where they are do not count.
    pub moves: u64,
}

impl Plan {
    /// Returns the expected number of stored bytes of all replicas.
    pub fn stored(&self) -> u64 {
        self.replicas.iter().flatten().map(|piece| piece.stored).sum()
    }

    /// Returns whether the plan in fact violates a wish. Some wishes are dropped only because they precede the one that
    /// had to be.
    pub fn shows(&self, way: GaveWay, snapshot: &Snapshot, policy: &Policy) -> bool {
        let of = |piece: &Piece| snapshot.targets().get(usize::from(piece.target));
        let tier = |piece: &Piece| of(piece).map(|target| target.tier);
        let slow =
            |piece: &Piece| of(piece).zip(policy.max_latency).is_some_and(|(target, most)| target.latency > most);
        let other_tier = |piece: &Piece| tier(piece).is_some_and(|tier| !policy.tiers.has(tier));
        let all = || self.replicas.iter().enumerate().flat_map(|(at, all)| all.iter().map(move |piece| (at, piece)));
        let meet = |a: &Piece, b: &Piece| a.start < b.end() && b.start < a.end() && tier(a) == tier(b);
        match way {
            GaveWay::RawFirst => all().any(|(at, piece)| at == 0 && piece.encoding != Encoding::NONE),
            GaveWay::DistinctTiers => all().any(|(at, a)| all().any(|(other, b)| at < other && meet(a, b))),
            GaveWay::Pieces => self.replicas.iter().any(|pieces| pieces.len() > max_pieces(snapshot)),
            GaveWay::Targets => all().any(|(at, piece)| other_tier(piece) || (at == 0 && slow(piece))),
            GaveWay::Budget => {
                let given = f64::from(self.pages) * PAGE_BYTES as f64;
                policy.budget.is_some_and(|budget| self.stored() as f64 > budget.0 * given)
            }
        }
    }

    /// Reserves the plan's space in a snapshot, so that later plans take it into account. Pages that stay count as new.
    pub fn reserve(&self, snapshot: &mut Snapshot) {
        for piece in self.replicas.iter().flatten() {
            let target = usize::from(piece.target);
            if let Some(&Target { free, reserved, .. }) = snapshot.targets().get(target) {
                snapshot.set_space(target, free, reserved.saturating_add(piece.stored));
            }
        }
    }

    /// Calls `each` for every extent of a request of `bytes` bytes, with its first byte, its length and one piece of
    /// each replica. An extent ends wherever any replica is cut.
    pub fn extents(&self, bytes: u64, mut each: impl FnMut(u64, u64, &[Piece])) {
        let mut start = 0;
        while start < self.pages {
            let covering = |pieces: &ReplicaPlan| pieces.iter().find(|piece| piece.end() > start).copied();
            let pieces: SmallVec<[Piece; 4]> = self.replicas.iter().filter_map(covering).collect();
            let end = pieces.iter().map(Piece::end).min().unwrap_or(self.pages);
            let offset = u64::from(start) * PAGE_BYTES;
            each(offset, (u64::from(end) * PAGE_BYTES).min(bytes).saturating_sub(offset), &pieces);
            start = end;
        }
    }
}

/// Returns the maximum number of pieces of a replica (HReplica Table II), unless [`GaveWay::Pieces`] lifts it.
pub(super) fn max_pieces(snapshot: &Snapshot) -> usize {
    let [_, lanes] = snapshot.counts();
    snapshot.tiers().len().min(lanes).max(1)
}
