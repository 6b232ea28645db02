//! Frames that were fetched ahead of their readers: decoded, verified, and used once.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix_futex_sync::{Condvar, Mutex};
use terrace_catalog::Extent;

/// At most this many frames, of at most 1 MiB each, are held at a time.
const MAX_FETCHED_FRAMES: usize = 16;
/// The number of unused buffers that are kept for the next frames.
const MAX_SPARE_BUFFERS: usize = 4;

/// Identifies a frame: its write, and its offset in the object. Frames never change.
type Name = (u64, u64);

enum Slot {
    Queued,
    Fetching,
    /// The raw bytes from this offset of the frame on.
    There(u32, Arc<Vec<u8>>),
}

/// The fetched frames of one process.
#[derive(Default)]
pub(crate) struct Fetched {
    /// Held for a lookup or an update, never while a frame is fetched or copied. A leaf.
    slots: Mutex<Slots>,
    /// Signalled when a frame has arrived or could not be read.
    arrived: Condvar,
    /// The number of slots, stored under the lock after each change. Readers load it without the lock, relaxed: a reader
    /// that misses a frame reads it from a target, and one that sees a frame too many finds none under the lock.
    count: AtomicUsize,
}

#[derive(Default)]
struct Slots {
    all: HashMap<Name, Slot>,
    /// The frames that have arrived, oldest first.
    order: VecDeque<Name>,
    spare: Vec<Vec<u8>>,
}

impl Fetched {
    /// Reserves a slot for a frame. Returns false if the frame has one, or if none is free. The oldest frame that no reader
    /// asked for is removed if that helps.
    pub fn queue(&self, extent: &Extent) -> bool {
        let mut slots = self.slots.lock();
        if slots.all.contains_key(&extent.frame()) {
            return false;
        }
        if slots.all.len() >= MAX_FETCHED_FRAMES {
            let Some(oldest) = slots.order.front().copied() else { return false };
            slots.remove(oldest);
        }
        slots.all.insert(extent.frame(), Slot::Queued);
        // Under the lock, as at each change: see `count`.
        self.count.store(slots.all.len(), Ordering::Relaxed);
        true
    }

    /// Returns a buffer for a frame. None if no reader needs the frame any more.
    pub fn begin(&self, extent: &Extent) -> Option<Vec<u8>> {
        let mut slots = self.slots.lock();
        let slot = slots.all.get_mut(&extent.frame()).filter(|slot| matches!(slot, Slot::Queued))?;
        *slot = Slot::Fetching;
        let mut buffer = slots.spare.pop().unwrap_or_default();
        buffer.resize(extent.length as usize, 0);
        Some(buffer)
    }

    /// Hands these bytes of the frame to waiting readers. Without bytes, they read the frame themselves.
    pub fn end(&self, extent: &Extent, bytes: Option<Vec<u8>>) {
        let (mut slots, name) = (self.slots.lock(), extent.frame());
        match bytes {
            Some(bytes) => {
                slots.all.insert(name, Slot::There(extent.skip, Arc::new(bytes)));
                slots.order.push_back(name);
            }
            None => slots.remove(name),
        }
        // See `count`.
        self.count.store(slots.all.len(), Ordering::Relaxed);
        self.arrived.notify_all();
    }

    /// Returns whether there is any frame, fetched or on its way.
    pub fn has_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Lends `length` raw bytes of the frame from `skip` on, if it is fetched or being fetched. Lending the last byte
    /// removes the frame.
    pub fn lend(&self, extent: &Extent, skip: u32, length: usize) -> Option<Lent<'_>> {
        if !self.has_any() {
            return None;
        }
        // Released while it waits for `arrived`. A frame that is being fetched always ends with `end`, so nobody waits forever.
        let (mut slots, name) = (self.slots.lock(), extent.frame());
        let (from, bytes) = loop {
            match slots.all.get(&name)? {
                Slot::Fetching => slots = self.arrived.wait(slots),
                Slot::There(from, bytes) => break (*from, bytes.clone()),
                Slot::Queued => {
                    // Reading it now is faster than waiting. `begin` then finds no slot, and does not fetch the frame.
                    slots.remove(name);
                    self.count.store(slots.all.len(), Ordering::Relaxed);
                    return None;
                }
            }
        };
        let at = skip.checked_sub(from)? as usize;
        let range = at..at + length;
        bytes.get(range.clone())?;
        if range.end == bytes.len() {
            slots.remove(name);
            // See `count`.
            self.count.store(slots.all.len(), Ordering::Relaxed);
        }
        Some(Lent { of: self, bytes: Some(bytes), range })
    }

    /// Copies such bytes to `out`. Returns false if they are not here.
    pub fn fill(&self, extent: &Extent, skip: u32, out: &mut [u8]) -> bool {
        let lent = self.lend(extent, skip, out.len());
        lent.inspect(|lent| out.copy_from_slice(lent.bytes())).is_some()
    }

    /// Removes frames that no reader needs any more. Those that are being fetched stay until they have arrived.
    pub fn forget(&self, names: &[Name]) {
        let mut slots = self.slots.lock();
        for name in names {
            if !matches!(slots.all.get(name), Some(Slot::Fetching)) {
                slots.remove(*name);
            }
        }
        // See `count`.
        self.count.store(slots.all.len(), Ordering::Relaxed);
    }
}

impl Slots {
    fn remove(&mut self, name: Name) {
        if let Some(Slot::There(_, bytes)) = self.all.remove(&name) {
            self.order.retain(|other| *other != name);
            self.give(bytes);
        }
    }

    /// Keeps a buffer for the next frame, if no reader uses it.
    fn give(&mut self, bytes: Arc<Vec<u8>>) {
        if let Some(buffer) = Arc::into_inner(bytes)
            && self.spare.len() < MAX_SPARE_BUFFERS
        {
            self.spare.push(buffer);
        }
    }
}

/// A part of a frame's bytes. Their buffer is not reused before this is dropped.
pub(crate) struct Lent<'a> {
    of: &'a Fetched,
    /// None only during `drop`.
    bytes: Option<Arc<Vec<u8>>>,
    range: Range<usize>,
}

impl Lent<'_> {
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref().and_then(|bytes| bytes.get(self.range.clone())).unwrap_or_default()
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(bytes) = self.bytes.take() {
            // A leaf: a reader that drops the bytes holds no slots.
            self.of.slots.lock().give(bytes);
        }
    }
}
