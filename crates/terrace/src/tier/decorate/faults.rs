//! Makes a target fail as a test wishes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::frame::{Frame, Header};
use crate::tier::{Place, Space, Target};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call of this number, counted from 0, fails.
    Call(u64, io::ErrorKind),
    /// Every call fails.
    Always(io::ErrorKind),
    /// Every call that writes fails.
    Writes(io::ErrorKind),
    /// Every read comes back with one bit flipped.
    Flip,
}

/// A target that fails as told.
pub struct Faults {
    inner: Arc<dyn Target>,
    fault: Mutex<Option<Fault>>,
    calls: AtomicU64,
}

impl Faults {
    /// Wraps a target; nothing fails yet.
    pub fn new(inner: Arc<dyn Target>) -> Faults {
        Faults { inner, fault: Mutex::new(None), calls: AtomicU64::new(0) }
    }

    /// What is to go wrong from now on.
    pub fn set(&self, fault: Option<Fault>) {
        *self.fault.lock() = fault;
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    fn pass(&self, writes: bool) -> io::Result<()> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        match *self.fault.lock() {
            Some(Fault::Call(at, kind)) if at == call => Err(kind.into()),
            Some(Fault::Always(kind)) => Err(kind.into()),
            Some(Fault::Writes(kind)) if writes => Err(kind.into()),
            _ => Ok(()),
        }
    }
}

impl Target for Faults {
    fn append(&self, frame: &Frame<'_>) -> io::Result<Place> {
        self.pass(true)?;
        self.inner.append(frame)
    }

    fn read(&self, place: Place, skip: u32, out: &mut [u8]) -> io::Result<()> {
        self.pass(false)?;
        self.inner.read(place, skip, out)?;
        if *self.fault.lock() == Some(Fault::Flip)
            && let Some(byte) = out.last_mut()
        {
            *byte ^= 1;
        }
        Ok(())
    }

    fn sync(&self, segments: &[u64]) -> io::Result<()> {
        self.pass(true)?;
        self.inner.sync(segments)
    }

    fn free(&self, places: &[Place]) -> io::Result<()> {
        self.pass(true)?;
        self.inner.free(places)
    }

    fn discard(&self, segment: u64) -> io::Result<bool> {
        self.pass(true)?;
        self.inner.discard(segment)
    }

    fn space(&self) -> io::Result<Space> {
        self.inner.space()
    }

    fn scan(&self, found: &mut dyn FnMut(Place, Header)) -> io::Result<()> {
        self.pass(false)?;
        self.inner.scan(found)
    }
}
