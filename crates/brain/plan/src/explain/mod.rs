//! [`explain`]: the alternatives to a plan, and the reasons for the choice.

mod print;

use serde::{Deserialize, Serialize};
use terrace_codec::Encoding;

use crate::plan::candidates::Terms;
use crate::plan::offers::{compute_rates_under_load, price_encoding};
use crate::plan::{Forbidden, GaveWay, Piece, Plan, Want};
use crate::policy::{Budget, Policy, Resolution};
use crate::snapshot::{PAGE_BYTES, Snapshot};
use terrace_cost::Costs;
use terrace_cost::Weights;

/// The alternatives to a plan, and the reasons for the choice. It is displayed as a text of several lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The length of the request in bytes.
    pub bytes: u64,
    /// The expected number of reads.
    pub reads: f64,
    /// The decisions between requirements that led to the policy.
    pub resolutions: Vec<Resolution>,
    /// The number of replicas that the policy wants.
    pub wanted: u8,
    /// The number of failure domains with targets that accept writes: the maximum number of replicas that have a place.
    pub domains: u8,
    /// The maximum number of stored bytes per byte of the request.
    pub budget: Option<Budget>,
    /// The wishes that were dropped for this number of replicas.
    pub gave_way: Vec<GaveWay>,
    /// Whether costs are in joules instead of seconds.
    pub energy: bool,
    /// The cost of the plan.
    pub cost: Total,
    /// Whether the plan is proven to be the cheapest.
    pub proven: bool,
    /// The expected number of stored bytes of all replicas.
    pub stored: u64,
    /// The replicas. If not even one fits, the list contains one replica without pieces. It is empty for a request of
    /// no bytes, because nothing is stored.
    pub replicas: Vec<Replica>,
}

/// The weighted cost of a plan, in seconds, or in joules if the policy counts energy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Total {
    /// The cost of replica 0 if the write does not wait for the others, otherwise of all replicas.
    pub first: f64,
    /// The cost of the replicas that the write does not wait for.
    pub then: f64,
}

/// A replica and its alternatives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replica {
    /// The weights of its cost.
    pub weights: Weights,
    /// Its pieces.
    pub pieces: Vec<Piece>,
    /// Each encoding on each tier, on the target of the tier that serves it best.
    pub weighed: Vec<Weighed>,
}

/// An encoding on a tier, considered for one replica.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weighed {
    /// The tier's name.
    pub tier: String,
    /// The index of the target.
    pub target: u16,
    /// The encoding.
    #[serde(with = "crate::named")]
    pub encoding: Encoding,
    /// The weighted cost of the whole replica there in one piece, in seconds or joules.
    pub cost: f64,
    /// The number of stored bytes.
    pub stored: u64,
    /// The result.
    pub verdict: Verdict,
}

/// The result of considering a target and an encoding for a replica.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The plan uses it for this many pages of the replica.
    Chosen {
        /// The number of pages.
        pages: u32,
    },
    /// It is not cheaper than the plan's choice.
    Dearer {
        /// Its cost divided by the cost of the planned replica; 1 means equal. None if the planned replica costs
        /// nothing.
        times: Option<f64>,
    },
    /// It is cheaper for this replica, but makes another replica or the whole plan more expensive, or exceeds the
    /// budget.
    Yields,
    /// Another replica is in the same failure domain, or on the same tier if tiers have to be distinct.
    Taken {
        /// The index of the other replica.
        replica: u8,
    },
    /// It has too little room for the replica.
    NoRoom {
        /// The maximum number of pages.
        pages: u64,
    },
    /// The policy or the target forbids it.
    Forbidden(Forbidden),
}

impl Verdict {
    /// Orders verdicts: of the targets of a tier, the one with the lowest rank is the most informative.
    fn rank(&self) -> u8 {
        match self {
            Verdict::Chosen { .. } => 0,
            Verdict::Dearer { .. } | Verdict::Yields => 1,
            Verdict::Taken { .. } => 2,
            Verdict::NoRoom { .. } => 3,
            Verdict::Forbidden(_) => 4,
        }
    }
}

/// Explains a plan, or why there is none, from the planner's inputs.
pub fn explain(
    want: &Want,
    snapshot: &Snapshot,
    policy: &Policy,
    costs: &Costs,
    resolutions: &[Resolution],
    plan: Option<&Plan>,
) -> Explanation {
    let none = Plan::default();
    let plan = plan.unwrap_or(&none);
    let gave = |way| plan.gave_way.contains(&way);
    let terms = Terms {
        snapshot,
        policy,
        targets: &want.targets,
        pages: want.pages(),
        replicas: plan.replicas.len().max(1) as u8,
        pieces: snapshot.targets().len(),
        raw_first: policy.raw_first && !gave(GaveWay::RawFirst),
        distinct_tiers: policy.distinct_tiers && !gave(GaveWay::DistinctTiers),
        any_target: gave(GaveWay::Targets),
        budget: policy.budget.is_some() && !gave(GaveWay::Budget),
    };
    let weigher = Weigher { terms, want, costs, plan };
    let count = if want.bytes == 0 { 0 } else { usize::from(terms.replicas) };
    let replicas: Vec<Replica> = (0..count).map(|replica| weigher.replica(replica)).collect();
    Explanation {
        bytes: want.bytes,
        reads: want.reads,
        resolutions: resolutions.to_vec(),
        wanted: policy.replicas,
        domains: snapshot.domains_up(&want.targets),
        budget: policy.budget,
        gave_way: plan.gave_way.iter().copied().filter(|way| plan.shows(*way, snapshot, policy)).collect(),
        energy: policy.energy,
        cost: Total { first: plan.cost.first as f64 * 1e-12, then: plan.cost.then as f64 * 1e-12 },
        proven: plan.proven,
        stored: replicas.iter().flat_map(|replica| &replica.pieces).map(|piece| piece.stored).sum(),
        replicas,
    }
}

