//! Measures the speed of a device in its real operations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace_cost::{MAX_SHORT_OPERATION_BYTES, MeasuredSpeed};

use super::link::Link;

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
        if bytes <= MAX_SHORT_OPERATION_BYTES { link.latency.get() } else { Some(bytes as f64 * link.per_byte.get()?) }
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
        self.measured().time(bytes)
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
            if bytes <= MAX_SHORT_OPERATION_BYTES { latency.note(took) } else { per_byte.note(took / bytes as f64) }
        }
        let now = self.measured().learn(bytes, took);
        // Relaxed, and no read-modify-write: see `Speed`. Only the changed one is stored, so that a short and a long operation at the same
        // time both count.
        if bytes <= MAX_SHORT_OPERATION_BYTES {
            self.latency.store(now.latency.to_bits(), Ordering::Relaxed);
        } else {
            self.rate.store(now.rate.to_bits(), Ordering::Relaxed);
        }
    }

    fn measured(&self) -> MeasuredSpeed {
        MeasuredSpeed { rate: self.rate(), latency: self.latency() }
    }
}
