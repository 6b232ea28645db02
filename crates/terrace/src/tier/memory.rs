//! A target in this process's memory: for tests.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Ids, Place, Space, Target};
use crate::frame::{Frame, Header};

/// Frames in a map, one segment each.
pub struct Memory {
    store: u64,
    capacity: u64,
    ids: Arc<dyn Ids>,
    frames: Mutex<BTreeMap<u64, Vec<u8>>>,
}

impl Memory {
    /// An empty target of `capacity` bytes for the store of this id.
    pub fn new(store: u64, capacity: u64, ids: Arc<dyn Ids>) -> Memory {
        Memory { store, capacity, ids, frames: Mutex::default() }
    }

    fn used(frames: &BTreeMap<u64, Vec<u8>>) -> u64 {
        frames.values().map(|f| f.len() as u64).sum()
    }
}

impl Target for Memory {
    fn append(&self, frame: &Frame<'_>) -> io::Result<Place> {
        let length = frame.header.frame_len();
        let place = Place { segment: self.ids.next()?, offset: 0, length: length as u32 };
        let mut bytes = Vec::new();
        frame.header.write(self.store, place, &mut bytes);
        bytes.extend_from_slice(frame.payload);
        let mut frames = self.frames.lock();
        if Self::used(&frames) + length > self.capacity {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the memory target is full"));
        }
        frames.insert(place.segment, bytes);
        Ok(place)
    }

    fn read(&self, place: Place, skip: u32, out: &mut [u8]) -> io::Result<()> {
        let frames = self.frames.lock();
        let frame = frames.get(&place.segment).ok_or(io::ErrorKind::NotFound)?;
        let bytes = frame.get(skip as usize..skip as usize + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self, _segments: &[u64]) -> io::Result<()> {
        Ok(())
    }

    fn free(&self, places: &[Place]) -> io::Result<()> {
        let mut frames = self.frames.lock();
        for place in places {
            frames.remove(&place.segment);
        }
        Ok(())
    }

    fn discard(&self, segment: u64) -> io::Result<bool> {
        self.frames.lock().remove(&segment);
        Ok(true)
    }

    fn space(&self) -> io::Result<Space> {
        Ok(Space { used: Self::used(&self.frames.lock()), capacity: self.capacity })
    }

    fn scan(&self, found: &mut dyn FnMut(Place, Header)) -> io::Result<()> {
        for (&segment, bytes) in self.frames.lock().iter() {
            let place = Place { segment, offset: 0, length: bytes.len() as u32 };
            if let Ok(header) = Header::read(bytes, self.store, place) {
                found(place, header);
            }
        }
        Ok(())
    }
}
