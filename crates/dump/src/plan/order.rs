//! The order of the ring: those who send much stand between those who send little, so that nobody receives from two of them.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::Ring;

/// Ranks looked at for one that is on no node of its neighbours'.
const LOOK: usize = 64;

/// The order that looks at nodes only: ranks of one node are apart, each node's first ranks first.
pub fn unordered(nodes: &[u32]) -> Vec<u32> {
    let within = within(nodes);
    let mut ranks: Vec<u32> = (0..nodes.len() as u32).collect();
    ranks.sort_by_key(|rank| (within[*rank as usize], nodes[*rank as usize]));
    ranks
}

/// The order by load: bytes that each rank sends to each of its `copies - 1` partners. Never worse than [`unordered`], as
/// far as [`largest_receive`] tells.
///
/// Whoever receives does so from the `copies - 1` ranks before it. So the heaviest of every `copies` ranks begin a row each,
/// the heaviest row with the lightest ranks behind it. Neighbours are on different
/// nodes where that can be: otherwise they are passed over, and others receive in their place.
pub fn by_load(loads: &[u64], nodes: &[u32], copies: usize) -> Vec<u32> {
    let (within, copies) = (within(nodes), copies.max(1));
    // Among equals, neighbours are on different nodes.
    let apart = |rank: &u32| (within[*rank as usize], nodes[*rank as usize]);
    let mut heavy: Vec<u32> = (0..nodes.len() as u32).collect();
    heavy.sort_by_key(|rank| (Reverse(loads[*rank as usize]), apart(rank)));
    let mut light = heavy.split_off(heavy.len().div_ceil(copies));
    light.sort_by_key(|rank| (loads[*rank as usize], apart(rank)));
    let (mut heavy, mut light) = (VecDeque::from(heavy), VecDeque::from(light));
    let mut interleaved: Vec<u32> = Vec::with_capacity(nodes.len());
    while interleaved.len() < nodes.len() {
        let first = interleaved.len().is_multiple_of(copies) || light.is_empty();
        let from = if first && !heavy.is_empty() { &mut heavy } else { &mut light };
        let near = &interleaved[interleaved.len().saturating_sub(copies - 1)..];
        let apart = |rank: &u32| near.iter().all(|other| nodes[*other as usize] != nodes[*rank as usize]);
        let next = from.iter().take(LOOK).position(apart).unwrap_or(0);
        interleaved.extend(from.remove(next));
    }
    let plain = unordered(nodes);
    let largest = |order: &[u32]| largest_receive(&Ring::new(order.to_vec(), nodes), loads, copies);
    if largest(&interleaved) <= largest(&plain) { interleaved } else { plain }
}

/// What the rank that receives most is sent, if each sends its load to `copies - 1` partners.
pub fn largest_receive(ring: &Ring<'_>, loads: &[u64], copies: usize) -> u64 {
    let mut received = vec![0; loads.len()];
    for (rank, load) in loads.iter().enumerate() {
        for partner in ring.partners(rank as u32, &[ring.nodes()[rank]]).take(copies.saturating_sub(1)) {
            received[partner as usize] += load;
        }
    }
    received.into_iter().max().unwrap_or(0)
}

/// For each rank, how many ranks of its node come before it.
fn within(nodes: &[u32]) -> Vec<u32> {
    let mut seen = vec![0; nodes.iter().max().map_or(0, |last| *last as usize + 1)];
    let count = |node: &u32| {
        let so_far = &mut seen[*node as usize];
        *so_far += 1;
        *so_far - 1
    };
    nodes.iter().map(count).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The poster's Fig. 1; it counts ranks from 1.
    #[test]
    fn the_posters_example_receives_110_instead_of_200() {
        let (loads, nodes) = ([100, 100, 10, 10, 10, 10], [0, 1, 2, 3, 4, 5]);
        assert_eq!(largest_receive(&Ring::new(unordered(&nodes), &nodes), &loads, 3), 200);
        let order = by_load(&loads, &nodes, 3);
        assert_eq!(order.iter().map(|rank| rank + 1).collect::<Vec<_>>(), [1, 3, 4, 2, 5, 6]);
        assert_eq!(largest_receive(&Ring::new(order, &nodes), &loads, 3), 110);
    }

    #[test]
    fn ranks_of_a_node_stand_apart() {
        assert_eq!(unordered(&[0, 0, 0, 1, 1, 1]), [0, 3, 1, 4, 2, 5]);
    }

    /// All orders of the ranks but the first, which stands first.
    fn every_order(ranks: u32) -> Vec<Vec<u32>> {
        (1..ranks).fold(vec![vec![0]], |orders, rank| {
            let with = |order: &Vec<u32>| -> Vec<Vec<u32>> {
                let at = |place| [&order[..place], &[rank], &order[place..]].concat();
                (1..=order.len()).map(at).collect()
            };
            orders.iter().flat_map(with).collect()
        })
    }

    proptest! {
        #[test]
        fn the_order_names_each_rank_once_and_is_not_far_from_the_best(
            loads in prop::collection::vec(prop_oneof![Just(10u64), Just(100), 0..200u64], 1..7),
            copies in 1usize..5, shared: bool,
        ) {
            let nodes: Vec<u32> = (0..loads.len() as u32).map(|rank| if shared { rank / 2 } else { rank }).collect();
            let order = by_load(&loads, &nodes, copies);
            let mut ranks = order.clone();
            ranks.sort_unstable();
            prop_assert!(ranks.iter().copied().eq(0..loads.len() as u32));
            let largest = |order: Vec<u32>| largest_receive(&Ring::new(order, &nodes), &loads, copies);
            let (ours, plain) = (largest(order), largest(unordered(&nodes)));
            prop_assert!(ours <= plain);
            let best = every_order(loads.len() as u32).into_iter().map(largest).min().unwrap_or(0);
            prop_assert!(ours as f64 <= 2.0 * best as f64, "{ours} instead of {best}, static {plain}");
        }
    }
}
