//! Limits the rate of a target, for all processes together, so that it behaves like a slower device.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use terrace_format::frame::Frame;
use terrace_system::Locked;
use terrace_system::clock::monotonic_nanos;

use super::files;
use crate::{FileStore, Place, Target};

const SECOND_NANOSECONDS: u64 = 1_000_000_000;
/// The most idle time for which a target is credited.
const MAX_CREDIT_NANOSECONDS: u64 = SECOND_NANOSECONDS / 50;
/// Time is booked ahead by at most this, or by the time that `MAX_QUEUED_BYTES` take. A later instant is from before a reboot.
const MAX_AHEAD_NANOSECONDS: u64 = 60 * SECOND_NANOSECONDS;
/// Bytes that may wait in a slow target's queue.
const MAX_QUEUED_BYTES: u64 = 256 << 20;

/// The speed of a throttled target.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Bytes read per second.
    pub read: Option<u64>,
    /// Bytes written per second.
    pub write: Option<u64>,
    /// Added to each append, read and sync. It does not keep the device busy for others.
    pub latency: Duration,
}

/// A target behind a rate limit, which all processes share through a file. The file holds two little-endian `u64`: the instants,
/// in nanoseconds of the monotonic clock, until which the device is busy reading and writing.
pub struct Throttle {
    inner: Arc<dyn Target>,
    limits: Limits,
    state: PathBuf,
}

#[derive(Clone, Copy)]
enum Lane {
    Read = 0,
    Write = 8,
}

impl Throttle {
    /// Throttles `inner`; `state` is the shared file.
    pub fn new(inner: Arc<dyn Target>, limits: Limits, state: &Path) -> io::Result<Throttle> {
        let state = std::path::absolute(state)?;
        open(&state)?;
        Ok(Throttle { inner, limits, state })
    }

    /// Books the time that `bytes` take on the device, for an operation that began at `begun`, and waits for its end.
    fn wait(&self, lane: Lane, begun: u64, bytes: u64) -> io::Result<()> {
        let rate = match lane {
            Lane::Read => self.limits.read,
            Lane::Write => self.limits.write,
        };
        let end = match rate {
            Some(rate) => book(&self.state, lane, |busy| reserve(begun, busy, bytes, rate).1)?.max(begun),
            None => begun,
        };
        self.sleep_until(end);
        Ok(())
    }

    fn sleep_until(&self, end: u64) {
        let end = end + self.limits.latency.as_nanos() as u64;
        std::thread::sleep(Duration::from_nanos(end.saturating_sub(monotonic_nanos())));
    }
}

fn open(state: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).read(true).write(true).mode(0o600).open(state)
}

/// Replaces the instant until which a lane is busy, and returns the new one. The file is opened each time, because a lock
/// belongs to the open file: threads that shared one, or a process and its fork, would not exclude each other.
fn book(state: &Path, lane: Lane, next: impl FnOnce(u64) -> u64) -> io::Result<u64> {
    let file = Locked::wait(open(state)?)?;
    let mut busy = [0; 8];
    // If the file ends earlier, nothing has been booked yet.
    if let Err(e) = file.read_exact_at(&mut busy, lane as u64) {
        if e.kind() != io::ErrorKind::UnexpectedEof {
            return Err(e);
        }
        busy = [0; 8];
    }
    let end = next(u64::from_le_bytes(busy));
    file.write_all_at(&end.to_le_bytes(), lane as u64)?;
    Ok(end)
}

/// Computes when an operation of `bytes` starts and ends on a device that is busy until `busy`.
fn reserve(now: u64, busy: u64, bytes: u64, rate: u64) -> (u64, u64) {
    let time = |bytes: u64| (u128::from(bytes) * u128::from(SECOND_NANOSECONDS) / u128::from(rate.max(1))) as u64;
    let of_an_earlier_boot = busy > now.saturating_add(MAX_AHEAD_NANOSECONDS.max(time(MAX_QUEUED_BYTES)));
    let start = if of_an_earlier_boot { now } else { busy.max(now.saturating_sub(MAX_CREDIT_NANOSECONDS)) };
    (start, start.saturating_add(time(bytes)))
}

impl Target for Throttle {
    fn append(&self, frame: &Frame<'_>) -> io::Result<Place> {
        let begun = monotonic_nanos();
        let place = self.inner.append(frame)?;
        self.wait(Lane::Write, begun, u64::from(place.length))?;
        Ok(place)
    }

