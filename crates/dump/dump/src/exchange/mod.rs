//! Step 4: moves bytes between ranks. Each sender puts its bytes directly to their final place in the receiver's
//! window.
//!
//! Each receiver learns the lengths of its letters and tells each sender where its letter begins, so that senders do
//! not wait for each other. Data longer than the window is sent in rounds, each with an equal part of every letter.
//! There are two windows: the receiver reads one while the other fills.

mod places;

use std::ops::Range;

use crate::Result;
use crate::transport::{Window, World};
use places::{Place, Places, agree_on_places};

/// Bytes for one rank, in pieces anywhere in memory.
pub struct Letter<'a> {
    /// The receiving rank. Each rank gets at most one letter of a sender.
    pub to: u32,
    /// The bytes.
    pub parts: Vec<&'a [u8]>,
}

impl Letter<'_> {
    /// Returns the letter's length in bytes.
    pub fn length(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }
}

/// The amount of data that an exchange moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes that this rank sent to other ranks.
    pub sent: u64,
    /// Bytes that this rank received from other ranks.
    pub received: u64,
    /// Number of rounds.
    pub rounds: u64,
}

impl std::ops::AddAssign for Moved {
    fn add_assign(&mut self, other: Moved) {
        self.sent += other.sent;
        self.received += other.received;
        self.rounds += other.rounds;
    }
}

/// Sends letters and passes received bytes to `receive`, as the sender and the next bytes of its letter, in order.
/// Collective. Allocates two windows of about `window` bytes.
///
/// # Errors
/// The first error of `receive`. It is returned only after the whole exchange, so that the other ranks do not block.
pub fn exchange(
    world: &dyn World,
    letters: &[Letter<'_>],
    window: usize,
    receive: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
) -> Result<Moved> {
    let Places { outgoing, incoming, rounds } = agree_on_places(world, letters, window)?;
    let mut moved = Moved { rounds, ..Moved::default() };
    if rounds == 0 {
        return Ok(moved);
    }
    let room = incoming.last().map_or(0, |(_, place)| place.start + place.step);
    let mut windows = [world.window(room as usize)?, world.window(room as usize)?];
    let mut senders: Vec<Sender<'_>> = letters.iter().zip(outgoing).map(|(l, p)| Sender::new(l, p)).collect();
    // Begin with the next rank, so that not all senders put to the same rank first.
    senders.sort_by_key(|sender| (sender.letter.to + world.size() - world.rank()) % world.size());
    let mut outcome = Ok(());
    for round in 0..=rounds {
        // The bytes of the previous round are read after the puts of this one, which go to the other window. The fence
        // at the end of a round orders both: no rank puts to a window before its owner has read it.
        let [even, odd] = &mut windows;
        let (now, before) = if round % 2 == 0 { (even, odd) } else { (odd, even) };
        if round < rounds {
            // Put one piece for each receiver in turn: if several senders have most bytes for the same receiver, none
            // is blocked by it alone.
            let mut all = 1;
            while all > 0 {
                all = 0;
                for sender in &mut senders {
                    let sent = sender.put(now.as_mut(), round)?;
                    moved.sent += if sender.letter.to == world.rank() { 0 } else { sent };
                    all += sent;
                }
            }
        }
        if round > 0 {
            before.read(&mut |memory| {
                for (from, place) in &incoming {
                    let length = place.part(round - 1).count();
                    let bytes = &memory[place.start as usize..place.start as usize + length];
                    moved.received += if *from == world.rank() { 0 } else { length as u64 };
                    if outcome.is_ok() && length > 0 {
                        outcome = receive(*from, bytes);
                    }
                }
            });
        }
        if round < rounds {
            now.fence()?;
        }
    }
    outcome.map(|()| moved)
}

/// The progress of sending a letter.
struct Sender<'a> {
    letter: &'a Letter<'a>,
    place: Place,
    /// Number of bytes sent.
    sent: u64,
    /// The next part to send, and the first byte of it that has not been sent.
    part: usize,
    skip: usize,
}

