//! A target that another node serves.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use serde::de::DeserializeOwned;
use terrace_format::frame::{Frame, Header};
use terrace_system::replace_durably;
use terrace_tier::{EmptiedNote, Place, Space, Target, TargetOwner, TargetSettings, Used};

use crate::buffers::Buffers;
use crate::connection::{Failure, Fill, Node};
use crate::options::Options;
use crate::segments::Segments;
use crate::wire::{
    Appended, INCARNATION_HEADER, MAX_PLACES, NEXT_HEADER, Owner, SegmentAnswer, SpaceAnswer, read_headers,
};

/// An append is tried this often: the node may need a number for a new segment, or another process may discard the one it chose.
const MAX_APPEND_TRIES: usize = 16;
/// A frame takes whole pages, about.
const PAGE_BYTES: u64 = 4096;
/// The node is asked again for its space if nobody has done so for this long.
const MAX_SPACE_AGE: Duration = Duration::from_secs(1);

/// A target of another node.
pub struct Remote {
    node: Node,
    /// The target for people.
    place: String,
    own: Owner,
    owner: TargetOwner,
    capacity: u64,
    persistent: bool,
    segments: Segments,
    buffers: Buffers,
    used: Used,
    emptied: EmptiedNote,
    contents: Contents,
    /// Whether the marker was seen, and nothing has since hinted that it is gone. A stale `true` does no harm, because each request
    /// names the owner, and the node compares it.
    known: AtomicBool,
}

/// The known state of the contents. They get another incarnation when frames that were not synced may be gone.
struct Contents {
    /// Holds the incarnation that the catalog was last compared with. None if another node compares it: then the first one that this process
    /// meets counts, so that frames of this process that are gone fail its syncs.
    file: Option<PathBuf>,
    /// That first one, if there is no file; 0 for none. Relaxed, as below.
    first: AtomicU64,
    /// The incarnation in the node's last answer, and the one of the last whole scan; 0 for none. Relaxed: each stands alone.
    seen: AtomicU64,
    scanned: AtomicU64,
}

impl Contents {
    fn trusted(&self) -> Option<u64> {
        match &self.file {
            Some(file) => u64::from_str_radix(fs::read_to_string(file).ok()?.trim(), 16).ok(),
            None => Some(self.first.load(Ordering::Relaxed)).filter(|first| *first != 0),
        }
    }

    fn trust(&self, incarnation: u64) -> io::Result<()> {
        let Some(file) = &self.file else {
            self.first.store(incarnation, Ordering::Relaxed);
            return Ok(());
        };
        match replace_durably(file, format!("{incarnation:016x}\n")) {
            // Another thread, which replaces the file by way of the same one, was faster.
            Err(_) if self.trusted() == Some(incarnation) => Ok(()),
            replaced => replaced,
        }
    }

    /// Whether frames may be gone that the catalog lists.
    fn are_doubtful(&self) -> bool {
        let seen = self.seen.load(Ordering::Relaxed);
        seen != 0 && self.trusted() != Some(seen)
    }
}

fn incarnation(headers: &HeaderMap) -> Option<u64> {
    u64::from_str_radix(headers.get(INCARNATION_HEADER)?.to_str().ok()?, 16).ok()
}

/// The error for an answer that no node gives.
pub fn wrong_answer(place: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, format!("{place}: the answer makes no sense; is a node there?"))
}

fn json(value: &impl serde::Serialize) -> io::Result<Bytes> {
    serde_json::to_vec(value).map(Bytes::from).map_err(io::Error::other)
}

impl Remote {
    /// The target of this owner. The node is not asked yet.
    ///
    /// # Errors
    /// `InvalidInput` if the settings or the secret are wrong.
    pub fn new(settings: &TargetSettings, owner: &TargetOwner) -> io::Result<Remote> {
        let options = Options::read(settings).map_err(|reason| io::Error::new(io::ErrorKind::InvalidInput, reason))?;
        let own = Owner { store: owner.store, target: owner.number };
        let file = |name: &str| owner.dir.join(format!("{name}-{}", owner.number));
        Ok(Remote {
            node: Node::new(options, own.header())?,
            place: settings.path.display().to_string(),
            own,
            owner: owner.clone(),
            capacity: settings.capacity,
            persistent: settings.persistent,
            segments: Segments::open(&file("segments"))?,
            buffers: Buffers::default(),
            used: owner.used(),
            emptied: owner.emptied(),
            contents: Contents {
                file: (!owner.is_made_elsewhere()).then(|| file("incarnation")),
                first: AtomicU64::new(0),
                seen: AtomicU64::new(0),
                scanned: AtomicU64::new(0),
            },
            known: AtomicBool::new(false),
        })
    }

    fn ask(&self, method: Method, path: &str, body: Bytes, mut into: Fill<'_>) -> Result<HeaderMap, Failure> {
        let answer = self.node.ask(method, path, body, &mut into);
        self.heed(&answer);
        answer
    }