    fn read(&self, place: Place, skip: u32, out: &mut [u8]) -> io::Result<()> {
        let begun = monotonic_nanos();
        self.inner.read(place, skip, out)?;
        self.wait(Lane::Read, begun, out.len() as u64)
    }

    fn sync(&self, segments: &[u64]) -> io::Result<()> {
        let begun = monotonic_nanos();
        self.inner.sync(segments)?;
        self.sleep_until(begun);
        Ok(())
    }

    delegate!(is_whole free discard allocated sync_failed used space scan files ready check_again note_synced synced_to note_new is_new forget_new named_blobs file);
}

impl FileStore for Throttle {
    fn write_frame(&self, file: u64, frame: &Frame<'_>) -> io::Result<Place> {
        let begun = monotonic_nanos();
        let place = files(&*self.inner)?.write_frame(file, frame)?;
        self.wait(Lane::Write, begun, u64::from(place.length))?;
        Ok(place)
    }

    delegate!(adopt describe_frame is_linked set_name is_named names numbers);
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST_RATE: u64 = 100_000_000;
    const TEST_START_NANOSECONDS: u64 = 1_000 * SECOND_NANOSECONDS;

    /// Bytes per second that one caller gets who sleeps until its slot has ended, always `late` by some nanoseconds.
    fn measured(sizes: &[u64], late: u64) -> f64 {
        let (mut clock, mut busy, mut bytes) = (TEST_START_NANOSECONDS, TEST_START_NANOSECONDS, 0);
        for size in sizes.iter().cycle() {
            busy = reserve(clock, busy, *size, TEST_RATE).1;
            bytes += size;
            clock = clock.max(busy + late);
            if clock > TEST_START_NANOSECONDS + 10 * SECOND_NANOSECONDS {
                break;
            }
        }
        bytes as f64 * SECOND_NANOSECONDS as f64 / (clock - TEST_START_NANOSECONDS) as f64
    }

    #[test]
    fn the_rate_is_kept_over_ten_seconds_though_sleeps_end_late() {
        for sizes in [&[512][..], &[4096], &[1 << 20], &[4096, 1 << 20, 65_536, 100]] {
            for late in [0, 60_000, 1_000_000, 15_000_000] {
                let ratio = measured(sizes, late) / TEST_RATE as f64;
                assert!((0.95..1.05).contains(&ratio), "{sizes:?}, {late} ns late: {ratio}");
            }
        }
    }

    #[test]
    fn idle_time_is_credited_a_little() {
        assert_eq!(
            reserve(TEST_START_NANOSECONDS, 0, 100, TEST_RATE),
            (TEST_START_NANOSECONDS - MAX_CREDIT_NANOSECONDS, TEST_START_NANOSECONDS - MAX_CREDIT_NANOSECONDS + 1000)
        );
        assert_eq!(
            reserve(TEST_START_NANOSECONDS, TEST_START_NANOSECONDS - 5, 100, TEST_RATE),
            (TEST_START_NANOSECONDS - 5, TEST_START_NANOSECONDS + 995)
        );
    }

    #[test]
    fn what_was_booked_before_a_reboot_does_not_block() {
        assert_eq!(reserve(TEST_START_NANOSECONDS, u64::MAX, 100, TEST_RATE).0, TEST_START_NANOSECONDS);
        assert_eq!(
            reserve(TEST_START_NANOSECONDS, TEST_START_NANOSECONDS + MAX_AHEAD_NANOSECONDS + 1, 100, TEST_RATE).0,
            TEST_START_NANOSECONDS
        );
        assert_eq!(
            reserve(TEST_START_NANOSECONDS, TEST_START_NANOSECONDS + MAX_AHEAD_NANOSECONDS, 100, TEST_RATE).0,
            TEST_START_NANOSECONDS + MAX_AHEAD_NANOSECONDS
        );
    }

    #[test]
    fn a_slow_device_may_have_a_long_queue() {
        let hour = TEST_START_NANOSECONDS + 3600 * SECOND_NANOSECONDS;
        assert_eq!(reserve(TEST_START_NANOSECONDS, hour, 1000, 1000), (hour, hour + SECOND_NANOSECONDS));
    }

    /// A lock on one descriptor that all threads share excludes none of them: two would book the same time.
    #[test]
    fn no_two_threads_book_the_same_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..500).for_each(|_| assert!(book(&state, Lane::Write, |busy| busy + 1).expect("books") > 0))
                });
            }
        });
        assert_eq!(book(&state, Lane::Write, |busy| busy).expect("reads"), 2000);
        assert_eq!(book(&state, Lane::Read, |busy| busy).expect("reads"), 0, "the other lane is free");
    }
}
