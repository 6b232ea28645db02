//! Where letters come in, and in how many rounds.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Letter;
use crate::Result;
use crate::halving::{Answers, Known, meet};
use crate::transport::World;

/// Even where all fits the window there are so many rounds, so that what comes is stored meanwhile,
const ROUNDS: u64 = 16;
/// but none moves less than this to the rank that receives most.
const LEAST: u64 = 128 << 10;

/// Where a letter comes in.
pub struct Place {
    /// The letter's length in bytes.
    pub length: u64,
    /// Where in its receiver's window the part of each round begins.
    pub start: u64,
    /// How long that part is, but for the last.
    pub step: u64,
}

impl Place {
    /// Of the letter that comes after `before` others with `bytes` bytes.
    fn new(length: u64, (bytes, before): (u64, u64), rounds: u64) -> Place {
        // Rounded up, so that one more for each letter is enough.
        Place { length, start: bytes.div_ceil(rounds) + before, step: length.div_ceil(rounds) }
    }

    /// What of the letter a round moves.
    pub fn part(&self, round: u64) -> Range<u64> {
        (round * self.step).min(self.length)..((round + 1) * self.step).min(self.length)
    }
}

/// Where letters come in.
pub struct Places {
    /// Of each letter of this rank.
    pub outgoing: Vec<Place>,
    /// Of those to it: who sends, and where it comes in.
    pub incoming: Vec<(u32, Place)>,
    /// In so many rounds; none where nobody sends anything.
    pub rounds: u64,
}

/// Agrees on where letters come in. Collective.
pub fn places(world: &dyn World, letters: &[Letter<'_>], window: usize) -> Result<Places> {
    let key = |letter: &Letter<'_>| u64::from(letter.to) << 32 | u64::from(world.rank());
    let mut lengths = Lengths(letters.iter().map(|letter| (key(letter), letter.length())).collect());
    lengths.0.sort_unstable();
    let (mut heard, mut row) = (Vec::new(), (0, 0));
    let before: Answers<Lengths, (u64, u64)> = meet(world, lengths, (), |to_me| {
        for (key, length) in &to_me.0 {
            heard.push((*key, *length, row));
            row = (row.0 + length, row.1 + 1);
        }
        heard.iter().map(|(key, _, before)| (*key, *before)).collect()
    })?;
    let longest = world.most(row.0)?;
    let rounds = longest.div_ceil((longest / ROUNDS).max(LEAST).min(window.max(1) as u64));
    let outgoing = letters.iter().map(|letter| {
        let before = before.get(&key(letter)).copied().unwrap_or_default();
        Place::new(letter.length(), before, rounds.max(1))
    });
    let incoming =
        heard.into_iter().map(|(key, length, before)| (key as u32, Place::new(length, before, rounds.max(1))));
    Ok(Places { outgoing: outgoing.collect(), incoming: incoming.collect(), rounds })
}

/// Lengths of letters, by receiver and sender, each at home with its receiver.
#[derive(Default, Serialize, Deserialize)]
struct Lengths(Vec<(u64, u64)>);

impl Known for Lengths {
    type Key = u64;
    type Bounds = ();

    fn merge(mut self, other: Self, (): ()) -> Self {
        self.0.extend(other.0);
        self.0.sort_unstable();
        self
    }

    fn split_off(&mut self, rank: u32, _: u32) -> Self {
        Lengths(self.0.split_off(self.0.partition_point(|(key, _)| key >> 32 < u64::from(rank))))
    }

    fn keys(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|(key, _)| *key)
    }
}
