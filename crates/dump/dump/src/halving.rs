//! Step 2, together: what ranks know of a thing meets at the thing's home, and the answer goes back to those who know of it.
//!
//! Recursive halving: in each of log2(ranks) levels a group of ranks is cut in two, and each rank sends what has its home in
//! the other half to a rank there. What is equal becomes one on the way, so that a rank holds and sends no more than its own
//! share at any level, however many ranks have the same. Answers take the same ways back.

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

/// What a rank knows of things, each once, in order of their homes.
pub trait Known: Default + Serialize + DeserializeOwned {
    /// Tells things apart.
    type Key: Copy + Eq + Hash;
    /// How much is kept.
    type Bounds: Copy;

    /// What both know together.
    fn merge(self, other: Self, bounds: Self::Bounds) -> Self;

    /// Keeps what has its home at a rank below `rank` of `size`, and returns the rest.
    fn split_off(&mut self, rank: u32, size: u32) -> Self;

    /// The things, in order.
    fn keys(&self) -> impl Iterator<Item = Self::Key>;
}

/// The least number of the things at home at a rank, where random numbers tell the homes.
pub fn first(rank: u32, size: u32) -> u64 {
    (u128::from(rank) << 64).div_ceil(u128::from(size)) as u64
}

/// Answers by thing.
pub type Answers<K, A> = HashMap<<K as Known>::Key, A, BuildHasherDefault<Same>>;

/// A level, as a rank sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// The first rank of the upper half.
    pub middle: u32,
    /// Whether this rank is in the upper half. The lower half sends first, so that nobody waits in a circle.
    pub upper: bool,
    /// The rank of the other half that it sends to.
    pub to: u32,
    /// Those that send to it: two where the lower half is the larger one.
    pub from: SmallVec<[u32; 2]>,
}

/// A rank's levels.
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

/// A rank's part: what it holds by now, and of whom it heard it.
pub struct Halving<K: Known> {
    /// What it holds.
    pub known: K,
    bounds: K::Bounds,
    size: u32,
    levels: Vec<Level>,
    /// What has passed at each level.
    passed: Vec<Passed<K::Key>>,
    most: usize,
}

/// Things sent at a level, and things heard of each rank that sends.
type Passed<Key> = (Vec<Key>, Vec<Vec<Key>>);

impl<K: Known> Halving<K> {
    /// Begins with what a rank of `size` knows by itself.
    pub fn new(known: K, bounds: K::Bounds, rank: u32, size: u32) -> Halving<K> {
        Halving { most: known.keys().count(), known, bounds, size, levels: levels(rank, size), passed: Vec::new() }
    }

    /// Its levels.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// What it sends at the next level.
    pub fn send(&mut self) -> K {
        let level = &self.levels[self.passed.len()];
        let mut other = self.known.split_off(level.middle, self.size);
        if level.upper {
            std::mem::swap(&mut self.known, &mut other);
        }
        self.passed.push((other.keys().collect(), Vec::new()));
        other
    }

    /// Takes in what a rank has sent it at this level.
    pub fn hear(&mut self, other: K) {
        if let Some((_, heard)) = self.passed.last_mut() {
            heard.push(other.keys().collect());
        }
        self.known = std::mem::take(&mut self.known).merge(other, self.bounds);
        self.most = self.most.max(self.known.keys().count());
    }

    /// The most things of which it held something at a time.
    pub fn most(&self) -> usize {
        self.most
    }

    /// What it answers those of whom it heard at a level, in their order.
    pub fn answers<A: Clone + Default>(&self, level: usize, answers: &Answers<K, A>) -> Vec<Vec<A>> {
        let answer = |key: &K::Key| answers.get(key).cloned().unwrap_or_default();
        let heard = self.passed.get(level).map(|(_, heard)| &heard[..]).unwrap_or_default();
        heard.iter().map(|heard| heard.iter().map(answer).collect()).collect()
    }

    /// Takes in what it was answered at a level.
    pub fn learn<A>(&self, level: usize, said: Vec<A>, answers: &mut Answers<K, A>) {
        let sent = self.passed.get(level).map(|(sent, _)| &sent[..]).unwrap_or_default();
        answers.extend(sent.iter().copied().zip(said));
    }
}

/// Brings what all ranks know to its homes, and each home's answers back: to each rank those about what it knew. What did not
/// fit anywhere on the way is answered by nothing. Collective.
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
            halving.hear(decode("what a rank knows", &world.receive(*from)?)?);
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
    fn each_level_pairs_what_is_sent_with_who_receives() {
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
        fn each_rank_is_told_what_all_know_of_its_own(
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
