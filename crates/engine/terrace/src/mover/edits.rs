//! The edits that move replicas, and what they are made of.

use terrace_catalog::{Edit, Extent, Replica, TargetId, Task};

use crate::devices::Device;
use crate::read::task_of;

/// Returns the replica of an extent on a target.
pub(super) fn replica_on<'e>(extent: &'e Extent, device: &Device) -> Option<&'e Replica> {
    extent.replicas.iter().find(|replica| replica.target == device.id)
}

/// Returns the edit that drops a replica of an extent.
pub(super) fn drop_replica(key: &[u8], object: u64, extent: &Extent, replica: &Replica) -> Edit {
    let task = task_of(object, extent, replica);
    Edit::Lost { task, key: serde_bytes::ByteBuf::from(key), place: replica.place, owed: None }
}

/// Returns the task of making a replica of an extent on a target.
pub(super) fn task_at(object: u64, extent: &Extent, target: TargetId) -> Task {
    extent.task(object, target)
}

/// The edits that make a pending replica pending on another target instead. In this order, because the sync mark waits for a frame
/// since its first replica became pending: a frame that was pending nowhere in between would count from now on only, and the
/// mark could cover the commit of bytes that are in memory only.
pub(super) fn owe_instead(
    key: &[u8],
    task: Task,
    target: TargetId,
    raw_len: u32,
    then_drop: Option<TargetId>,
) -> [Edit; 2] {
    let key = serde_bytes::ByteBuf::from(key);
    [Edit::Owe { task: Task { target, ..task }, key, raw_len, then_drop }, Edit::Forgive { task }]
}

/// Returns the edit that makes a replica pending.
pub(super) fn owe(key: &[u8], task: Task, extent: &Extent, then_drop: Option<TargetId>) -> Edit {
    Edit::Owe { task, key: serde_bytes::ByteBuf::from(key), raw_len: extent.raw_len, then_drop }
}
