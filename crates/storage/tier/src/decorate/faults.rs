//! Makes a target fail as a test demands.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix_futex_sync::Mutex;
use terrace_format::frame::{Frame, Header};

use super::files;
use crate::{Adoption, FileStore, Place, Space, Target, Whole};

/// The time between looks whether a call still has to hang.
const HANG_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The error that a call ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An error of this kind.
    Kind(io::ErrorKind),
    /// The system's error of this number, such as `libc::EIO`.
    Errno(i32),
}

impl From<io::ErrorKind> for Failure {
    fn from(kind: io::ErrorKind) -> Failure {
        Failure::Kind(kind)
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> io::Error {
        match failure {
            Failure::Kind(kind) => kind.into(),
            Failure::Errno(errno) => io::Error::from_raw_os_error(errno),
        }
    }
}

/// The faults of a target. A test keeps a handle, and changes them while the target is in use.
#[derive(Default)]
pub struct FaultPlan {
    /// The number of calls. Each call gets a number of its own; sequentially consistent, so that tests need not care.
    calls: AtomicU64,
    /// Held for a look at the faults or a change of them, never while a call runs or hangs.
    faults: Mutex<Set>,
}

#[derive(Clone, Default)]
struct Set {
    at: Vec<(u64, Failure)>,
    all: Option<Failure>,
    writes: Option<Failure>,
    hang: Option<Duration>,
    flips: u64,
    torn: u64,
}

impl FaultPlan {
    /// The number of calls so far, failed ones included. The next call has this number.
    pub fn count(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Fails the call of this number, counted from 0 over all calls since the target was made.
    pub fn fail_call(&self, number: u64, failure: impl Into<Failure>) {
        self.faults.lock().at.push((number, failure.into()));
    }

    /// Fails every call from now on.
    pub fn fail_all(&self, failure: impl Into<Failure>) {
        self.faults.lock().all = Some(failure.into());
    }

    /// Fails every append, sync, free and discard from now on, like a full or read-only device.
    pub fn fail_writes(&self, failure: impl Into<Failure>) {
        self.faults.lock().writes = Some(failure.into());
    }

    /// Fails every call from now on with `NotConnected`, as if the device were unplugged.
    pub fn away(&self) {
        self.fail_all(io::ErrorKind::NotConnected);
    }

    /// Delays every call by this time from now on, or until the faults end.
    pub fn hang(&self, time: Duration) {
        self.faults.lock().hang = Some(time);
    }

    /// Flips one bit in the result of each of the next `reads`.
    pub fn flip_reads(&self, reads: u64) {
        self.faults.lock().flips = reads;
    }

    /// Makes each of the next `appends` write its header and half of its payload, and fail with EIO.
    pub fn tear_appends(&self, appends: u64) {
        self.faults.lock().torn = appends;
    }

    /// Ends all faults. The count of calls goes on.
    pub fn heal(&self) {
        *self.faults.lock() = Set::default();
    }

    fn call(&self, writes: bool) -> io::Result<()> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let faults = self.faults.lock().clone();
        if let Some(time) = faults.hang {
            self.hang_for(time);
        }
        let once = faults.at.iter().find(|(at, _)| *at == number).map(|(_, failure)| *failure);
        match once.or(faults.all).or(faults.writes.filter(|_| writes)) {
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    }

    /// Waits for this time, or until the faults end.
    fn hang_for(&self, time: Duration) {
        let begun = Instant::now();
        while let Some(left) = time.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())
            && self.faults.lock().hang.is_some()
        {
            std::thread::sleep(left.min(HANG_POLL_INTERVAL));
        }
    }

    /// Uses up one of the faults that `left` counts. Returns false if none is left.
    fn take(&self, left: impl Fn(&mut Set) -> &mut u64) -> bool {
        let mut faults = self.faults.lock();
        let left = left(&mut faults);
        let taken = *left > 0;
        *left = left.saturating_sub(1);
        taken
    }
}

/// A target that fails as its [`FaultPlan`] says.
pub struct Faults {
    inner: Arc<dyn Target>,
    plan: Arc<FaultPlan>,
}

impl Faults {
    /// Wraps a target, without faults yet.
    pub fn new(inner: Arc<dyn Target>) -> Faults {
        Faults { inner, plan: Arc::default() }
    }

    /// The handle for setting faults.
    pub fn plan(&self) -> Arc<FaultPlan> {
        self.plan.clone()
    }
}

impl Target for Faults {
    fn append(&self, frame: &Frame<'_>) -> io::Result<Place> {
        self.plan.call(true)?;
        if self.plan.take(|set| &mut set.torn) {
            let half = frame.payload.get(..frame.payload.len() / 2).unwrap_or_default();
            self.inner.append(&Frame { header: frame.header.clone(), payload: half })?;
            return Err(Errno::IO.into());
        }
        self.inner.append(frame)
    }

    fn read(&self, place: Place, skip: u32, out: &mut [u8]) -> io::Result<()> {
        self.plan.call(false)?;
        self.inner.read(place, skip, out)?;
        let middle = out.len() / 2;
        if let Some(byte) = out.get_mut(middle)
            && self.plan.take(|set| &mut set.flips)
        {
            *byte ^= 1;
        }
        Ok(())
    }

    fn sync(&self, segments: &[u64]) -> io::Result<()> {
        self.plan.call(true)?;
        self.inner.sync(segments)
    }

    fn free(&self, places: &[Place]) -> io::Result<()> {
        self.plan.call(true)?;
        self.inner.free(places)
    }

    fn discard(&self, segment: u64) -> io::Result<bool> {
        self.plan.call(true)?;
        self.inner.discard(segment)
    }

