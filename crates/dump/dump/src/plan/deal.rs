//! Distributes the copies of chunks that only one rank has, so that the ranks' work is balanced.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::Ring;

/// The cost of a received byte relative to a byte of a rank's own: a received byte is both moved and stored.
const RECEIVED_BYTE_COST: u64 = 2;
/// A share is at least this fraction (one in `MAX_SHARES_PER_COPY`) of a rank's bytes, which limits the number of its
/// partners.
const MAX_SHARES_PER_COPY: u64 = 4;

/// The shares that a rank sends: receivers and numbers of bytes.
pub type Shares = SmallVec<[(u32, u64); 4]>;

/// The shares of all ranks and the resulting work, in bytes. Received bytes count twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dealt {
    /// For each rank, the shares that it sends.
    pub shares: Vec<Shares>,
    /// The work of each rank.
    work: Vec<u64>,
    /// For each rank, the bytes that it stores.
    pub stored: Vec<u64>,
}

impl Dealt {
    fn of(shares: Vec<Shares>, mut work: Vec<u64>) -> Dealt {
        let mut stored = work.clone();
        for (to, bytes) in shares.iter().flatten() {
            work[*to as usize] += RECEIVED_BYTE_COST * bytes;
            stored[*to as usize] += bytes;
        }
        Dealt { shares, work, stored }
    }

    fn max_work(&self) -> u64 {
        self.work.iter().copied().max().unwrap_or(0)
    }
}

/// Distributes to static partners: each rank sends all bytes that it has alone to the next `copies - 1` ranks. `work`
/// is each rank's own work.
pub fn by_rank(alone: &[u64], work: &[u64], ring: &Ring<'_>, copies: usize) -> Dealt {
    let share = |(rank, bytes): (u32, &u64)| -> Shares {
        let partners = ring.partners(rank, &[ring.nodes()[rank as usize]]).take(copies.saturating_sub(1));
        partners.map(|to| (to, *bytes)).filter(|(_, bytes)| *bytes > 0).collect()
    };
    Dealt::of((0..).zip(alone).map(share).collect(), work.to_vec())
}

/// Distributes by load; the result is never worse than [`by_rank`]. Ranks with most bytes choose first. Each sends to
/// the ranks with the least work, and no more than fits below the level at which all would have equal work. A rank
/// sends at most all its bytes to one receiver, and to at most one receiver of a node. Its bytes therefore fit into its
/// shares `copies - 1` times without two copies on one node.
pub fn by_load(alone: &[u64], work: &[u64], ring: &Ring<'_>, copies: usize) -> Dealt {
    let others = copies.saturating_sub(1) as u64;
    let level = balance_level(work, RECEIVED_BYTE_COST * others * alone.iter().sum::<u64>());
    let mut least: BTreeSet<(u64, usize)> =
        work.iter().zip(0..).map(|(work, rank)| (*work, ring.place(rank))).collect();
    let mut order: Vec<u32> = (0..alone.len() as u32).filter(|rank| alone[*rank as usize] > 0).collect();
    order.sort_by_key(|rank| (Reverse(alone[*rank as usize]), ring.place(*rank)));
    let mut shares = vec![Shares::new(); alone.len()];
    for rank in order {
        let all = alone[rank as usize];
        let mut left = all * others;
        let mut taken: SmallVec<[u32; 8]> = SmallVec::from_slice(&[ring.nodes()[rank as usize]]);
        let mut chosen: SmallVec<[(u64, usize, u64); 8]> = SmallVec::new();
        for (work, place) in &least {
            let node = ring.nodes()[ring.rank(*place) as usize];
            if left == 0 {
                break;
            }
            if taken.contains(&node) {
                continue;
            }
            // The bytes that the remaining nodes cannot take must go to this one.
            let after = (ring.node_count() - taken.len() - 1) as u64 * all;
            let fits = level.saturating_sub(*work) / RECEIVED_BYTE_COST;
            let share = fits.max(all.div_ceil(MAX_SHARES_PER_COPY)).max(left.saturating_sub(after)).min(all).min(left);
            chosen.push((*work, *place, share));
            taken.push(node);
            left -= share;
        }
        for (work, place, share) in chosen {
            least.remove(&(work, place));
            least.insert((work + RECEIVED_BYTE_COST * share, place));
            shares[rank as usize].push((ring.rank(place), share));
        }
    }
    let (dealt, plain) = (Dealt::of(shares, work.to_vec()), by_rank(alone, work, ring, copies));
    if dealt.max_work() <= plain.max_work() { dealt } else { plain }
}

