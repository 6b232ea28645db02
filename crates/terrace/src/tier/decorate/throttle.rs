//! Makes a target as slow as another device, for all processes together.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::time::{ClockId, clock_gettime};

use crate::frame::{Frame, Header};
use crate::tier::{Place, Space, Target};

/// A target that was idle may catch up by this much at the most.
const CREDIT: u64 = 20_000_000;
/// No operation is booked further ahead: what is, was booked before a reboot.
const AHEAD: u64 = 600_000_000_000;

/// How fast the device is that a throttled target stands for.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Bytes read per second.
    pub read: Option<u64>,
    /// Bytes written per second.
    pub write: Option<u64>,
    /// Added to each operation.
    pub latency: Duration,
}

/// A target behind a rate limit. The two instants until which it is busy reading and writing are kept in a file that
/// all processes share.
pub struct Throttle {
    inner: Arc<dyn Target>,
    limits: Limits,
    booked: File,
}

#[derive(Clone, Copy)]
enum Lane {
    Read = 0,
    Write = 8,
}

impl Throttle {
    /// Throttles `inner`; `state` is the shared file.
    pub fn new(inner: Arc<dyn Target>, limits: Limits, state: &Path) -> io::Result<Throttle> {
        let booked = File::options().create(true).truncate(false).read(true).write(true).mode(0o600).open(state)?;
        Ok(Throttle { inner, limits, booked })
    }

    /// Books the time that `bytes` take, and waits until it is over.
    fn wait(&self, lane: Lane, bytes: u64) -> io::Result<()> {
        let rate = match lane {
            Lane::Read => self.limits.read,
            Lane::Write => self.limits.write,
        };
        let mut end = now();
        if let Some(rate) = rate {
            rustix::fs::flock(&self.booked, FlockOperation::LockExclusive)?;
            let mut busy = [0; 8];
            let known = self.booked.read_exact_at(&mut busy, lane as u64).is_ok();
            let busy = if known { u64::from_le_bytes(busy) } else { 0 };
            end = book(now(), busy, bytes, rate);
            let written = self.booked.write_all_at(&end.to_le_bytes(), lane as u64);
            rustix::fs::flock(&self.booked, FlockOperation::Unlock)?;
            written?;
        }
        std::thread::sleep(Duration::from_nanos(end.saturating_sub(now())) + self.limits.latency);
        Ok(())
    }
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// When an operation of `bytes` ends on a device that is busy until `busy`.
fn book(now: u64, busy: u64, bytes: u64, rate: u64) -> u64 {
    let busy = if busy > now + AHEAD { now } else { busy.max(now.saturating_sub(CREDIT)) };
    busy + (u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1))) as u64
}

impl Target for Throttle {
    fn append(&self, frame: &Frame<'_>) -> io::Result<Place> {
        let place = self.inner.append(frame)?;
        self.wait(Lane::Write, u64::from(place.length))?;
        Ok(place)
    }

    fn read(&self, place: Place, skip: u32, out: &mut [u8]) -> io::Result<()> {
        self.wait(Lane::Read, out.len() as u64)?;
        self.inner.read(place, skip, out)
    }

    fn sync(&self, segments: &[u64]) -> io::Result<()> {
        self.inner.sync(segments)
    }

    fn free(&self, places: &[Place]) -> io::Result<()> {
        self.inner.free(places)
    }

    fn discard(&self, segment: u64) -> io::Result<bool> {
        self.inner.discard(segment)
    }

    fn space(&self) -> io::Result<Space> {
        self.inner.space()
    }

    fn scan(&self, found: &mut dyn FnMut(Place, Header)) -> io::Result<()> {
        self.inner.scan(found)
    }

    fn file(&self, segment: u64) -> Option<std::path::PathBuf> {
        self.inner.file(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_device_takes_the_time_that_its_rate_asks_for() {
        let rate = 100_000_000;
        let start = 1_000_000_000_000;
        let mut busy = start;
        for bytes in [4096u64, 1 << 20, 65536].iter().cycle().take(3000) {
            busy = book(start, busy, *bytes, rate);
        }
        let bytes = 1000 * (4096 + (1 << 20) + 65536);
        let seconds = (busy - start) as f64 / 1e9;
        assert!((bytes as f64 / seconds / rate as f64 - 1.0).abs() < 0.001);
    }

    #[test]
    fn idle_time_is_credited_a_little_and_a_time_before_a_reboot_not_at_all() {
        assert_eq!(book(5_000_000_000, 0, 0, 1), 5_000_000_000 - CREDIT);
        assert_eq!(book(5_000_000_000, u64::MAX, 1, 1_000_000_000), 5_000_000_001);
    }
}
