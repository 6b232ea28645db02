//! Kinds of targets with little code: [`FrameMap`] is a map from numbers to bytes, and [`MapKind`] does everything else.

use std::io;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix_futex_sync::{Mutex, MutexGuard};
use terrace_format::frame::{Frame, Header, MAX_HEADER};

use crate::{
    Capabilities, EmptiedNote, OpenedTarget, Place, Space, Target, TargetFound, TargetKind, TargetOwner,
    TargetSettings, Used,
};

/// A map from numbers to bytes that outlives its process and is used by several, such as a table of a database. It stores one *marker*, too:
/// a text that tells whose map it is.
///
/// `register_kind("NAME", MapKind::<M>::default())` makes it a kind of target. One thread of a process at a time calls a method of an open
/// map.
///
/// **Errors** are the system's. `NotFound` and `UnexpectedEof` mean that the bytes of one number are missing, and `StorageFull` that there is no
/// space. After any other error, the store does not use the target for a while. `NotConnected` says that the map is not there: a map that
/// cannot be reached is never empty instead.
pub trait FrameMap: Send + Sized + 'static {
    /// Returns the abilities of the maps. They must be true: the engine relies on them.
    fn capabilities() -> Capabilities;

    /// Checks the configuration, without any I/O. The error says what to write instead.
    fn check(settings: &TargetSettings) -> Result<(), String>;

    /// Makes what a new map needs at its place, such as a folder. Fails if no map can be there.
    fn prepare(_settings: &TargetSettings) -> io::Result<()> {
        Ok(())
    }

    /// Opens the map at a place. If none is there, makes one without a marker if `may_make`, and returns none otherwise.
    fn open(settings: &TargetSettings, may_make: bool) -> io::Result<Option<Self>>;

    /// Returns whether a map is still at the place of the open one. A file that was deleted is not.
    fn is_there(&self, settings: &TargetSettings) -> io::Result<bool>;

    /// Returns the marker, if there is one.
    fn marker(&self) -> io::Result<Option<String>>;

    /// Stores the marker durably, and returns it. If another process has just stored one, returns that one.
    fn make_marker(&self, marker: &str) -> io::Result<String>;

    /// Stores the bytes of a number. It has none yet. Other processes find them when this returns.
    fn put(&self, number: u64, bytes: &[u8]) -> io::Result<()>;

    /// Fills `out` with the bytes of a number from its byte `skip` on.
    fn read(&self, number: u64, skip: u64, out: &mut [u8]) -> io::Result<()>;

    /// Deletes the bytes of these numbers. A number without bytes is no error.
    fn delete(&self, numbers: &mut dyn Iterator<Item = u64>) -> io::Result<()>;

    /// Makes the bytes of these numbers durable. A number without bytes is no error.
    fn sync(&self, numbers: &[u64]) -> io::Result<()>;

    /// Returns all numbers, each with its first `length` bytes, or with all if it has fewer.
    fn heads(&self, length: usize) -> io::Result<Vec<(u64, Vec<u8>)>>;

    /// Returns the number of bytes that the map holds.
    fn count_bytes(&self) -> io::Result<u64>;

    /// Removes the map at a place: the marker last, if these are several steps.
    fn remove(settings: &TargetSettings) -> io::Result<()>;
}

/// The kind of targets whose frames are in maps.
pub struct MapKind<M>(PhantomData<fn() -> M>);

impl<M> Default for MapKind<M> {
    fn default() -> Self {
        MapKind(PhantomData)
    }
}

impl<M: FrameMap> TargetKind for MapKind<M> {
    fn capabilities(&self) -> Capabilities {
        M::capabilities()
    }

    fn check(&self, settings: &TargetSettings) -> Result<(), String> {
        M::check(settings)
    }

    fn probe(&self, settings: &TargetSettings) -> io::Result<()> {
        match M::open(settings, false)?.map(|map| map.marker()).transpose()?.flatten() {
            None => M::prepare(settings),
            Some(marker) => {
                let reason = format!("it belongs to another store or target ({})", marker.replace('\n', " "));
                Err(error(settings, io::ErrorKind::AlreadyExists, &reason))
            }
        }
    }

