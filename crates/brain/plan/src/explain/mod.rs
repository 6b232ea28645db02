//! [`explain`]: what was weighed for a plan, what won, and why.

mod print;

use serde::{Deserialize, Serialize};
use terrace_codec::Encoding;

use crate::plan::candidates::Terms;
use crate::plan::offers::{busy, price};
use crate::plan::{Forbidden, GaveWay, Piece, Plan, Want};
use crate::policy::{Budget, Policy, Resolution};
use crate::snapshot::{PAGE, Snapshot};
use terrace_cost::Costs;
use terrace_cost::Weights;

/// What was weighed for a plan, and why it is what it is; prints as a text of some lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The request's length.
    pub bytes: u64,
    /// How often it is expected to be read.
    pub reads: f64,
    /// How requirements became the policy.
    pub resolutions: Vec<Resolution>,
    /// How many replicas the policy wants.
    pub wanted: u8,
    /// How many domains there are whose targets are up; more replicas than that have no place.
    pub domains: u8,
    /// The most bytes stored per byte given.
    pub budget: Option<Budget>,
    /// What the plan does not hold to, since so many replicas could not be had otherwise.
    pub gave_way: Vec<GaveWay>,
    /// Costs are joules, not seconds.
    pub energy: bool,
    /// What the plan costs.
    pub cost: Total,
    /// Whether it is known that nothing is cheaper.
    pub proven: bool,
    /// The bytes that all replicas are expected to take.
    pub stored: u64,
    /// The replicas; one that has no place, where there is room for none. None of no bytes: nothing is stored of these.
    pub replicas: Vec<Replica>,
}

/// What a plan costs, weighted: seconds, or joules where the policy counts these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Total {
    /// Of replica 0 where a write does not wait for the others, else of all.
    pub first: f64,
    /// What a write does not wait for: the other replicas.
    pub then: f64,
}

/// A replica, and what was weighed for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replica {
    /// What mattered to its cost.
    pub weights: Weights,
    /// Where it goes.
    pub pieces: Vec<Piece>,
    /// Each encoding on each tier, there on the target that serves it best.
    pub weighed: Vec<Weighed>,
}

/// An encoding on a tier, for one replica.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weighed {
    /// The tier's name.
    pub tier: String,
    /// The index of the target.
    pub target: u8,
    /// How the bytes would be stored.
    #[serde(with = "crate::named")]
    pub encoding: Encoding,
    /// What the whole replica would cost there in one piece: seconds or joules, weighted.
    pub cost: f64,
    /// The bytes that it would take.
    pub stored: u64,
    /// What came of it.
    pub verdict: Verdict,
}

/// What came of a target and an encoding for a replica.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It holds so many of the replica's pages.
    Chosen {
        /// How many.
        pages: u32,
    },
    /// It is not cheaper than where the replica goes.
    Dearer {
        /// Its cost over that of the replica as planned; 1 is as dear. None where that costs nothing.
        times: Option<f64>,
    },
    /// It is cheaper for this replica, but makes another, or all together, dearer or more than the budget.
    Yields,
    /// This other replica lies in the same domain, or on the same tier where tiers are to be distinct.
    Taken {
        /// Which.
        replica: u8,
    },
    /// It has room for no more than so many pages.
    NoRoom {
        /// How many.
        pages: u64,
    },
    /// The policy, or the target, does not allow it.
    Forbidden(Forbidden),
}

impl Verdict {
    /// Of the targets of a tier the one with the lowest rank tells most.
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

/// Explains a plan, or that there is none, by what it was made from.
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
        targets: want.targets,
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
        domains: snapshot.domains_up(want.targets),
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
                let targets = (0u8..).zip(snapshot.targets()).filter(|(_, target)| target.tier == tier);
                let rows = targets.map(|(target, _)| self.weigh(replica, target, encoding, as_planned, &of.name));
                let best =
                    |a: &Weighed, b: &Weighed| a.verdict.rank().cmp(&b.verdict.rank()).then(a.cost.total_cmp(&b.cost));
                weighed.extend(rows.min_by(best));
            }
        }
        let weights = if replica == 0 { policy.first } else { policy.rest };
        let pieces = pieces.iter().map(|piece| {
            let (from, to) = (u64::from(piece.start) * PAGE, u64::from(piece.end()) * PAGE);
            let per_page = piece.stored / u64::from(piece.pages.max(1));
            Piece { stored: stored(to.min(self.want.bytes).saturating_sub(from), per_page), ..*piece }
        });
        Replica { weights, pieces: pieces.collect(), weighed }
    }

    fn pieces(&self, replica: usize) -> &[Piece] {
        self.plan.replicas.get(replica).map_or(&[], |pieces| pieces)
    }

    /// The cost of so many pages there.
    fn cost(&self, replica: usize, target: u8, encoding: usize, pages: u32) -> f64 {
        let Terms { snapshot, policy, .. } = self.terms;
        let rates = snapshot.rates()[usize::from(target)];
        let rates = if policy.spread { busy(&rates) } else { rates };
        let (weights, reads) = if replica == 0 { (&policy.first, self.want.reads) } else { (&policy.rest, 0.0) };
        let (fixed, per_page) = price(policy, &rates, &self.costs.rates()[encoding], weights, reads);
        (fixed as f64 + per_page as f64 * f64::from(pages)) * 1e-12
    }

    fn planned(&self, replica: usize, piece: &Piece) -> f64 {
        let encoding = self.costs.rates().iter().position(|of| of.encoding == piece.encoding).unwrap_or(0);
        self.cost(replica, piece.target, encoding, piece.pages)
    }

    fn weigh(&self, replica: usize, target: u8, encoding: usize, as_planned: f64, tier: &str) -> Weighed {
        let of = &self.costs.rates()[encoding];
        let pages = self.terms.pages;
        let cost = self.cost(replica, target, encoding, pages);
        let verdict = self.verdict(replica, target, encoding, cost, as_planned);
        let stored = stored(self.want.bytes, of.page.into());
        Weighed { tier: tier.to_owned(), target, encoding: of.encoding, cost, stored, verdict }
    }

    fn verdict(&self, replica: usize, target: u8, encoding: usize, cost: f64, as_planned: f64) -> Verdict {
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
        let room = snapshot.space(index, u64::from(pages) * PAGE) / u64::from(of.page);
        if room < pages.into() {
            return Verdict::NoRoom { pages: room };
        }
        let of = |target: u8| &snapshot.targets()[usize::from(target)];
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

/// What so many bytes take at so many for a page: the last page need not be whole.
fn stored(bytes: u64, per_page: u64) -> u64 {
    bytes.saturating_mul(per_page).div_ceil(PAGE)
}
