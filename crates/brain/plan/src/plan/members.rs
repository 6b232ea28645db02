//! The targets that a search considers, if a snapshot has too many: some of each class of alike targets.
//!
//! A search for `r` replicas needs `r` targets of a class that are in distinct failure domains and have room for the
//! whole request. Whichever of them a scheme uses, the other replicas occupy at most `r - 1` domains, so that one of the
//! class is left, and all of them cost the same. If replicas may be cut into pieces, each piece may occupy another domain.
//! [`choose_among_interchangeable`](super::choice) then replaces what the search chose by the best targets of the class.

use std::cmp::Reverse;

use smallvec::SmallVec;

use super::scheme::max_pieces;
use super::{Piece, Want};
use crate::policy::Policy;
use crate::snapshot::{MAX_SEARCHED_TARGETS, PAGE_BYTES, Snapshot};

/// Some targets of a snapshot.
pub(super) struct Members {
    /// The snapshot of only these targets.
    pub snapshot: Snapshot,
    /// The index of each in the whole snapshot, in ascending order.
    pub indexes: SmallVec<[u16; MAX_SEARCHED_TARGETS]>,
}

impl Members {
    /// Returns pieces with the indexes of this snapshot, without those on other targets.
    pub fn translate(&self, pieces: &[Piece]) -> SmallVec<[Piece; 8]> {
        let translated = |piece: &Piece| {
            let target = self.indexes.binary_search(&piece.target).ok()? as u16;
            Some(Piece { target, ..*piece })
        };
        pieces.iter().filter_map(translated).collect()
    }
}

/// Selects up to `most` targets. Returns none if the snapshot has no more.
///
/// The best of each class come first, then the second best: those that hold pieces of the request, then those with the
/// most space. If there are more classes than `most`, those of each tier take turns.
pub(super) fn select_members(
    want: &Want,
    present: &[Piece],
    snapshot: &Snapshot,
    policy: &Policy,
    most: usize,
) -> Option<Members> {
    if snapshot.targets().len() <= most {
        return None;
    }
    let enough = u64::from(want.pages()) * PAGE_BYTES;
    let space = |index: u16| snapshot.space(index.into(), enough);
    let class = |index: u16| snapshot.class(index.into(), policy);
    let holds = |index: u16| present.iter().any(|piece| piece.target == index);
    let usable = |index: &u16| snapshot.targets()[usize::from(*index)].up && want.targets.has((*index).into());
    let mut all: Vec<u16> = (0..snapshot.targets().len() as u16).filter(usable).collect();
    let is_cut = policy.budget.is_some() || !present.is_empty() || all.iter().any(|index| space(*index) < enough);
    let needed = usize::from(policy.replicas) * if is_cut { max_pieces(snapshot) } else { 1 };
    all.sort_by_cached_key(|index| (class(*index), !holds(*index), Reverse(space(*index)), *index));
    let mut ranked = Vec::with_capacity(all.len());
    let mut classes_of_tier = [0u16; crate::snapshot::MAX_TIERS];
    for members in all.chunk_by(|a, b| class(*a) == class(*b)) {
        let tier = snapshot.targets()[usize::from(members[0])].tier;
        let turn = &mut classes_of_tier[usize::from(tier)];
        *turn += 1;
        let (mut domains, mut rank) = (SmallVec::<[u16; 16]>::new(), 0u16);
        for &index in members {
            let (held, domain) = (holds(index), snapshot.domain(index.into()));
            // All held ones come first, then all with ample space. Nothing that follows enough of these is better.
            if !held && (domains.len() >= needed || domains.contains(&domain)) {
                continue;
            }
            if !held && space(index) == enough {
                domains.push(domain);
            }
            ranked.push((rank, *turn, tier, index));
            rank += u16::from(!held);
        }
    }
    ranked.sort_unstable();
    let mut indexes: SmallVec<[u16; MAX_SEARCHED_TARGETS]> = ranked.iter().take(most).map(|of| of.3).collect();
    indexes.sort_unstable();
    Some(Members { snapshot: snapshot.select(&indexes), indexes })
}
