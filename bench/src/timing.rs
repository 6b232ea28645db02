//! Times of many repetitions.

use std::time::Instant;

/// Sorted times, in seconds.
pub struct Times(Vec<f64>);

impl Times {
    /// Sorts times.
    pub fn new(mut times: Vec<f64>) -> Times {
        times.sort_by(f64::total_cmp);
        Times(times)
    }

    /// Returns the time below which this share of all times lies.
    pub fn quantile(&self, share: f64) -> f64 {
        let at = ((self.0.len() - 1) as f64 * share).round() as usize;
        self.0[at]
    }

    /// Returns the median.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Returns the number of times.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// Runs a function. Returns the seconds that it took, and its result.
pub fn time<T>(run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(f64, T)> {
    let start = Instant::now();
    let value = run()?;
    Ok((start.elapsed().as_secs_f64(), value))
}

/// Returns the median of a few figures.
pub fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    Times::new(figures.into_iter().collect()).median()
}