/// Returns the level of work at which `more` is used up, if it always goes to the ranks with the least work.
fn balance_level(work: &[u64], more: u64) -> u64 {
    let mut sorted = work.to_vec();
    sorted.sort_unstable();
    let mut below = 0;
    for (count, next) in (1..).zip(sorted.iter().skip(1).map(Some).chain([None])) {
        below += sorted[count as usize - 1];
        let level = (below + more).div_ceil(count);
        if next.is_none_or(|next| level <= *next) {
            return level;
        }
    }
    more
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::plan::unordered;

    fn received(dealt: &Dealt) -> u64 {
        let ranks = 0..dealt.shares.len() as u32;
        let of = |rank| dealt.shares.iter().flatten().filter(|(to, _)| *to == rank).map(|(_, bytes)| bytes).sum();
        ranks.map(of).max().unwrap_or(0)
    }

    /// The poster's Fig. 1, in which order alone gets from 200 to 110.
    #[test]
    fn receives_equal_those_of_the_posters_example() {
        let (alone, nodes) = ([100, 100, 10, 10, 10, 10], [0, 1, 2, 3, 4, 5]);
        let ring = Ring::new(unordered(&nodes), &nodes);
        assert_eq!(received(&by_rank(&alone, &alone, &ring, 3)), 200);
        let ours = received(&by_load(&alone, &alone, &ring, 3));
        assert!(ours <= 110, "{ours}");
    }

    proptest! {
        #[test]
        fn unique_chunks_of_a_rank_fit_into_its_shares(
            alone in prop::collection::vec(prop_oneof![Just(0u64), Just(10), Just(1000), 0..2000u64], 1..30),
            per_node in 1u32..4, copies in 1usize..6,
        ) {
            let nodes: Vec<u32> = (0..alone.len() as u32).map(|rank| rank / per_node).collect();
            let ring = Ring::new(unordered(&nodes), &nodes);
            let copies = copies.min(ring.node_count());
            let (ours, plain) = (by_load(&alone, &alone, &ring, copies), by_rank(&alone, &alone, &ring, copies));
            prop_assert!(ours.max_work() <= plain.max_work());
            for dealt in [&ours, &plain] {
                for (rank, shares) in dealt.shares.iter().enumerate() {
                    prop_assert_eq!(shares.iter().map(|(_, bytes)| bytes).sum::<u64>(), alone[rank] * (copies as u64 - 1));
                    prop_assert!(shares.iter().all(|(_, bytes)| (1..=alone[rank]).contains(bytes)));
                    let on: BTreeSet<u32> = shares.iter().map(|(to, _)| nodes[*to as usize]).collect();
                    prop_assert!(on.len() == shares.len() && !on.contains(&nodes[rank]));
                }
            }
        }

        #[test]
        fn the_level_distributes_the_whole_amount(work in prop::collection::vec(0u64..100, 1..20), more in 1u64..3000) {
            let level = balance_level(&work, more);
            // With nothing to distribute, each level up to the least work would do.
            let given = |level: u64| work.iter().map(|work| level.saturating_sub(*work)).sum::<u64>();
            prop_assert!(given(level) >= more && (level == 0 || given(level - 1) < more));
        }
    }

    #[test]
    fn many_ranks_get_equal_work() {
        let nodes: Vec<u32> = (0..408).map(|rank| rank / 12).collect();
        let alone: Vec<u64> = (0..408).map(|rank| if rank % 7 == 0 { 1000 } else { 100 }).collect();
        let dealt = by_load(&alone, &alone, &Ring::new(unordered(&nodes), &nodes), 3);
        let mean = dealt.work.iter().sum::<u64>() / 408;
        assert!(dealt.max_work() <= mean * 11 / 10, "{} and {mean}", dealt.max_work());
        assert!(dealt.shares.iter().all(|shares| shares.len() <= 8));
    }
}
