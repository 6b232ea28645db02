//! [`Outcome`]: what came of it.

/// What came of one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PhaseOutcome {
    /// Seconds that the slowest process waited for storage; computing does not count.
    pub seconds: f64,
    /// Seconds from its begin until the last process was through.
    pub elapsed: f64,
    /// Seconds from its begin until nothing was owed any more.
    pub settled: f64,
}

/// What came of one policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The phases.
    pub phases: Vec<PhaseOutcome>,
    /// Bytes that the processes wrote.
    pub raw: f64,
    /// Bytes stored in each tier.
    pub tiers: Vec<u64>,
    /// What each tier may hold; none where there is no limit.
    pub capacities: Vec<Option<u64>>,
    /// Replicas of each byte, on average.
    pub replicas: f64,
    /// What the space costs that the bytes take.
    pub cost: f64,
    /// Joules that targets and cores drew while they worked.
    pub joules: f64,
    /// Events that were gone through.
    pub events: u64,
}

impl Outcome {
    /// Bytes stored in all.
    pub fn stored(&self) -> f64 {
        self.tiers.iter().map(|bytes| *bytes as f64).sum()
    }

    /// Seconds of all phases; see [`PhaseOutcome::seconds`].
    pub fn seconds(&self) -> f64 {
        self.phases.iter().map(|phase| phase.seconds).sum()
    }
}
