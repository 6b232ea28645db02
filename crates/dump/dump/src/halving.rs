//! The part that both halves of step 2 share: brings the knowledge of all ranks about an item to the item's home rank, and
//! the answer back to the ranks that know the item.
//!
//! The method is recursive halving. In each of log2(ranks) levels, a group of ranks is divided in two, and each rank
//! sends the items whose homes are in the other half to a rank there. Equal items merge on the way, so that a rank
//! holds and sends no more than its own share at any level, however many ranks have the same items. Answers return the
//! same way.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash};
use std::ops::Range;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::Result;
use crate::chunk::Same;
use crate::manifest::{decode, encode};
use crate::transport::World;

/// The knowledge of a rank about items, each listed once, in order of their homes.
pub trait Known: Default + Serialize + DeserializeOwned {
    /// Identifies an item.
    type Key: Copy + Eq + Hash;
    /// Limits the amount of knowledge that is kept.
    type Bounds: Copy;

    /// Merges the knowledge of two ranks.
    fn merge(self, other: Self, bounds: Self::Bounds) -> Self;

    /// Keeps the items with homes below `rank` of `size` ranks, and returns the rest.
    fn split_off(&mut self, rank: u32, size: u32) -> Self;

    /// Returns the keys of the items, in order.
    fn keys(&self) -> impl Iterator<Item = Self::Key>;
}

/// Returns the least number whose home is `rank`. Each rank is the home of an equal range of all numbers, in the order of
/// ranks.
pub fn first(rank: u32, size: u32) -> u64 {
    (u128::from(rank) << 64).div_ceil(u128::from(size)) as u64
}

/// Answers by item.
pub type Answers<K, A> = HashMap<<K as Known>::Key, A, BuildHasherDefault<Same>>;

/// A level of the recursion, as seen by one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// The first rank of the upper half.
    pub middle: u32,
    /// Whether this rank is in the upper half. The lower half sends first, which prevents a circular wait.
    pub upper: bool,
    /// The rank of the other half that it sends to.
    pub to: u32,
    /// The ranks that send to it: two for the last rank of the upper half, if the lower half is larger.
    pub from: SmallVec<[u32; 2]>,
}

/// Returns the levels of a rank.
pub fn levels(rank: u32, size: u32) -> Vec<Level> {
    let mut group: Range<u32> = 0..size;
    let mut levels = Vec::new();
    while group.len() > 1 {
        let middle = group.start + (group.end - group.start).div_ceil(2);
        let (below, above) = (middle - group.start, group.end - middle);
        let upper = rank >= middle;
        let (to, from) = if upper {
            let place = rank - middle;
            let last = place + 1 == above && below > above;
            (group.start + place, (group.start + place..=group.start + place + u32::from(last)).collect())
        } else {
            let place = rank - group.start;
            (middle + place.min(above - 1), (middle + place..group.end).take(1).collect())
        };
        levels.push(Level { middle, upper, to, from });
        group = if upper { middle..group.end } else { group.start..middle };
    }
    levels
}

/// The state of one rank: its knowledge, and the items that it exchanged at each level.
pub struct Halving<K: Known> {
    /// The knowledge that the rank holds now.
    pub known: K,
    bounds: K::Bounds,
    size: u32,
    levels: Vec<Level>,
    /// The items that were exchanged at each level.
    passed: Vec<Passed<K::Key>>,
    most: usize,
}

/// The items that were sent at a level, and those received from each sending rank.
type Passed<Key> = (Vec<Key>, Vec<Vec<Key>>);

impl<K: Known> Halving<K> {
    /// Creates the state of a rank of `size` with its own knowledge.
    pub fn new(known: K, bounds: K::Bounds, rank: u32, size: u32) -> Halving<K> {
        Halving { most: known.keys().count(), known, bounds, size, levels: levels(rank, size), passed: Vec::new() }
    }

    /// Returns the rank's levels.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Returns the knowledge to send at the next level.
    pub fn send(&mut self) -> K {
        let level = &self.levels[self.passed.len()];
        let mut other = self.known.split_off(level.middle, self.size);
        if level.upper {
            std::mem::swap(&mut self.known, &mut other);
        }
        self.passed.push((other.keys().collect(), Vec::new()));
        other
    }

    /// Merges the knowledge that another rank sent at this level.
    pub fn receive(&mut self, other: K) {
        if let Some((_, heard)) = self.passed.last_mut() {
            heard.push(other.keys().collect());
        }
        self.known = std::mem::take(&mut self.known).merge(other, self.bounds);
        self.most = self.most.max(self.known.keys().count());
    }

