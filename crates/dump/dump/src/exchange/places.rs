//! The places of letters in their receivers' windows, and the number of rounds.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Letter;
use crate::Result;
use crate::halving::{Answers, Known, meet};
use crate::transport::World;

/// The number of rounds to aim for. It is more than one even if all bytes fit the window, so that one round is stored while the next is sent.
const TARGET_ROUNDS: u64 = 16;
/// A round moves at least this many bytes to the rank that receives most, so that the cost of a round stays small.
const MIN_ROUND_BYTES: u64 = 128 << 10;

/// The place of a letter in its receiver's window.
pub struct Place {
    /// The letter's length in bytes.
    pub length: u64,
    /// The offset in the receiver's window at which this letter's part begins, in every round.
    pub start: u64,
    /// The length of that part in every round but the last.
    pub step: u64,
}

impl Place {
    /// Returns the place of a letter that follows `before` other letters with `bytes` bytes in total.
    fn new(length: u64, (bytes, before): (u64, u64), rounds: u64) -> Place {
        // Each earlier part is rounded up by at most one byte, so adding `before` keeps letters disjoint.
        Place { length, start: bytes.div_ceil(rounds) + before, step: length.div_ceil(rounds) }
    }

    /// Returns the bytes of the letter that a round moves.
    pub fn part(&self, round: u64) -> Range<u64> {
        (round * self.step).min(self.length)..((round + 1) * self.step).min(self.length)
    }
}

/// The places of all letters that a rank sends or receives.
pub struct Places {
    /// The place of each letter that this rank sends.
    pub outgoing: Vec<Place>,
    /// The sender and the place of each letter that this rank receives.
    pub incoming: Vec<(u32, Place)>,
    /// Number of rounds; 0 if no rank sends anything.
    pub rounds: u64,
}

/// Agrees with all ranks on the places of letters. Collective.
pub fn agree_on_places(world: &dyn World, letters: &[Letter<'_>], window: usize) -> Result<Places> {
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
    let rounds = longest.div_ceil((longest / TARGET_ROUNDS).max(MIN_ROUND_BYTES).min(window.max(1) as u64));
    let outgoing = letters.iter().map(|letter| {
        let before = before.get(&key(letter)).copied().unwrap_or_default();
        Place::new(letter.length(), before, rounds.max(1))
    });
    let incoming =
        heard.into_iter().map(|(key, length, before)| (key as u32, Place::new(length, before, rounds.max(1))));
    Ok(Places { outgoing: outgoing.collect(), incoming: incoming.collect(), rounds })
}

/// The lengths of letters by receiver and sender. The home of a length is its receiver.
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
