//! Decides at which calls a checkpoint is made, so that all ranks decide alike.

use std::time::{Duration, Instant};

use terrace_dump::Result;
use terrace_dump::flags::RunFlags;
use terrace_dump::transport::World;

/// The calls so far, and the time since the last checkpoint.
pub struct CheckpointSchedule {
    /// The number of calls at which the program has paused, also before a restart.
    calls: u64,
    /// With an interval of time: the calls up to the next one at which the ranks ask the first one for the time.
    calls_to_ask: u64,
    calls_since: u64,
    since: Instant,
}

impl Default for CheckpointSchedule {
    fn default() -> Self {
        CheckpointSchedule { calls: 0, calls_to_ask: 0, calls_since: 0, since: Instant::now() }
    }
}

impl CheckpointSchedule {
    /// Returns the number of calls so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Continues with the calls of a program that was at this one when it was dumped.
    pub fn continue_after(&mut self, calls: u64) {
        self.calls = calls;
        self.begin_interval();
    }

    /// Counts a call. Returns whether a checkpoint is made at it. Collective.
    pub fn arrive(&mut self, world: &dyn World, settings: &RunFlags) -> Result<bool> {
        self.calls += 1;
        self.calls_since += 1;
        let Some(seconds) = settings.every else {
            return Ok(self.calls.is_multiple_of(u64::from(settings.each.get())));
        };
        if self.calls_to_ask > 1 {
            self.calls_to_ask -= 1;
            return Ok(false);
        }
        // The first rank's clock decides: the clocks of others differ.
        let first = if world.rank() == 0 { self.calls_left(Duration::from_secs(u64::from(seconds.get()))) } else { 0 };
        self.calls_to_ask = world.most(first)?;
        Ok(self.calls_to_ask == 0)
    }

    /// Begins an interval of time.
    pub fn begin_interval(&mut self) {
        (self.calls_to_ask, self.calls_since, self.since) = (0, 0, Instant::now());
    }

    /// Returns after how many calls the ranks ask again: half of those that fit into the rest of the interval, so that they seldom ask and
    /// are hardly late. 0 if the interval is over.
    fn calls_left(&self, interval: Duration) -> u64 {
        let passed = self.since.elapsed();
        let Some(rest) = interval.checked_sub(passed).filter(|rest| !rest.is_zero()) else { return 0 };
        let calls_that_fit = self.calls_since as f64 * rest.as_secs_f64() / passed.as_secs_f64().max(f64::MIN_POSITIVE);
        ((calls_that_fit / 2.0) as u64).clamp(1, u64::from(u32::MAX))
    }
}
