//! Times of many repetitions.

use std::time::Instant;

/// Sorted times, in seconds.
pub struct Times(Vec<f64>);

impl Times {
    /// Of these.
    pub fn new(mut times: Vec<f64>) -> Times {
        times.sort_by(f64::total_cmp);
        Times(times)
    }

    /// The time below which this share of all lies.
    pub fn quantile(&self, share: f64) -> f64 {
        let at = ((self.0.len() - 1) as f64 * share).round() as usize;
        self.0[at]
    }

    /// The middle one.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// Seconds that a run takes.
pub fn time<T>(run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(f64, T)> {
    let start = Instant::now();
    let value = run()?;
    Ok((start.elapsed().as_secs_f64(), value))
}

/// The middle of a few figures.
pub fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    Times::new(figures.into_iter().collect()).median()
}
