//! A target in this process's memory: for tests.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix_futex_sync::Mutex;
use terrace_format::frame::{Frame, Header};

use super::{Ids, Place, Space, Target};

/// Frames in a map. Each is a segment of its own.
pub struct MemoryTarget {
    store: u64,
    capacity: u64,
    ids: Arc<dyn Ids>,
    /// Held for one operation on the map. Nothing else is locked under it, and no caller's code runs.
    held: Mutex<Held>,
    /// Release pairs with Acquire, so that who finds the target not new also sees what was noted before.
    is_new: AtomicBool,
}

#[derive(Default)]
struct Held {
    frames: BTreeMap<u64, Arc<[u8]>>,
    used: u64,
}

impl Held {
    fn remove(&mut self, segment: u64) {
        if let Some(frame) = self.frames.remove(&segment) {
            self.used -= frame.len() as u64;
        }
    }
}

impl MemoryTarget {
    /// Makes an empty target of `capacity` bytes for the store of this id.
    pub fn new(store: u64, capacity: u64, ids: Arc<dyn Ids>) -> MemoryTarget {
        MemoryTarget { store, capacity, ids, held: Mutex::default(), is_new: AtomicBool::new(true) }
    }
}

impl Target for MemoryTarget {
    fn append(&self, frame: &Frame<'_>) -> io::Result<Place> {
        let place = Place { segment: self.ids.next()?, offset: 0, length: frame.header.frame_len() as u32 };
        let mut bytes = Vec::with_capacity(place.length as usize);
        frame.header.write(self.store, place, &mut bytes);
        bytes.extend_from_slice(frame.payload);
        let mut held = self.held.lock();
        let used = held.used + bytes.len() as u64;
        if used > self.capacity {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the memory target is full"));
        }
        held.used = used;
        held.frames.insert(place.segment, bytes.into());
        Ok(place)
    }

    fn is_new(&self) -> bool {
        self.is_new.load(Ordering::Acquire)
    }

    fn forget_new(&self) -> io::Result<()> {
        self.is_new.store(false, Ordering::Release);
        Ok(())
    }

    fn read(&self, place: Place, skip: u32, out: &mut [u8]) -> io::Result<()> {
        let found = self.held.lock().frames.get(&place.segment).filter(|_| place.offset == 0).cloned();
        let frame = found.ok_or(io::ErrorKind::NotFound)?;
        let skip = skip as usize;
        out.copy_from_slice(frame.get(skip..skip + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn sync(&self, _segments: &[u64]) -> io::Result<()> {
        Ok(())
    }

    fn free(&self, places: &[Place]) -> io::Result<()> {
        let mut held = self.held.lock();
        places.iter().filter(|place| place.offset == 0).for_each(|place| held.remove(place.segment));
        Ok(())
    }

    fn discard(&self, segment: u64) -> io::Result<bool> {
        self.held.lock().remove(segment);
        Ok(true)
    }

    fn space(&self) -> io::Result<Space> {
        Ok(Space::within(self.used(), self.capacity))
    }

    fn used(&self) -> u64 {
        self.held.lock().used
    }

    fn scan(&self, found: &mut dyn FnMut(Place, Header)) -> io::Result<()> {
        // The map is copied and the lock released, because `found` may read from this target.
        let frames = self.held.lock().frames.clone();
        for (segment, bytes) in frames {
            let place = Place { segment, offset: 0, length: 0 };
            if let Ok(header) = Header::read(&bytes, self.store, place) {
                found(Place { length: header.frame_len() as u32, ..place }, header);
            }
        }
        Ok(())
    }
}
