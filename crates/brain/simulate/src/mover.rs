//! Makes what a write did not wait for: one worker for each node and target.

use std::collections::{HashMap, VecDeque};

use crate::choose::Piece;

/// What one worker has to make.
#[derive(Default)]
pub(crate) struct Owed {
    pub queue: VecDeque<Piece>,
    /// Whether it is at work.
    pub busy: bool,
}

/// The workers, numbered in the order in which they first had something to do.
#[derive(Default)]
pub(crate) struct Movers {
    numbers: HashMap<(usize, usize), usize>,
    pub workers: Vec<(usize, Owed)>,
}

impl Movers {
    /// Gives the worker of a node's target a piece; its number, if it was idle.
    pub fn owe(&mut self, node: usize, target: usize, piece: Piece) -> Option<usize> {
        let number = *self.numbers.entry((node, target)).or_insert_with(|| {
            self.workers.push((node, Owed::default()));
            self.workers.len() - 1
        });
        let owed = &mut self.workers[number].1;
        owed.queue.push_back(piece);
        (!std::mem::replace(&mut owed.busy, true)).then_some(number)
    }
}
