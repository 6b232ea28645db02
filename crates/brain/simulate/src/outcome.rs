//! [`Outcome`]: the result of a simulation.

/// The result of one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PhaseOutcome {
    /// The time that the slowest process waited for storage, in seconds; computing does not count.
    pub seconds: f64,
    /// The time from the start of the phase until the last process finished, in seconds.
    pub elapsed: f64,
    /// The time from the start of the phase until no replica was pending, in seconds.
    pub settled: f64,
}

/// The result of a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The results of the phases.
    pub phases: Vec<PhaseOutcome>,
    /// The bytes that the processes wrote.
    pub raw: f64,
    /// The bytes stored in each tier.
    pub tiers: Vec<u64>,
    /// The capacity of each tier; None if it has no limit.
    pub capacities: Vec<Option<u64>>,
    /// The mean number of replicas per byte.
    pub replicas: f64,
    /// The price of the space that the bytes take.
    pub cost: f64,
    /// The energy of targets and cores while they worked, in joules.
    pub joules: f64,
    /// The number of processed events.
    pub events: u64,
}

impl Outcome {
    /// Returns the total number of stored bytes.
    pub fn stored(&self) -> f64 {
        self.tiers.iter().map(|bytes| *bytes as f64).sum()
    }

    /// Returns the total time of all phases, in seconds; see [`PhaseOutcome::seconds`].
    pub fn seconds(&self) -> f64 {
        self.phases.iter().map(|phase| phase.seconds).sum()
    }
}