    /// Returns the largest number of items that the rank held at a time.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Returns the answers for the ranks that sent at a level, in their order.
    pub fn answers<A: Clone + Default>(&self, level: usize, answers: &Answers<K, A>) -> Vec<Vec<A>> {
        let answer = |key: &K::Key| answers.get(key).cloned().unwrap_or_default();
        let heard = self.passed.get(level).map(|(_, heard)| &heard[..]).unwrap_or_default();
        heard.iter().map(|heard| heard.iter().map(answer).collect()).collect()
    }

    /// Adds the answers that the rank received at a level.
    pub fn learn<A>(&self, level: usize, said: Vec<A>, answers: &mut Answers<K, A>) {
        let sent = self.passed.get(level).map(|(sent, _)| &sent[..]).unwrap_or_default();
        answers.extend(sent.iter().copied().zip(said));
    }
}

/// Brings the knowledge of all ranks to its homes, and returns each home's answers about the items that this rank knew.
/// An item that was dropped on the way, because it exceeded the bounds, has the default answer. Collective.
pub fn meet<K: Known, A>(
    world: &dyn World,
    known: K,
    bounds: K::Bounds,
    answer: impl FnOnce(&K) -> Answers<K, A>,
) -> Result<Answers<K, A>>
where
    A: Clone + Default + Serialize + for<'a> Deserialize<'a>,
{
    let mut halving = Halving::new(known, bounds, world.rank(), world.size());
    let levels = halving.levels().to_vec();
    for level in &levels {
        let out = encode(&halving.send())?;
        if !level.upper {
            world.send(level.to, &out)?;
        }
        for from in &level.from {
            halving.receive(decode("what a rank knows", &world.receive(*from)?)?);
        }
        if level.upper {
            world.send(level.to, &out)?;
        }
    }
    let mut answers = answer(&halving.known);
    for (number, level) in levels.iter().enumerate().rev() {
        let reply = |answers: &Answers<K, A>| {
            let replies = halving.answers(number, answers);
            level.from.iter().zip(replies).try_for_each(|(from, reply)| world.send(*from, &encode(&reply)?))
        };
        if !level.upper {
            reply(&answers)?;
        }
        let said: Vec<A> = decode("an answer", &world.receive(level.to)?)?;
        if level.upper {
            reply(&answers)?;
        }
        halving.learn(number, said, &mut answers);
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::transport::threads::Threads;

    /// Numbers, and by how many ranks each is known.
    #[derive(Default, Serialize, Deserialize)]
    struct Counts(BTreeMap<u64, u32>);

    impl Known for Counts {
        type Key = u64;
        type Bounds = ();

        fn merge(mut self, other: Self, (): ()) -> Self {
            other.0.into_iter().for_each(|(key, count)| *self.0.entry(key).or_default() += count);
            self
        }

        fn split_off(&mut self, rank: u32, size: u32) -> Self {
            Counts(self.0.split_off(&first(rank, size)))
        }

        fn keys(&self) -> impl Iterator<Item = u64> {
            self.0.keys().copied()
        }
    }

    #[test]
    fn each_level_pairs_senders_with_receivers() {
        for size in 1..200u32 {
            let all: Vec<Vec<Level>> = (0..size).map(|rank| levels(rank, size)).collect();
            for (rank, levels) in (0..).zip(&all) {
                assert!(levels.len() <= size.next_power_of_two().ilog2() as usize);
                for (number, level) in levels.iter().enumerate() {
                    assert!(all[level.to as usize][number].from.contains(&rank));
                    assert!(level.upper != all[level.to as usize][number].upper);
                    assert!(level.from.len() <= 2);
                    assert!(level.from.iter().all(|from| all[*from as usize][number].to == rank));
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn each_rank_learns_what_all_know_about_its_entries(
            ranks in prop::collection::vec(prop::collection::btree_set(0u64..20, 0..12), 1..14),
        ) {
            let number = |small: u64| small.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let nodes: Vec<u32> = (0..ranks.len() as u32).collect();
            let told = Threads::on(&nodes).run(|world| {
                let mine = ranks[world.rank() as usize].iter().map(|small| (number(*small), 1)).collect();
                meet(world, Counts(mine), (), |counts| counts.0.iter().map(|(key, count)| (*key, Some(*count))).collect())
            });
            for (mine, told) in ranks.iter().zip(told) {
                let told = told.expect("no rank dies");
                for small in mine {
                    let count = ranks.iter().filter(|other| other.contains(small)).count() as u32;
                    prop_assert_eq!(told.get(&number(*small)), Some(&Some(count)));
                }
            }
        }
    }
}
