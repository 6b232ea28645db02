//! The stored pieces of blocks that will still be read.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::choose::Piece;
use crate::machine::Machine;
use crate::room::Room;

/// The stored pieces by process, step and object.
#[derive(Default)]
pub(crate) struct Held {
    objects: Vec<Vec<Vec<Vec<Piece>>>>,
}

impl Held {
    /// Stores a block's pieces.
    pub fn keep(&mut self, [process, step, object]: [usize; 3], pieces: &[Piece]) {
        let steps = entry_at(&mut self.objects, process);
        entry_at(entry_at(steps, step), object).extend_from_slice(pieces);
    }

    /// Returns the replica of a block with the earliest estimated arrival, as far as the process knows. Of replicas
    /// with equal estimates, it prefers the one whose target the process uses least, then the first one in the
    /// process's own order for the block.
    pub fn nearest(&self, [process, step, object]: [usize; 3], block: u32, near: ReadContext<'_>) -> Vec<Piece> {
        let of_block = || self.objects[process][step][object].iter().filter(move |piece| piece.block == block);
        let of = |replica: u8| of_block().filter(move |piece| piece.replica == replica);
        let ReadContext { machine, room, node, asked, now } = near;
        let time = |piece| {
            room.expected_read_seconds(node, piece, machine).unwrap_or_else(|| machine.estimate(now, node, piece))
        };
        let takes = |replica: u8| of(replica).map(time).sum::<f64>();
        let asks =
            |replica: u8| of(replica).map(|piece| asked.get(usize::from(piece.target)).unwrap_or(&0)).sum::<u32>();
        let tie_breaker = |replica: u8| {
            let mut hasher = DefaultHasher::new();
            (process, step, object, block, replica).hash(&mut hasher);
            hasher.finish()
        };
        let last = of_block().map(|piece| piece.replica).max().unwrap_or(0);
        let order = |a: &u8, b: &u8| {
            let order = takes(*a).total_cmp(&takes(*b)).then_with(|| asks(*a).cmp(&asks(*b)));
            order.then_with(|| tie_breaker(*a).cmp(&tie_breaker(*b)))
        };
        of((0..=last).min_by(order).unwrap_or(0)).copied().collect()
    }
}

/// The reader, and the time.
#[derive(Clone, Copy)]
pub(crate) struct ReadContext<'a> {
    pub machine: &'a Machine<'a>,
    pub room: &'a Room,
    pub node: usize,
    /// The number of pieces that the process is reading from each target.
    pub asked: &'a [u32],
    pub now: f64,
}

/// Returns the entry of a list at this index. The list grows if it is shorter.
fn entry_at<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}
