//! Where what was written is, as long as it will be read.

use crate::choose::Piece;
use crate::machine::Machine;
use crate::room::Room;

/// Pieces by process, step and object.
#[derive(Default)]
pub(crate) struct Held {
    objects: Vec<Vec<Vec<Vec<Piece>>>>,
}

impl Held {
    /// Keeps a block's pieces.
    pub fn keep(&mut self, [process, step, object]: [usize; 3], pieces: &[Piece]) {
        let steps = at(&mut self.objects, process);
        at(at(steps, step), object).extend_from_slice(pieces);
    }

    /// The replica of a block that would be there first, as far as the node knows.
    pub fn nearest(&self, [process, step, object]: [usize; 3], block: u32, near: Near<'_>) -> Vec<Piece> {
        let of_block = || self.objects[process][step][object].iter().filter(move |piece| piece.block == block);
        let of = |replica: u8| of_block().filter(move |piece| piece.replica == replica);
        let Near { machine, room, node, now } = near;
        let time = |piece| room.reading(node, piece).unwrap_or_else(|| machine.estimate(now, node, piece));
        let takes = |replica: u8| of(replica).map(time).sum::<f64>();
        let last = of_block().map(|piece| piece.replica).max().unwrap_or(0);
        let nearest = (0..=last).min_by(|a, b| takes(*a).total_cmp(&takes(*b))).unwrap_or(0);
        of(nearest).copied().collect()
    }
}

/// Who reads, and when.
#[derive(Clone, Copy)]
pub(crate) struct Near<'a> {
    pub machine: &'a Machine<'a>,
    pub room: &'a Room,
    pub node: usize,
    pub now: f64,
}

fn at<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}
