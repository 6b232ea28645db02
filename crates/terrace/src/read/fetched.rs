//! Frames' bytes that were fetched before they are asked for: decoded, verified, and taken once.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};

use crate::catalog::Extent;

/// So many frames, of at most 1 MiB each, are here at a time.
const MOST: usize = 16;
/// Buffers that wait for the next frame.
const SPARE: usize = 4;

/// A frame's name: the write that made it, and where it begins in its object. Frames never change.
type Name = (u64, u64);

enum Slot {
    Queued,
    Fetching,
    /// The raw bytes from this one on.
    There(u32, Arc<Vec<u8>>),
}

/// The frames of one process.
#[derive(Default)]
pub(crate) struct Fetched {
    slots: Mutex<Slots>,
    arrived: Condvar,
    count: AtomicUsize,
}

#[derive(Default)]
struct Slots {
    all: HashMap<Name, Slot>,
    /// Those that are there, as they came.
    order: VecDeque<Name>,
    spare: Vec<Vec<u8>>,
}

impl Fetched {
    /// Keeps a place for a frame that is to be fetched; false where it has one, or there is none left. What has been there for
    /// longest, and was never asked for, gives way.
    pub fn queue(&self, extent: &Extent) -> bool {
        let mut slots = self.slots.lock();
        if slots.all.contains_key(&extent.frame()) {
            return false;
        }
        if slots.all.len() >= MOST {
            let Some(oldest) = slots.order.front().copied() else { return false };
            slots.remove(oldest);
        }
        slots.all.insert(extent.frame(), Slot::Queued);
        self.count.store(slots.all.len(), Ordering::Relaxed);
        true
    }

    /// A buffer to fetch a frame into; none where nobody waits for it any more.
    pub fn begin(&self, extent: &Extent) -> Option<Vec<u8>> {
        let mut slots = self.slots.lock();
        let slot = slots.all.get_mut(&extent.frame()).filter(|slot| matches!(slot, Slot::Queued))?;
        *slot = Slot::Fetching;
        let mut buffer = slots.spare.pop().unwrap_or_default();
        buffer.resize(extent.length as usize, 0);
        Some(buffer)
    }

    /// Whoever waits for the frame gets these bytes of it; without any he reads it himself.
    pub fn end(&self, extent: &Extent, bytes: Option<Vec<u8>>) {
        let (mut slots, name) = (self.slots.lock(), extent.frame());
        match bytes {
            Some(bytes) => {
                slots.all.insert(name, Slot::There(extent.skip, Arc::new(bytes)));
                slots.order.push_back(name);
            }
            None => slots.remove(name),
        }
        self.count.store(slots.all.len(), Ordering::Relaxed);
        self.arrived.notify_all();
    }

    /// Fills `out` from the frame's raw byte `skip` on, if it is here or under way. Whoever takes its last byte takes it away.
    pub fn fill(&self, extent: &Extent, skip: u32, out: &mut [u8]) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let (mut slots, name) = (self.slots.lock(), extent.frame());
        let (from, bytes) = loop {
            match slots.all.get(&name) {
                None => return false,
                Some(Slot::Fetching) => self.arrived.wait(&mut slots),
                Some(Slot::There(from, bytes)) => break (*from, bytes.clone()),
                Some(Slot::Queued) => {
                    // To read it is quicker than to wait.
                    slots.remove(name);
                    self.count.store(slots.all.len(), Ordering::Relaxed);
                    return false;
                }
            }
        };
        let range = skip.checked_sub(from).map(|at| at as usize..at as usize + out.len());
        let Some(wanted) = range.clone().and_then(|range| bytes.get(range)) else { return false };
        drop(slots);
        out.copy_from_slice(wanted);
        if range.is_some_and(|range| range.end == bytes.len()) {
            drop(bytes);
            let mut slots = self.slots.lock();
            slots.remove(name);
            self.count.store(slots.all.len(), Ordering::Relaxed);
        }
        true
    }

    /// Nobody asks for these any more.
    pub fn forget(&self, names: &[Name]) {
        let mut slots = self.slots.lock();
        for name in names {
            if !matches!(slots.all.get(name), Some(Slot::Fetching)) {
                slots.remove(*name);
            }
        }
        self.count.store(slots.all.len(), Ordering::Relaxed);
    }
}

impl Slots {
    fn remove(&mut self, name: Name) {
        if let Some(Slot::There(_, bytes)) = self.all.remove(&name) {
            self.order.retain(|other| *other != name);
            if let Ok(buffer) = Arc::try_unwrap(bytes)
                && self.spare.len() < SPARE
            {
                self.spare.push(buffer);
            }
        }
    }
}