    fn open(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<OpenedTarget> {
        M::check(settings).map_err(|reason| io::Error::new(io::ErrorKind::InvalidInput, reason))?;
        let target: MapTarget<M> = MapTarget {
            settings: settings.clone(),
            owner: owner.clone(),
            used: owner.used(),
            emptied: owner.emptied(),
            map: Mutex::default(),
        };
        OpenedTarget::open(Arc::new(target), owner)
    }

    fn find(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<TargetFound> {
        let Some(map) = M::open(settings, false)? else { return Ok(TargetFound::Nothing) };
        Ok(match map.marker()? {
            Some(marker) if marker == owner.mark() => TargetFound::Own { used: map.count_bytes()? },
            Some(marker) => TargetFound::Another(marker),
            None => TargetFound::Nothing,
        })
    }

    fn remove(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<Vec<PathBuf>> {
        if let TargetFound::Own { .. } = self.find(settings, owner)? {
            // First: otherwise a crash in between would leave a target that counts as unavailable.
            owner.forget_made()?;
            M::remove(settings)?;
        }
        Ok(Vec::new())
    }
}

/// A target whose frames are in a map: each is a segment of its own, and the segment's number is the key.
struct MapTarget<M> {
    settings: TargetSettings,
    owner: TargetOwner,
    used: Used,
    emptied: EmptiedNote,
    /// The map, once its marker was seen. Held during each call.
    map: Mutex<Option<M>>,
}

/// An open map that this thread alone uses.
struct OpenMap<'a, M>(MutexGuard<'a, Option<M>>);

impl<M> OpenMap<'_, M> {
    fn get(&self) -> io::Result<&M> {
        self.0.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl<M: FrameMap> MapTarget<M> {
    /// Returns the map, once it is known to be this target.
    fn open(&self) -> io::Result<OpenMap<'_, M>> {
        let mut map = self.map.lock();
        // Frames in a map that is gone from its place would be lost.
        let is_there = match map.as_ref() {
            Some(map) => map.is_there(&self.settings)?,
            None => false,
        };
        if !is_there {
            *map = None;
            *map = Some(self.recognize()?);
        }
        Ok(OpenMap(map))
    }

    /// Opens the map, checks its marker, and makes the target if it may be made.
    fn recognize(&self) -> io::Result<M> {
        // A map that is missing may be on a disk that is not mounted. An empty one in its place is not the target.
        let may_make = !self.settings.persistent || !self.owner.was_made();
        let missing = || {
            let advice = "this is not the target; if that is lost for good, `terrace tiers renew` makes an empty one";
            error(&self.settings, io::ErrorKind::NotConnected, advice)
        };
        let map = M::open(&self.settings, may_make)?.ok_or_else(missing)?;
        let marker = match map.marker()? {
            None if may_make => {
                // Before the marker: otherwise a crash in between would leave a target that nobody knows to be empty.
                self.emptied.write()?;
                map.make_marker(&self.owner.mark())?
            }
            marker => marker.ok_or_else(missing)?,
        };
        if marker != self.owner.mark() {
            return Err(error(&self.settings, io::ErrorKind::AlreadyExists, "another store or target is here"));
        }
        // Also if the marker was there: a crash may have come between the two.
        self.owner.note_made()?;
        Ok(map)
    }

    fn delete(&self, numbers: &mut dyn Iterator<Item = u64>) -> io::Result<()> {
        self.open()?.get()?.delete(numbers)?;
        self.used.make_stale();
        Ok(())
    }
}

impl<M: FrameMap> Target for MapTarget<M> {
    fn append(&self, frame: &Frame<'_>) -> io::Result<Place> {
        let open = self.open()?;
        let map = open.get()?;
        let segment = self.owner.ids.next()?;
        let place = Place { segment, offset: 0, length: frame.header.frame_len() as u32 };
        let mut bytes = Vec::with_capacity(place.length as usize);
        frame.header.write(self.owner.store, place, &mut bytes);
        bytes.extend_from_slice(frame.payload);
        // Lives until the bytes are stored: other processes count them from here on.
        let _room = self.used.take(bytes.len() as u64, self.settings.capacity, || map.count_bytes())?;
        map.put(segment, &bytes).inspect_err(|_| self.used.make_stale())?;
        Ok(place)
    }

    fn read(&self, place: Place, skip: u32, out: &mut [u8]) -> io::Result<()> {
        match place.offset {
            0 => self.open()?.get()?.read(place.segment, skip.into(), out),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn sync(&self, segments: &[u64]) -> io::Result<()> {
        self.open()?.get()?.sync(segments)
    }

    fn free(&self, places: &[Place]) -> io::Result<()> {
        self.delete(&mut places.iter().filter(|place| place.offset == 0).map(|place| place.segment))
    }

    fn discard(&self, segment: u64) -> io::Result<bool> {
        self.delete(&mut std::iter::once(segment)).map(|()| true)
    }

    fn space(&self) -> io::Result<Space> {
        let open = self.open()?;
        let map = open.get()?;
        Ok(Space::within(self.used.get(Duration::ZERO, || map.count_bytes())?, self.settings.capacity))
    }

    fn used(&self) -> u64 {
        self.used.counted()
    }

    fn scan(&self, found: &mut dyn FnMut(Place, Header)) -> io::Result<()> {
        let heads = self.open()?.get()?.heads(MAX_HEADER)?;
        // Nothing is locked while `found` runs, which may read.
        for (segment, head) in heads {
            let place = Place { segment, offset: 0, length: 0 };
            if let Ok(header) = Header::read(&head, self.owner.store, place) {
                found(Place { length: header.frame_len() as u32, ..place }, header);
            }
        }
        Ok(())
    }

    fn ready(&self) -> io::Result<()> {
        self.open().map(drop)
    }

    fn check_again(&self) -> io::Result<()> {
        *self.map.lock() = None;
        self.ready()
    }

    fn is_new(&self) -> bool {
        self.emptied.exists()
    }

    fn forget_new(&self) -> io::Result<()> {
        self.emptied.remove()
    }
}

fn error(settings: &TargetSettings, kind: io::ErrorKind, reason: &str) -> io::Error {
    io::Error::new(kind, format!("{}: {reason}", settings.path.display()))
}
