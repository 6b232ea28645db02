//! The way to a target behind a network, measured by the quickest of the operations on it.
//!
//! The mean time of operations also contains waiting for others, here and at the target. The quickest operation waited
//! least: what it took is the price of the distance. So a busy target does not look far away, and a far one does not look
//! near because it is idle.

use std::sync::atomic::{AtomicU64, Ordering};

use terrace_system::clock::monotonic_nanos;

/// Measurements are forgotten after one to two times this time, so that a link that was slow is tried again.
const WINDOW_NANOS: u64 = 30_000_000_000;

/// The quickest operations of late.
pub struct Link {
    /// Of short operations, in seconds.
    pub latency: Least,
    /// Of long operations, in seconds for each byte, with the latency.
    pub per_byte: Least,
}

impl Link {
    pub fn new() -> Link {
        Link { latency: Least::new(), per_byte: Least::new() }
    }
}

/// The least of the values of this window of time and the one before. Threads update it without a lock: if two do so at
/// the same time, a value may be lost, which does no harm. No data depends on the order.
pub struct Least {
    /// The number of the window, and the least values in it and in the one before, as the bits of floats.
    window: AtomicU64,
    now: AtomicU64,
    before: AtomicU64,
}

impl Least {
    fn new() -> Least {
        let none = || AtomicU64::new(f64::INFINITY.to_bits());
        Least { window: AtomicU64::new(0), now: none(), before: none() }
    }

    /// Adds a value.
    pub fn note(&self, value: f64) {
        self.note_at(value, monotonic_nanos() / WINDOW_NANOS);
    }

    /// Returns the least value; none if there was no value lately.
    pub fn get(&self) -> Option<f64> {
        self.get_at(monotonic_nanos() / WINDOW_NANOS)
    }

    #[cfg(test)]
    pub fn forget(&self) {
        for value in [&self.now, &self.before] {
            value.store(f64::INFINITY.to_bits(), Ordering::Relaxed); // see `Least`
        }
    }

    // Relaxed, and no read-modify-write: see `Least`.
    fn note_at(&self, value: f64, window: u64) {
        let [now, before] = self.values_at(window);
        self.before.store(before.to_bits(), Ordering::Relaxed);
        self.now.store(now.min(value).to_bits(), Ordering::Relaxed);
        self.window.store(window, Ordering::Relaxed);
    }

    fn get_at(&self, window: u64) -> Option<f64> {
        let [now, before] = self.values_at(window);
        Some(now.min(before)).filter(|least| least.is_finite())
    }

    /// Returns the least value of a window, and that of the one before.
    fn values_at(&self, window: u64) -> [f64; 2] {
        let of = |value: &AtomicU64| f64::from_bits(value.load(Ordering::Relaxed));
        match window.saturating_sub(self.window.load(Ordering::Relaxed)) {
            0 => [of(&self.now), of(&self.before)],
            1 => [f64::INFINITY, of(&self.now)],
            _ => [f64::INFINITY; 2],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_value_counts_until_it_is_forgotten() {
        let least = Least::new();
        assert_eq!(least.get_at(7), None);
        [5.0, 2.0, 9.0].into_iter().for_each(|value| least.note_at(value, 7));
        assert_eq!((least.get_at(7), least.get_at(8), least.get_at(9)), (Some(2.0), Some(2.0), None));
        least.note_at(3.0, 8);
        assert_eq!((least.get_at(8), least.get_at(9)), (Some(2.0), Some(3.0)));
        least.note_at(4.0, 11);
        assert_eq!(least.get_at(11), Some(4.0));
    }
}
