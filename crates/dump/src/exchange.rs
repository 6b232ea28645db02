//! Step 4: bytes move between ranks, each put straight to where it belongs in its receiver's window.
//!
//! All letters to a rank lie in a row, in order of senders. An all-gather of their lengths tells each sender where its own
//! begins, so that nobody waits for anybody. Rows longer than the window go in rounds; of two windows one is read while
//! the other fills.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::transport::{Window, World};
use crate::{Error, Result};

/// Bytes for a rank, in pieces that lie anywhere.
pub struct Letter<'a> {
    /// The rank. Each is sent one letter at most.
    pub to: u32,
    /// The bytes.
    pub parts: Vec<&'a [u8]>,
}

impl Letter<'_> {
    /// Its length in bytes.
    pub fn length(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }
}

/// What an exchange has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes that this rank has sent to others.
    pub sent: u64,
    /// Bytes that it has received from others.
    pub received: u64,
    /// Rounds that it took.
    pub rounds: u64,
}

impl std::ops::AddAssign for Moved {
    fn add_assign(&mut self, other: Moved) {
        self.sent += other.sent;
        self.received += other.received;
        self.rounds += other.rounds;
    }
}

/// Sends letters, and hands what comes to `receive`: who sent it, and bytes of its letter, in order. Collective. Takes two
/// windows of `window` bytes.
///
/// # Errors
/// What `receive` fails with, once the exchange is over: the others are not kept waiting.
pub fn exchange(
    world: &dyn World,
    letters: &[Letter<'_>],
    window: usize,
    receive: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
) -> Result<Moved> {
    let sizes: Vec<(u32, u64)> = letters.iter().map(|letter| (letter.to, letter.length())).collect();
    let sizes = postcard::to_stdvec(&sizes).map_err(|e| Error::damaged("lengths of letters", e))?;
    let sizes = world.all_gather(&sizes)?;
    let decode = |bytes: &Vec<u8>| postcard::from_bytes(bytes).map_err(|e| Error::damaged("lengths of letters", e));
    let sizes = sizes.iter().map(decode).collect::<Result<Vec<_>>>()?;
    let plan = Rows::new(&sizes, world.rank());
    let mut moved = Moved { rounds: plan.rounds(window), ..Moved::default() };
    if moved.rounds == 0 {
        return Ok(moved);
    }
    let room = plan.longest.min(window as u64) as usize;
    let mut windows = [world.window(room)?, world.window(room)?];
    let mut senders: Vec<Sender<'_>> = letters.iter().map(Sender::new).collect();
    let mut outcome = Ok(());
    for round in 0..=moved.rounds {
        // What the round before has put is read after this one's puts, which go to the other window.
        let covered = |round: u64| round * room as u64..(round + 1) * room as u64;
        let [even, odd] = &mut windows;
        let (now, before) = if round % 2 == 0 { (even, odd) } else { (odd, even) };
        if round < moved.rounds {
            for sender in &mut senders {
                let sent = sender.put(now.as_mut(), &plan, covered(round))?;
                moved.sent += if sender.letter.to == world.rank() { 0 } else { sent };
            }
        }
        if round > 0 {
            let covered = covered(round - 1);
            before.read(&mut |memory| {
                for (from, range) in &plan.incoming {
                    let part = overlap(range, &covered);
                    let bytes = &memory[(part.start - covered.start) as usize..(part.end - covered.start) as usize];
                    moved.received += if *from == world.rank() { 0 } else { bytes.len() as u64 };
                    if outcome.is_ok() && !bytes.is_empty() {
                        outcome = receive(*from, bytes);
                    }
                }
            });
        }
        if round < moved.rounds {
            now.fence()?;
        }
    }
    outcome.map(|()| moved)
}

/// Where letters lie in their receivers' rows.
struct Rows {
    /// For each receiver of this rank's letters, where in its row that begins.
    outgoing: BTreeMap<u32, u64>,
    /// Letters to this rank, and what of its row they take.
    incoming: Vec<(u32, Range<u64>)>,
    /// The longest row of any rank.
    longest: u64,
}

impl Rows {
    /// By what each rank sends to which.
    fn new(sizes: &[Vec<(u32, u64)>], rank: u32) -> Rows {
        let mut rows = Rows { outgoing: BTreeMap::new(), incoming: Vec::new(), longest: 0 };
        let mut lengths: BTreeMap<u32, u64> = BTreeMap::new();
        for (from, letters) in sizes.iter().enumerate() {
            for (to, length) in letters {
                let end = lengths.entry(*to).or_default();
                if from as u32 == rank {
                    rows.outgoing.insert(*to, *end);
                }
                if *to == rank {
                    rows.incoming.push((from as u32, *end..*end + length));
                }
                *end += length;
            }
        }
        rows.longest = lengths.values().copied().max().unwrap_or(0);
        rows
    }

    fn rounds(&self, window: usize) -> u64 {
        self.longest.div_ceil(window.max(1) as u64)
    }
}

/// How far a letter has been sent.
struct Sender<'a> {
    letter: &'a Letter<'a>,
    length: u64,
    /// The part that comes next, and its first byte that does.
    part: usize,
    skip: usize,
}

impl<'a> Sender<'a> {
    fn new(letter: &'a Letter<'a>) -> Self {
        Sender { letter, length: letter.length(), part: 0, skip: 0 }
    }

    /// Puts what of the letter belongs to the round that covers this part of the receiver's row.
    fn put(&mut self, window: &mut (dyn Window<'a> + 'a), rows: &Rows, covered: Range<u64>) -> Result<u64> {
        let start = rows.outgoing.get(&self.letter.to).copied().unwrap_or(0);
        let range = overlap(&(start..start + self.length), &covered);
        let mut at = range.start;
        while at < range.end {
            let Some(rest) = self.letter.parts.get(self.part).map(|part| &part[self.skip..]) else { break };
            let piece = &rest[..rest.len().min((range.end - at) as usize)];
            if !piece.is_empty() {
                window.put(self.letter.to, (at - covered.start) as usize, piece)?;
            }
            at += piece.len() as u64;
            self.skip += piece.len();
            if piece.len() == rest.len() {
                (self.part, self.skip) = (self.part + 1, 0);
            }
        }
        Ok(range.end - range.start)
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    let start = a.start.clamp(b.start, b.end);
    start..a.end.clamp(start, b.end)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
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
        fn all_letters_arrive_whole_whatever_the_window(letters in letters(), window in 1usize..60) {
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
