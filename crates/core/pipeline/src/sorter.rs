//! The sorter: restores the order inside a segment, which several sources or a network may have lost.

use std::sync::mpsc::Receiver;

use crate::Move;
use crate::pipeline::Shared;
use crate::segment::Segment;

/// Sorts until grouping has ended, and hands each segment on as soon as there is room for it.
pub fn sort<M: Move>(shared: &Shared<'_, M>, segments: &Receiver<Segment<M>>, mut next: impl FnMut(Segment<M>)) {
    for mut segment in segments {
        // Stable: what one source says to come first does.
        segment.moves.sort_by_key(|(_, one)| one.order());
        if shared.stopped() {
            shared.memory.give(segment.weight);
            continue;
        }
        next(segment);
    }
}
