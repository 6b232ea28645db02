//! The identity of a frame, by which the catalog and the log are compared.

use terrace_catalog::{Extent, Task};

/// Identifies a frame among all of the store: its object, its write, and its first byte's offset.
pub(crate) type FrameId = (u64, (u64, u64));

pub(super) fn frame_of(task: &Task) -> FrameId {
    (task.object, (task.write, task.frame_offset))
}

/// Returns the frame of an object's extent.
pub(super) fn frame_in(object: u64, extent: &Extent) -> FrameId {
    frame_of(&extent.task(object, 0))
}