struct Weigher<'a> {
    terms: Terms<'a>,
    want: &'a Want,
    costs: &'a Costs,
    plan: &'a Plan,
}

impl Weigher<'_> {
    fn replica(&self, replica: usize) -> Replica {
        let Terms { snapshot, policy, .. } = self.terms;
        let pieces = self.pieces(replica);
        let as_planned = match pieces {
            [] => f64::INFINITY,
            pieces => pieces.iter().map(|piece| self.planned(replica, piece)).sum(),
        };
        let mut weighed = Vec::new();
        for (tier, of) in (0u8..).zip(snapshot.tiers()) {
            for encoding in 0..self.costs.rates().len() {
                let targets = (0u16..).zip(snapshot.targets()).filter(|(_, target)| target.tier == tier);
                let rows = targets.map(|(target, _)| self.weigh(replica, target, encoding, as_planned, &of.name));
                let best =
                    |a: &Weighed, b: &Weighed| a.verdict.rank().cmp(&b.verdict.rank()).then(a.cost.total_cmp(&b.cost));
                weighed.extend(rows.min_by(best));
            }
        }
        let weights = if replica == 0 { policy.first } else { policy.rest };
        let pieces = pieces.iter().map(|piece| {
            let (from, to) = (u64::from(piece.start) * PAGE_BYTES, u64::from(piece.end()) * PAGE_BYTES);
            let per_page = piece.stored / u64::from(piece.pages.max(1));
            Piece { stored: stored(to.min(self.want.bytes).saturating_sub(from), per_page), ..*piece }
        });
        Replica { weights, pieces: pieces.collect(), weighed }
    }

    fn pieces(&self, replica: usize) -> &[Piece] {
        self.plan.replicas.get(replica).map_or(&[], |pieces| pieces)
    }

    /// Returns the cost of a number of pages there.
    fn cost(&self, replica: usize, target: u16, encoding: usize, pages: u32) -> f64 {
        let Terms { snapshot, policy, .. } = self.terms;
        let rates = snapshot.rates()[usize::from(target)];
        let rates = if policy.spread { compute_rates_under_load(&rates) } else { rates };
        let (weights, reads) = policy.weights_and_reads(replica == 0, self.want.reads);
        let (fixed, per_page) = price_encoding(policy, &rates, &self.costs.rates()[encoding], &weights, reads);
        (fixed as f64 + per_page as f64 * f64::from(pages)) * 1e-12
    }

    fn planned(&self, replica: usize, piece: &Piece) -> f64 {
        let encoding = self.costs.rates().iter().position(|of| of.encoding == piece.encoding).unwrap_or(0);
        self.cost(replica, piece.target, encoding, piece.pages)
    }

    fn weigh(&self, replica: usize, target: u16, encoding: usize, as_planned: f64, tier: &str) -> Weighed {
        let of = &self.costs.rates()[encoding];
        let pages = self.terms.pages;
        let cost = self.cost(replica, target, encoding, pages);
        let verdict = self.verdict(replica, target, encoding, cost, as_planned);
        let stored = stored(self.want.bytes, of.page.into());
        Weighed { tier: tier.to_owned(), target, encoding: of.encoding, cost, stored, verdict }
    }

    fn verdict(&self, replica: usize, target: u16, encoding: usize, cost: f64, as_planned: f64) -> Verdict {
        let Terms { snapshot, pages, distinct_tiers, .. } = self.terms;
        let (index, of) = (usize::from(target), &self.costs.rates()[encoding]);
        let here = |piece: &&Piece| (piece.target, piece.encoding) == (target, of.encoding);
        let chosen: u32 = self.pieces(replica).iter().filter(here).map(|piece| piece.pages).sum();
        if chosen > 0 {
            return Verdict::Chosen { pages: chosen };
        }
        let encoded = match self.terms.forbids_encoding(index, replica == 0) {
            None => self.costs.pinned().filter(|only| *only != encoding).map(|_| Forbidden::Pinned),
            raw => raw.filter(|_| encoding > 0),
        };
        let last = !self.terms.policy.volatile && replica + 1 == usize::from(self.terms.replicas);
        let persistent = snapshot.tiers()[usize::from(snapshot.targets()[index].tier)].persistent;
        let volatile = (last && !persistent).then_some(Forbidden::Volatile);
        if let Some(forbidden) = self.terms.forbids(index, replica == 0).or(volatile).or(encoded) {
            return Verdict::Forbidden(forbidden);
        }
        let room = snapshot.space(index, u64::from(pages) * PAGE_BYTES) / u64::from(of.page);
        if room < pages.into() {
            return Verdict::NoRoom { pages: room };
        }
        let of = |target: u16| &snapshot.targets()[usize::from(target)];
        let meets = |piece: &Piece| {
            let (a, b) = (of(piece.target), of(target));
            a.domain == b.domain || (distinct_tiers && a.tier == b.tier)
        };
        let other =
            (0..self.plan.replicas.len()).find(|other| *other != replica && self.pieces(*other).iter().any(meets));
        match other {
            _ if cost >= as_planned => {
                let equal = cost == as_planned;
                Verdict::Dearer { times: if equal { Some(1.0) } else { (as_planned > 0.0).then(|| cost / as_planned) } }
            }
            Some(other) => Verdict::Taken { replica: other as u8 },
            None => Verdict::Yields,
        }
    }
}

/// Returns the stored size of `bytes` bytes at `per_page` bytes per page; the last page may be partial.
fn stored(bytes: u64, per_page: u64) -> u64 {
    bytes.saturating_mul(per_page).div_ceil(PAGE_BYTES)
}