    fn space(&self) -> io::Result<Space> {
        self.plan.call(false)?;
        self.inner.space()
    }

    fn scan(&self, found: &mut dyn FnMut(Place, Header)) -> io::Result<()> {
        self.plan.call(false)?;
        self.inner.scan(found)
    }

    delegate!(is_whole allocated sync_failed used files ready check_again note_synced synced_to note_new is_new forget_new named_blobs file);
}

impl FileStore for Faults {
    fn write_frame(&self, file: u64, frame: &Frame<'_>) -> io::Result<Place> {
        self.plan.call(true)?;
        files(&*self.inner)?.write_frame(file, frame)
    }

    fn adopt(&self, file: u64, source: &File) -> io::Result<Option<Adoption>> {
        self.plan.call(true)?;
        files(&*self.inner)?.adopt(file, source)
    }

    fn describe_frame(&self, file: u64, frame: &Frame<'_>) -> io::Result<Place> {
        self.plan.call(true)?;
        files(&*self.inner)?.describe_frame(file, frame)
    }

    fn is_linked(&self, file: u64) -> bool {
        files(&*self.inner).is_ok_and(|files| files.is_linked(file))
    }

    fn set_name(&self, key: &[u8], now: Option<&Whole>, before: &[u64]) -> io::Result<bool> {
        self.plan.call(true)?;
        files(&*self.inner)?.set_name(key, now, before)
    }

    fn is_named(&self, key: &[u8], whole: &Whole) -> io::Result<bool> {
        self.plan.call(false)?;
        files(&*self.inner)?.is_named(key, whole)
    }

    fn names(&self) -> io::Result<Vec<(Vec<u8>, u64)>> {
        self.plan.call(false)?;
        files(&*self.inner)?.names()
    }

    fn numbers(&self) -> io::Result<Vec<u64>> {
        self.plan.call(false)?;
        files(&*self.inner)?.numbers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ids, MemoryTarget};
    use std::time::Instant;
    use terrace_format::frame::{Identity, Scratch, decode_range, encode};

    struct Numbers(AtomicU64);

    impl Ids for Numbers {
        fn next(&self) -> io::Result<u64> {
            Ok(self.0.fetch_add(1, Ordering::SeqCst))
        }
    }

    fn faults() -> (Faults, Arc<FaultPlan>) {
        let faults = Faults::new(Arc::new(MemoryTarget::new(1, 1 << 20, Arc::new(Numbers(AtomicU64::new(0))))));
        let plan = faults.plan();
        (faults, plan)
    }

    fn append(target: &dyn Target, length: usize) -> io::Result<Place> {
        let mut scratch = Scratch::default();
        let identity = Identity { object: 1, write: 1, offset: 0, replica: 0 };
        let raw = vec![7; length];
        target.append(&encode(identity, terrace_codec::Encoding::NONE, &raw, &mut scratch).expect("encodes"))
    }

    #[test]
    fn the_call_that_was_asked_for_fails_and_no_other() {
        let (target, plan) = faults();
        plan.fail_call(1, Failure::Errno(libc::EIO));
        assert!(target.space().is_ok());
        assert_eq!(target.sync(&[]).expect_err("the second call").raw_os_error(), Some(libc::EIO));
        assert!(target.sync(&[]).is_ok());
        assert_eq!(plan.count(), 3);
    }

    #[test]
    fn a_read_only_device_still_reads_and_one_that_is_away_does_nothing() {
        let (target, plan) = faults();
        let place = append(&target, 10).expect("appends");
        plan.fail_writes(io::ErrorKind::ReadOnlyFilesystem);
        assert_eq!(append(&target, 10).expect_err("read-only").kind(), io::ErrorKind::ReadOnlyFilesystem);
        assert!(target.read(place, 0, &mut [0; 4]).is_ok());
        plan.heal();
        plan.away();
        assert_eq!(target.space().expect_err("away").kind(), io::ErrorKind::NotConnected);
        assert_eq!(target.scan(&mut |_, _| {}).expect_err("away").kind(), io::ErrorKind::NotConnected);
        plan.heal();
        assert!(append(&target, 10).is_ok());
    }

    #[test]
    fn as_many_reads_as_were_asked_for_have_a_flipped_bit() {
        let (target, plan) = faults();
        let place = append(&target, 100).expect("appends");
        let read = || {
            let mut bytes = vec![0; place.length as usize];
            target.read(place, 0, &mut bytes).expect("reads");
            bytes
        };
        let good = read();
        plan.flip_reads(2);
        for _ in 0..2 {
            let flipped: u32 = read().iter().zip(&good).map(|(a, b)| (a ^ b).count_ones()).sum();
            assert_eq!(flipped, 1);
        }
        assert_eq!(read(), good);
    }

    #[test]
    fn a_torn_append_fails_and_what_it_left_does_not_verify() {
        let (target, plan) = faults();
        plan.tear_appends(1);
        assert_eq!(append(&target, 1000).expect_err("torn").raw_os_error(), Some(libc::EIO));
        let mut left = Vec::new();
        target.scan(&mut |place, header| left.push((place, header))).expect("scans");
        let (place, header) = left.pop().expect("the header is left");
        let read = decode_range(&header, 0, &mut [0; 1000], &mut Scratch::default(), |range, into| {
            target.read(place, header.written_len() as u32 + range.start, into)
        });
        assert!(read.is_err());
        assert!(append(&target, 1000).is_ok());
    }

    #[test]
    fn a_call_that_hangs_still_ends_as_it_would_have() {
        let (target, plan) = faults();
        let time = Duration::from_millis(20);
        plan.hang(time);
        let start = Instant::now();
        assert!(target.space().is_ok());
        assert!(start.elapsed() >= time, "a sleep never ends early");
    }
}
