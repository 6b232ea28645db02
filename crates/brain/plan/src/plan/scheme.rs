//! [`Plan`]: the planner's answer (the paper's scheme).

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use terrace_codec::Encoding;

use crate::policy::Policy;
use crate::snapshot::{PAGE, Snapshot, Target};

/// A run of a request's pages in one replica: where it goes, and how it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The first page, counted from the request's start.
    pub start: u32,
    /// How many pages.
    pub pages: u32,
    /// The index of the target.
    pub target: u8,
    /// How its bytes are stored.
    #[serde(with = "crate::named")]
    pub encoding: Encoding,
    /// The bytes that it is expected to take.
    pub stored: u64,
}

impl Piece {
    /// The first page after it.
    pub fn end(&self) -> u32 {
        self.start + self.pages
    }
}

/// What a plan costs, in picoseconds (picojoules under `min_energy`), compared part by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cost {
    /// The duration (HReplica eq. 1): of replica 0 where a write does not wait for the others, else of all.
    pub first: u64,
    /// What a write does not wait for: the other replicas.
    pub then: u64,
}

/// A replica-to-be: pieces in the order of their pages, which they cover without gaps.
pub type ReplicaPlan = SmallVec<[Piece; 2]>;

/// A wish that is not strict, and was not fulfilled so that as many replicas have room; in the order in which they give
/// way. Each gives way only after those before it that the policy holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GaveWay {
    /// Replica 0 is stored as it is.
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

/// Where the replicas of a request go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The request's pages.
    pub pages: u32,
    /// The replicas; the first is the one to be written first and read.
    pub replicas: SmallVec<[ReplicaPlan; 3]>,
    /// How many replicas the policy wants.
    pub wanted: u8,
    /// What it costs; what stays where it is counts for a twentieth less.
    pub cost: Cost,
    /// Nothing cheaper exists for these replicas: nothing at all up to 16 pages, nothing cheaper by more than 1/1000
    /// above. False where that is not known.
    pub proven: bool,
    /// What could not be had with so many replicas.
    pub gave_way: SmallVec<[GaveWay; 4]>,
    /// The bytes that are to be written: all, but for what stays where it is.
    pub moves: u64,
}

impl Plan {
    /// The bytes that all replicas are expected to take.
    pub fn stored(&self) -> u64 {
        self.replicas.iter().flatten().map(|piece| piece.stored).sum()
    }

    /// Whether it shows that something gave way: some do only because they come before what had to.
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
            GaveWay::Pieces => self.replicas.iter().any(|pieces| pieces.len() > most_pieces(snapshot)),
            GaveWay::Targets => all().any(|(at, piece)| other_tier(piece) || (at == 0 && slow(piece))),
            GaveWay::Budget => {
                let given = f64::from(self.pages) * PAGE as f64;
                policy.budget.is_some_and(|budget| self.stored() as f64 > budget.0 * given)
            }
        }
    }

    /// Promises its space of the snapshot to it, so that what is planned next knows. Counts what stays as new.
    pub fn reserve(&self, snapshot: &mut Snapshot) {
        for piece in self.replicas.iter().flatten() {
            let target = usize::from(piece.target);
            if let Some(&Target { free, reserved, .. }) = snapshot.targets().get(target) {
                snapshot.set_space(target, free, reserved.saturating_add(piece.stored));
            }
        }
    }

    /// Calls `each` with the first byte, the length and the pieces, one for each replica, of every extent of a request
    /// of `bytes` bytes: what lies between two cuts of any of the replicas.
    pub fn extents(&self, bytes: u64, mut each: impl FnMut(u64, u64, &[Piece])) {
        let mut start = 0;
        while start < self.pages {
            let covering = |pieces: &ReplicaPlan| pieces.iter().find(|piece| piece.end() > start).copied();
            let pieces: SmallVec<[Piece; 4]> = self.replicas.iter().filter_map(covering).collect();
            let end = pieces.iter().map(Piece::end).min().unwrap_or(self.pages);
            let offset = u64::from(start) * PAGE;
            each(offset, (u64::from(end) * PAGE).min(bytes).saturating_sub(offset), &pieces);
            start = end;
        }
    }
}

/// The most pieces of a replica (HReplica Table II), as long as that does not give way.
pub(super) fn most_pieces(snapshot: &Snapshot) -> usize {
    let lanes = snapshot.targets().iter().map(|target| usize::from(target.lanes)).sum();
    snapshot.tiers().len().min(lanes).max(1)
}