    /// Notes what an answer tells of the target.
    fn heed(&self, answer: &Result<HeaderMap, Failure>) {
        match answer {
            Ok(headers) => {
                if let Some(incarnation) = incarnation(headers) {
                    self.contents.seen.store(incarnation, Ordering::Relaxed);
                }
            }
            Err(Failure::NumberNeeded) => {}
            Err(Failure::Error(error)) if error.kind() == io::ErrorKind::NotFound => {}
            // The target may be another one when it can be asked again.
            Err(_) => self.known.store(false, Ordering::Release),
        }
    }

    fn ask_json<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> Result<T, Failure> {
        let mut answer = Vec::new();
        self.ask(method, path, body, Fill::Vec(&mut answer))?;
        self.parse(&answer)
    }

    fn parse<T: DeserializeOwned>(&self, answer: &[u8]) -> Result<T, Failure> {
        serde_json::from_slice(answer).map_err(|_| Failure::Error(wrong_answer(&self.place)))
    }

    /// The owner by the marker, if a target is there.
    pub fn find_owner(&self) -> io::Result<Option<Owner>> {
        let mut marker = Vec::new();
        let answer = self.node.ask_for_marker(&mut marker);
        self.heed(&answer);
        answer?;
        Ok(self.parse(&marker)?)
    }

    /// Removes the target.
    pub fn remove(&self) -> io::Result<()> {
        Ok(self.ask_json(Method::DELETE, "", Bytes::new())?)
    }

