//! The parameters of a search, and the pieces of its result.

/// The index that stands for no target.
pub(super) const NO_TARGET: u8 = u8::MAX;

/// A piece of a replica during the search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    /// The index into the class's candidates.
    pub candidate: u16,
    pub start: u32,
    pub end: u32,
    pub excludes: u128,
}

/// The parameters of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    pub pages: u32,
    pub replicas: usize,
    /// The maximum number of pieces of a replica.
    pub pieces: usize,
    /// The write waits for replica 0 only, so that its cost is minimised first.
    pub is_async: bool,
    /// The last replica must survive a reboot.
    pub last_persistent: bool,
    /// The maximum number of stored bytes.
    pub budget: u64,
    /// The search ends after this many steps with the best scheme found.
    pub steps: u32,
}
