//! What a replica may be put on, and in which encoding: the lists that the search goes through.

use serde::{Deserialize, Serialize};

use super::held::{Held, staying};
use super::offers::{Offer, TargetOffers};
use crate::policy::Policy;
use crate::snapshot::{PAGE, Snapshot, TargetSet};

/// A target and an encoding for one class of replicas: replica 0, or the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub target: u8,
    pub encoding: u8,
    /// The target's domain, by its first target.
    pub domain: u8,
    /// It holds the replica in one piece or not at all.
    pub whole: bool,
    pub persistent: bool,
    /// It has not the space for the whole replica.
    pub tight: bool,
    /// Some pages are there already.
    pub held: bool,
    /// No mix of two others on the target is both as cheap and as dense.
    pub convex: bool,
    /// Bytes stored for each page.
    pub stored: u32,
    /// Cost of a piece, whatever its length.
    pub fixed: u64,
    /// Cost of each page.
    pub per_page: u64,
    /// Bits that no two replicas of a page may share: the domain's, and the tier's where tiers shall be distinct.
    pub excludes: u128,
}

impl Candidate {
    pub fn cost(&self, pages: u32) -> u64 {
        self.fixed + self.per_page * u64::from(pages)
    }

    /// The least that a piece and each of its pages cost.
    pub fn least(&self) -> (u64, u64) {
        if self.held { (staying(self.fixed), staying(self.per_page)) } else { (self.fixed, self.per_page) }
    }
}

/// What all candidates of an attempt have in common; what is not strict may have given way.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub snapshot: &'a Snapshot,
    pub policy: &'a Policy,
    pub targets: TargetSet,
    pub pages: u32,
    pub replicas: u8,
    /// The most pieces of a replica.
    pub pieces: usize,
    /// Replica 0 is stored as it is.
    pub raw_first: bool,
    pub distinct_tiers: bool,
    /// `tiers` and `max_latency` do not hold.
    pub any_target: bool,
    pub budget: bool,
}

/// Why a replica may not lie on a target, or not in an encoding, whatever it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forbidden {
    /// It cannot be written to.
    Down,
    /// It is not among the targets that this may be put on.
    Target,
    /// `tiers` does not name its tier.
    Tier,
    /// Its latency is above `max_latency`.
    Latency,
    /// It does not outlive a reboot, and this replica has to.
    Volatile,
    /// It holds bytes as they are.
    Plain,
    /// This replica is to be raw.
    RawFirst,
    /// Bytes are to be in another encoding.
    Pinned,
}

impl Terms<'_> {
    /// Why a class of replicas may not lie on a target.
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

    /// Why a class of replicas may not be encoded on a target.
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
pub(super) fn fill(
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
        let domain = snapshot.domain(index);
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
            list.extend(offers.raw.iter().map(candidate).filter(|raw| fits(raw, space[index])));
            continue;
        }
        // Where space does not matter, the cheapest will do; and what is there already.
        let ample = !terms.budget && space[index] >= u64::from(pages) * PAGE;
        let front =
            if ample && held.is_empty() { &offers.front[..1.min(offers.front.len())] } else { &offers.front[..] };
        for (i, candidate) in front.iter().map(candidate).enumerate() {
            if candidate.held || ((i == 0 || !ample) && fits(&candidate, space[index])) {
                list.push(candidate);
            }
        }
    }
}

/// Whether there is room for a page, or for all where it must be.
fn fits(candidate: &Candidate, space: u64) -> bool {
    candidate.held || (space >= u64::from(candidate.stored) && !(candidate.whole && candidate.tight))
}
