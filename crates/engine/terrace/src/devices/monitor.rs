//! Measures the speed of a device in its real operations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::link::Link;

/// Operations up to this number of bytes measure the latency, longer ones the rate.
const MAX_SHORT_BYTES: usize = 16 << 10;
/// The weight of a new operation against the average of all before it.
const NEWEST_WEIGHT: f64 = 1.0 / 16.0;
/// An operation counts for at most this multiple of its expected time, so that one stall, such as a first write's, does not
/// make a target look slower than the others of its tier.
const MAX_STALL_FACTOR: f64 = 16.0;
/// The latency that is assumed of any device for this limit, in seconds.
const EXPECTED_LATENCY_SECONDS: f64 = 0.5e-3;

/// The speed of a device in one direction. Threads update it without a lock, by a relaxed load and store: if two do so at the
/// same time, one operation is not counted, which does no harm. No data depends on the order.
pub struct Speed {
    /// Bytes per second, as the bits of a float.
    rate: AtomicU64,
    /// Seconds, as the bits of a float.
    latency: AtomicU64,
    /// The way to a device behind a network.
    link: Option<Link>,
}

impl Speed {
    /// Creates the expectation for an unused device.
    pub fn expected(rate: f64, latency: Duration) -> Speed {
        let (rate, latency) = (rate.to_bits(), latency.as_secs_f64().to_bits());
        Speed { rate: AtomicU64::new(rate), latency: AtomicU64::new(latency), link: None }
    }

    /// Also measures the way to a device behind a network.
    pub fn over_link(self) -> Speed {
        Speed { link: Some(Link::new()), ..self }
    }

    /// The same speed, for another list of devices. The link is measured again.
    pub fn again(&self) -> Speed {
        let (rate, latency) = (self.rate().to_bits(), self.latency().to_bits());
        let link = self.link.as_ref().map(|_| Link::new());
        Speed { rate: AtomicU64::new(rate), latency: AtomicU64::new(latency), link }
    }

    /// The least time that an operation on `bytes` bytes lately needed over the device's link, in seconds. None if the device
    /// is behind none, or had no operation lately.
    pub fn link_time(&self, bytes: usize) -> Option<f64> {
        let link = self.link.as_ref()?;
        if bytes <= MAX_SHORT_BYTES { link.latency.get() } else { Some(bytes as f64 * link.per_byte.get()?) }
    }

    /// Bytes per second.
    pub fn rate(&self) -> f64 {
        f64::from_bits(self.rate.load(Ordering::Relaxed))
    }

    /// Seconds before the first byte.
    pub fn latency(&self) -> f64 {
        f64::from_bits(self.latency.load(Ordering::Relaxed))
    }

    /// The expected duration of an operation on `bytes` bytes, in seconds.
    pub fn time(&self, bytes: usize) -> f64 {
        self.latency() + bytes as f64 / self.rate()
    }

    /// Forgets the measurements of the link, as time does.
    #[cfg(test)]
    pub fn forget_link(&self) {
        if let Some(Link { latency, per_byte }) = &self.link {
            latency.forget();
            per_byte.forget();
        }
    }

    /// Notes an operation.
    pub fn note(&self, bytes: usize, took: Duration) {
        let took = took.as_secs_f64();
        if let Some(Link { latency, per_byte }) = &self.link {
            if bytes <= MAX_SHORT_BYTES { latency.note(took) } else { per_byte.note(took / bytes as f64) }
        }
        if bytes <= MAX_SHORT_BYTES {
            let latency = self.latency();
            let took = took.min(MAX_STALL_FACTOR * latency.max(EXPECTED_LATENCY_SECONDS));
            // Relaxed, and no read-modify-write: see `Speed`.
            self.latency.store((latency + (took - latency) * NEWEST_WEIGHT).to_bits(), Ordering::Relaxed);
        } else if took > 0.0 {
            // Averages the time per byte, not the rate, so that a stall counts for the time that it cost.
            let (old, new) = (1.0 / self.rate(), (took - self.latency()).max(took / 2.0) / bytes as f64);
            self.rate.store(
                (1.0 / (old + (new.min(MAX_STALL_FACTOR * old) - old) * NEWEST_WEIGHT)).to_bits(),
                Ordering::Relaxed,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_believed_to_be_as_quick_as_it_was() {
        let speed = Speed::expected(1e9, Duration::ZERO);
        for _ in 0..200 {
            speed.note(4096, Duration::from_millis(5));
            speed.note(1 << 20, Duration::from_millis(5 + 10));
        }
        let rate = (1 << 20) as f64 / 0.010;
        assert!((speed.rate() / rate - 1.0).abs() < 0.01, "{}", speed.rate());
        assert!((speed.time(1 << 20) - 0.015).abs() < 0.0005, "{}", speed.time(1 << 20));
    }

    #[test]
    fn one_stall_halves_what_a_device_is_believed_to_do_at_most() {
        let speed = Speed::expected(1e9, Duration::ZERO);
        speed.note(1 << 20, Duration::from_secs(10));
        speed.note(1 << 10, Duration::from_secs(10));
        assert!(
            speed.rate() > 5e8 && speed.latency() < 1.1 * EXPECTED_LATENCY_SECONDS,
            "{}, {}",
            speed.rate(),
            speed.latency()
        );
        (0..100).for_each(|_| speed.note(1 << 20, Duration::from_secs(1)));
        assert!(speed.rate() < 1.1 * f64::from(1 << 20), "what stays slow is believed: {}", speed.rate());
    }
}
