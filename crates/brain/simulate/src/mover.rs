//! The movers, which make the pending replicas: one worker per node and target.

use std::collections::{HashMap, VecDeque};

use crate::choose::Piece;

/// The pending pieces of one worker.
#[derive(Default)]
pub(crate) struct PendingPieces {
    pub queue: VecDeque<Piece>,
    /// Whether the worker is busy.
    pub busy: bool,
}

/// The workers, numbered in the order of their first piece.
#[derive(Default)]
pub(crate) struct Movers {
    numbers: HashMap<(usize, usize), usize>,
    pub workers: Vec<(usize, PendingPieces)>,
}

impl Movers {
    /// Adds a piece to the worker of a node and target; returns the worker's number if it was idle.
    pub fn add_pending(&mut self, node: usize, target: usize, piece: Piece) -> Option<usize> {
        let number = *self.numbers.entry((node, target)).or_insert_with(|| {
            self.workers.push((node, PendingPieces::default()));
            self.workers.len() - 1
        });
        let owed = &mut self.workers[number].1;
        owed.queue.push_back(piece);
        (!std::mem::replace(&mut owed.busy, true)).then_some(number)
    }
}
