//! The plan of an extent: its replicas, with a target and an encoding for each.

use smallvec::SmallVec;
use terrace_catalog::TargetId;
use terrace_codec::Encoding;

/// A replica to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaPlan {
    pub target: TargetId,
    pub encoding: Encoding,
}

/// The replicas of an extent to make. The first one is written first, and read first.
pub(crate) type ReplicaPlans = SmallVec<[ReplicaPlan; 3]>;

/// The plan of one extent: the first `length` of the bytes passed to `Placer::plan_extent`.
#[derive(Debug, Default)]
pub(crate) struct ExtentPlan {
    /// The number of bytes that it covers.
    pub length: usize,
    pub replicas: ReplicaPlans,
    /// Whether the first replica's target has a higher latency than was asked for.
    pub is_slow: bool,
}