    fn check(&self) -> io::Result<()> {
        match self.find_owner()? {
            Some(owner) if owner == self.own => {
                if let (None, seen @ 1..) = (self.contents.trusted(), self.contents.seen.load(Ordering::Relaxed)) {
                    self.contents.trust(seen)?;
                }
            }
            Some(owner) => {
                let owner = owner.mark().replace('\n', " ");
                let reason = format!("{} belongs to another store or target ({owner})", self.place);
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, reason));
            }
            None if self.persistent && self.owner.is_made_elsewhere() => {
                let reason = format!("{} is empty: its node makes it, if its disk is mounted there", self.place);
                return Err(io::Error::new(io::ErrorKind::NotConnected, reason));
            }
            None if self.persistent && self.owner.was_made() => {
                let reason = format!(
                    "{} is not the target that it was (it is empty): is its disk mounted on the node? If it is gone for good, `terrace tiers renew` makes an empty one",
                    self.place
                );
                return Err(io::Error::new(io::ErrorKind::NotConnected, reason));
            }
            None => {
                // Before the marker: otherwise a crash in between would leave an empty target that nobody knows to be empty.
                self.emptied.write()?;
                self.ask_json::<()>(Method::PUT, "/marker", json(&self.own)?)?;
                self.contents.trust(self.contents.seen.load(Ordering::Relaxed))?;
            }
        }
        self.owner.note_made()?;
        self.known.store(true, Ordering::Release);
        Ok(())
    }

    fn fetch_space(&self) -> io::Result<SpaceAnswer> {
        Ok(self.ask_json(Method::GET, "/space", Bytes::new())?)
    }

    fn find_segment(&self, segment: u64) -> io::Result<Option<SegmentAnswer>> {
        match self.ask_json(Method::GET, &format!("/segments/{segment}"), Bytes::new()) {
            Ok(found) => Ok(Some(found)),
            Err(failure) => match io::Error::from(failure) {
                error if error.kind() == io::ErrorKind::NotFound => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Appends a frame to whatever segment the node chooses.
    fn append_bytes(&self, bytes: &Bytes, length: u64) -> io::Result<Place> {
        let mut path = "/frames".to_owned();
        for _ in 0..MAX_APPEND_TRIES {
            let place = match self.ask_json::<Appended>(Method::POST, &path, bytes.clone()) {
                Err(Failure::NumberNeeded) => {
                    path = format!("/frames?number={}", self.owner.ids.next()?);
                    continue;
                }
                answered => answered?.place,
            };
            if u64::from(place.length) != length || place.is_plain() {
                return Err(wrong_answer(&self.place));
            }
            // The frame counts only if nobody can discard its segment any more. If somebody has, it is written again: nothing names
            // the first one.
            if self.segments.keep(place.segment, || Ok(self.find_segment(place.segment)?.is_some()))? {
                return Ok(place);
            }
            path = "/frames".to_owned();
        }
        let reason = format!("{}: its segments are discarded as fast as frames are written", self.place);
        Err(io::Error::new(io::ErrorKind::TimedOut, reason))
    }
}

impl Target for Remote {
    fn ready(&self) -> io::Result<()> {
        if self.known.load(Ordering::Acquire) { Ok(()) } else { self.check() }
    }

    fn check_again(&self) -> io::Result<()> {
        self.check()
    }

    fn append(&self, frame: &Frame<'_>) -> io::Result<Place> {
        self.ready()?;
        let length = frame.header.frame_len();
        let full = |e: io::Error| match e.kind() {
            io::ErrorKind::StorageFull => io::Error::new(e.kind(), format!("{} is full", self.place)),
            _ => e,
        };
        let pages = length.next_multiple_of(PAGE_BYTES);
        let measure = || self.fetch_space().map(|space| space.used);
        // Processes of other machines write there, too.
        self.used.get(MAX_SPACE_AGE, measure)?;
        let _room = self.used.take(pages, self.capacity, measure).map_err(full)?;
        let mut bytes = self.buffers.lend();
        bytes.clear();
        // The node writes the header again, for the place that it chooses.
        frame.header.write(self.owner.store, Place { segment: 0, offset: 0, length: 0 }, &mut bytes);
        bytes.extend_from_slice(frame.payload);
        self.append_bytes(&bytes.into_body(), length).inspect_err(|_| self.used.make_stale())
    }

    fn read(&self, place: Place, skip: u32, out: &mut [u8]) -> io::Result<()> {
        self.ready()?;
        if place.is_plain() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let Place { segment, offset, .. } = place;
        let path = format!("/frames/{segment}/{offset}/{}?skip={skip}", out.len());
        self.ask(Method::GET, &path, Bytes::new(), Fill::Slice(out))?;
        Ok(())
    }

    fn is_whole(&self, place: Place) -> io::Result<bool> {
        let answer: Vec<bool> = self.ask_json(Method::POST, "/verify", json(&[place])?)?;
        answer.first().copied().ok_or_else(|| wrong_answer(&self.place))
    }

    fn sync(&self, segments: &[u64]) -> io::Result<()> {
        self.ready()?;
        let segments: Vec<u64> =
            segments.iter().copied().filter(|id| id & terrace_tier::PLAIN_SEGMENT_BIT == 0).collect();
        for some in segments.chunks(MAX_PLACES) {
            self.ask_json::<()>(Method::POST, "/sync", json(&some)?)?;
        }
        // What was appended before the node's machine went down may be gone, although all that is left is durable.
        if self.contents.are_doubtful() {
            let reason = format!(
                "{}: its machine went down without an end of the node, so frames that were not durable may be gone; `terrace sync` looks which",
                self.place
            );
            return Err(io::Error::other(reason));
        }
        Ok(())
    }

    fn free(&self, places: &[Place]) -> io::Result<()> {
        self.ready()?;
        let places: Vec<Place> = places.iter().copied().filter(|place| !place.is_plain()).collect();
        for some in places.chunks(MAX_PLACES) {
            self.ask_json::<()>(Method::POST, "/free", json(&some)?)?;
        }
        self.used.make_stale();
        Ok(())
    }

    fn discard(&self, segment: u64) -> io::Result<bool> {
        self.ready()?;
        if segment & terrace_tier::PLAIN_SEGMENT_BIT != 0 {
            return Ok(true);
        }
        let ask = || -> io::Result<bool> {
            let gone: Vec<bool> = self.ask_json(Method::POST, "/discard", json(&[segment])?)?;
            gone.first().copied().ok_or_else(|| wrong_answer(&self.place))
        };
        let discarded = self.segments.discard(segment, ask)?;
        self.used.make_stale();
        Ok(discarded)
    }

    fn allocated(&self, segment: u64) -> u64 {
        let found = self.ready().and_then(|()| self.find_segment(segment));
        found.ok().flatten().map_or(0, |found| found.allocated)
    }

    fn space(&self) -> io::Result<Space> {
        self.ready()?;
        let space = self.fetch_space()?;
        self.used.make_stale();
        let used = self.used.get(MAX_SPACE_AGE, || Ok(space.used))?;
        Ok(Space { used, capacity: self.capacity.min(space.capacity), read_only: space.read_only })
    }

    fn used(&self) -> u64 {
        self.used.counted()
    }

    fn scan(&self, found: &mut dyn FnMut(Place, Header)) -> io::Result<()> {
        self.check()?;
        // Where frames may be gone, their space may hold anything: the node then verifies the payloads, too.
        let whole = if self.contents.are_doubtful() { "&whole=true" } else { "" };
        let begun = self.contents.seen.load(Ordering::Relaxed);
        let mut next = Some("segment=0&offset=0".to_owned());
        while let Some(from) = next {
            let mut page = Vec::new();
            let headers =
                self.ask(Method::GET, &format!("/headers?{from}{whole}"), Bytes::new(), Fill::Vec(&mut page))?;
            if incarnation(&headers) != Some(begun) {
                let reason = format!("{}: the node was started again during the scan", self.place);
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason));
            }
            for (place, header) in read_headers(&page, self.owner.store).map_err(|_| wrong_answer(&self.place))? {
                found(Place { length: header.frame_len() as u32, ..place }, header);
            }
            next = headers.get(NEXT_HEADER).and_then(|next| next.to_str().ok()).map(str::to_owned);
        }
        self.contents.scanned.store(begun, Ordering::Relaxed);
        Ok(())
    }

    fn is_new(&self) -> bool {
        self.emptied.exists() || self.contents.are_doubtful()
    }

    fn forget_new(&self) -> io::Result<()> {
        // Only what was scanned was compared with the catalog.
        let mut scanned = self.contents.scanned.swap(0, Ordering::Relaxed);
        if self.contents.file.is_none() {
            scanned = self.contents.seen.load(Ordering::Relaxed);
        }
        if scanned != 0 && self.contents.are_doubtful() {
            self.contents.trust(scanned)?;
        }
        self.emptied.remove()
    }
}
