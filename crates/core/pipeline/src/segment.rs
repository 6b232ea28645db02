//! Moves to one destination that are written together.

use std::time::Instant;

use crate::{DestinationOf, Move};

/// Moves of one destination, each with the number of its source.
pub struct Segment<M: Move> {
    pub destination: DestinationOf<M>,
    pub moves: Vec<(usize, M)>,
    /// Bytes of memory of all moves.
    pub weight: usize,
    pub since: Instant,
    /// How often the destination had failed when this began: what is of an earlier time is void, as all of it is pulled again.
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
