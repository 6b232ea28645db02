//! The sorter: it restores the order inside a segment, which several sources or a network may have changed.

use std::sync::mpsc::Receiver;

use crate::Move;
use crate::segment::Segment;
use crate::shared::Shared;

/// Sorts segments until grouping has ended, and passes each one on as soon as there is room for it.
pub fn sort<M: Move>(shared: &Shared<'_, M>, segments: &Receiver<Segment<M>>, mut next: impl FnMut(Segment<M>)) {
    for mut segment in segments {
        // The sort is stable, so that moves of equal order keep the order of their source.
        segment.moves.sort_by_key(|(_, one)| one.order());
        if shared.stopped() {
            shared.memory.give(segment.weight);
            continue;
        }
        next(segment);
    }
}
