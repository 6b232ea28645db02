//! The candidates of the search: targets and encodings that a replica may use.

use serde::{Deserialize, Serialize};

use super::held::{Held, discount_staying};
use super::offers::{Offer, TargetOffers};
use crate::policy::Policy;
use crate::snapshot::{PAGE_BYTES, Snapshot, TargetSet};

/// A target and an encoding for one class of replicas: replica 0, or the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub target: u8,
    pub encoding: u8,
    /// The target's failure domain, as the index of the domain's first target.
    pub domain: u8,
    /// The target holds a replica in one piece or not at all.
    pub whole: bool,
    pub persistent: bool,
    /// The target has no room for the whole replica.
    pub tight: bool,
    /// Some pages are stored there already.
    pub held: bool,
    /// The candidate is on the lower convex hull: no mix of two others on the target is both as cheap and as dense.
    pub convex: bool,
    /// Stored bytes per page.
    pub stored: u32,
    /// The cost of a piece regardless of its length.
    pub fixed: u64,
    /// The cost per page.
    pub per_page: u64,
    /// Bits that two replicas of a page must not have in common: the failure domain's bit, and the tier's bit if tiers
    /// have to be distinct.
    pub excludes: u128,
}

impl Candidate {
    pub fn cost(&self, pages: u32) -> u64 {
        self.fixed + self.per_page * u64::from(pages)
    }

    /// Returns the least fixed cost of a piece and the least cost per page.
    pub fn least_prices(&self) -> (u64, u64) {
        if self.held {
            (discount_staying(self.fixed), discount_staying(self.per_page))
        } else {
            (self.fixed, self.per_page)
        }
    }
}

/// The terms of one attempt, which all its candidates share. Wishes that are not strict may have been dropped.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub snapshot: &'a Snapshot,
    pub policy: &'a Policy,
    pub targets: &'a TargetSet,
    pub pages: u32,
    pub replicas: u8,
    /// The maximum number of pieces of a replica.
    pub pieces: usize,
    /// Replica 0 is stored without an encoding.
    pub raw_first: bool,
    pub distinct_tiers: bool,
    /// `tiers` and `max_latency` are ignored.
    pub any_target: bool,
    pub budget: bool,
}

/// Why a replica must not use a target or an encoding, regardless of the cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forbidden {
    /// The target does not accept writes.
    Down,
    /// The request excludes the target.
    Target,
    /// `tiers` does not contain the target's tier.
    Tier,
    /// The target's latency is above `max_latency`.
    Latency,
    /// The target does not survive a reboot, and this replica has to.
    Volatile,
    /// The target stores bytes unencoded.
    Plain,
    /// This replica has to be raw.
    RawFirst,
    /// The costs are pinned to another encoding.
    Pinned,
}

impl Terms<'_> {
    /// Returns why a class of replicas must not use a target.
    pub fn forbids(&self, target: usize, first: bool) -> Option<Forbidden> {
        let &Terms { snapshot, policy, targets, any_target, .. } = self;
        let of = &snapshot.targets()[target];
        let only = if first { self.replicas == 1 } else { self.replicas == 2 };
        let lasts = policy.is_all_persistent() || (only && !policy.volatile);
        if !of.up {
            Some(Forbidden::Down)
        } else if !targets.has(target) {
            Some(Forbidden::Target)
        } else if lasts && !snapshot.tiers()[usize::from(of.tier)].persistent {
            Some(Forbidden::Volatile)
        } else if !any_target && !policy.tiers.has(of.tier) {
            Some(Forbidden::Tier)
        } else if !any_target && first && policy.max_latency.is_some_and(|most| of.latency > most) {
            Some(Forbidden::Latency)
        } else {
            None
        }
    }

    /// Returns why a class of replicas must not be encoded on a target.
    pub fn forbids_encoding(&self, target: usize, first: bool) -> Option<Forbidden> {
        if self.snapshot.targets()[target].plain {
            Some(Forbidden::Plain)
        } else if first && self.raw_first {
            Some(Forbidden::RawFirst)
        } else {
            None
        }
    }
}

/// Fills `list` with the candidates of replica 0 (`first`) or of the others, target by target.
pub(super) fn fill_candidates(
    terms: &Terms,
    first: bool,
    offers: &[TargetOffers],
    held: &[Held],
    space: &[u64],
    list: &mut Vec<Candidate>,
) {
    let &Terms { snapshot, pages, .. } = terms;
    list.clear();
    let most = (1 << 58) / u64::from(pages);
    for (index, (target, offers)) in snapshot.targets().iter().zip(offers).enumerate() {
        if terms.forbids(index, first).is_some() {
            continue;
        }
        let domain = snapshot.domain(index) as u8; // a search has few targets
        let tier_bit = if terms.distinct_tiers { 1 << (64 + u32::from(target.tier)) } else { 0 };
        let candidate = |offer: &Offer| Candidate {
            target: index as u8,
            encoding: offer.encoding,
            domain,
            whole: target.plain,
            persistent: snapshot.tiers()[usize::from(target.tier)].persistent,
            tight: space[index] < u64::from(offer.stored) * u64::from(pages),
            held: held.iter().any(|held| (held.target, held.encoding) == (index as u8, offer.encoding)),
            convex: offer.convex,
            stored: offer.stored,
            fixed: offers.fixed.min(1 << 58),
            per_page: offer.per_page.min(most),
            excludes: 1 << domain | tier_bit,
        };
        if terms.forbids_encoding(index, first).is_some() {
            list.extend(offers.raw.iter().map(candidate).filter(|raw| has_room(raw, space[index])));
            continue;
        }
        // If space does not matter, only the cheapest offer and the pieces that are stored already are candidates.
        let ample = !terms.budget && space[index] >= u64::from(pages) * PAGE_BYTES;
        let front =
            if ample && held.is_empty() { &offers.front[..1.min(offers.front.len())] } else { &offers.front[..] };
        for (i, candidate) in front.iter().map(candidate).enumerate() {
            if candidate.held || ((i == 0 || !ample) && has_room(&candidate, space[index])) {
                list.push(candidate);
            }
        }
    }
}

/// Returns whether there is room for a page, or for the whole replica if it must not be split.
fn has_room(candidate: &Candidate, space: u64) -> bool {
    candidate.held || (space >= u64::from(candidate.stored) && !(candidate.whole && candidate.tight))
}
