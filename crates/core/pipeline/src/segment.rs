//! Moves to one destination that are written together.

use std::time::Instant;

use crate::{DestinationOf, Move};

/// Moves to one destination, each with the number of its source.
pub struct Segment<M: Move> {
    pub destination: DestinationOf<M>,
    pub moves: Vec<(usize, M)>,
    /// The memory of all moves, in bytes.
    pub weight: usize,
    pub since: Instant,
    /// The epoch: how often the destination had failed when the segment was created. Segments of an earlier epoch are
    /// void, because all of their moves are pulled again.
    pub epoch: u64,
}

impl<M: Move> Segment<M> {
    pub fn new(destination: DestinationOf<M>, epoch: u64) -> Self {
        Segment { destination, moves: Vec::new(), weight: 0, since: Instant::now(), epoch }
    }

    pub fn add(&mut self, source: usize, one: M) {
        self.weight += one.weight();
        self.moves.push((source, one));
    }
}