impl<'a> Sender<'a> {
    fn new(letter: &'a Letter<'a>, place: Place) -> Self {
        Sender { letter, place, sent: 0, part: 0, skip: 0 }
    }

    /// Puts the next piece of this round. Returns its length, or 0 after the last piece of the round.
    fn put(&mut self, window: &mut (dyn Window<'a> + 'a), round: u64) -> Result<u64> {
        let Range { start, end } = self.place.part(round);
        while self.sent < end {
            let Some(rest) = self.letter.parts.get(self.part).map(|part| &part[self.skip..]) else { break };
            let piece = &rest[..rest.len().min((end - self.sent) as usize)];
            let at = self.place.start + self.sent - start;
            self.sent += piece.len() as u64;
            self.skip += piece.len();
            if piece.len() == rest.len() {
                (self.part, self.skip) = (self.part + 1, 0);
            }
            if !piece.is_empty() {
                window.put(self.letter.to, at as usize, piece)?;
                return Ok(piece.len() as u64);
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::Error;
    use crate::transport::threads::Threads;

    /// For each rank, its letters: to whom, and the lengths of the parts.
    fn letters() -> impl Strategy<Value = Vec<BTreeMap<u32, Vec<usize>>>> {
        (1u32..5).prop_flat_map(|size| {
            let parts = prop::collection::vec(0usize..40, 0..5);
            let of_rank = prop::collection::btree_map(0..size, parts, 0..=size as usize);
            prop::collection::vec(of_rank, size as usize)
        })
    }

    fn byte(from: u32, to: u32, at: usize) -> u8 {
        (from * 101 + to * 31 + at as u32) as u8
    }

    proptest! {
        #[test]
        fn all_letters_arrive_whole_with_any_window(letters in letters(), window in 1usize..60) {
            let nodes: Vec<u32> = (0..letters.len() as u32).collect();
            let got = Threads::on(&nodes).run(|world| {
                let me = world.rank();
                let mine = &letters[me as usize];
                let bytes = |to: u32, parts: &[usize]| (0..parts.iter().sum()).map(|at| byte(me, to, at)).collect::<Vec<u8>>();
                let written: Vec<(u32, Vec<u8>, &[usize])> = mine.iter().map(|(to, p)| (*to, bytes(*to, p), &p[..])).collect();
                let letters: Vec<Letter<'_>> = written.iter().map(|(to, bytes, lengths)| {
                    let mut rest = &bytes[..];
                    let parts = lengths.iter().map(|length| {
                        let (part, after) = rest.split_at(*length);
                        rest = after;
                        part
                    });
                    Letter { to: *to, parts: parts.collect() }
                }).collect();
                let mut got: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
                let moved = exchange(world, &letters, window, &mut |from, bytes| {
                    got.entry(from).or_default().extend_from_slice(bytes);
                    Ok(())
                })?;
                Ok::<_, Error>((got, moved))
            });
            for (to, got) in got.into_iter().enumerate() {
                let to = to as u32;
                let (got, moved) = got.expect("no rank dies");
                let mut received = 0;
                for (from, sent) in letters.iter().enumerate() {
                    let length = sent.get(&to).map_or(0, |parts| parts.iter().sum());
                    let expected: Vec<u8> = (0..length).map(|at| byte(from as u32, to, at)).collect();
                    prop_assert_eq!(got.get(&(from as u32)).cloned().unwrap_or_default(), expected);
                    received += if from as u32 == to { 0 } else { length as u64 };
                }
                prop_assert_eq!(moved.received, received);
            }
        }
    }

    #[test]
    fn a_receiver_that_fails_keeps_nobody_waiting() {
        let done = Threads::on(&[0, 1, 2]).run(|world| {
            let bytes = [7; 100];
            let letters = [Letter { to: 1, parts: vec![&bytes] }];
            exchange(world, &letters, 16, &mut |_, _| Err(Error::Refused("no room".into())))
        });
        assert_eq!(done.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    }
}
