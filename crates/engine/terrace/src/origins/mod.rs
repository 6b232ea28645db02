//! Origins: directories and services outside of the store, whose files it shows below a prefix.
//!
//! A file of an origin is an object whose *holes are at the origin*: it has its length and times, and an attribute with the identity of
//! its bytes there ([`attribute`]). A read of a hole fetches the bytes under this identity, and stores them as extents. A file with
//! another identity is another object under the same key, so no reader gets a mixture of two versions.
//!
//! Names are asked for when they are looked up, and again after the origin's `max_age` ([`names`]).

mod ahead;
mod attribute;
mod changes;
mod fetch;
mod fetch_locks;
mod names;
mod opened;
mod recency;
mod store_mounts;
mod trouble;
mod window;

use std::collections::HashMap;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;
use terrace_catalog::{Catalog, Kind, Object};
use terrace_format::key;
use terrace_system::clock::monotonic_nanos;
use terrace_tier::Origin;

pub(crate) use attribute::{LEFT_OUT_ATTRIBUTE, forget_origin, is_at_origin};
pub(crate) use store_mounts::StoreMounts;

use crate::config::{Config, OriginConfig};
use crate::place::Planning;
use crate::write::Writer;
use crate::{Error, Result};
use ahead::Ahead;
use attribute::Pinned;
use fetch_locks::FetchLocks;
use names::Checked;
use opened::open_origin;
use recency::Recency;
use trouble::{AsTrouble, Troubles};
use window::Courses;

/// The time after which a process that looks up or changes a name looks whether there are more origins than it knows. What it has written
/// below one before it knew that stays (`changes`).
pub(crate) const HEED_INTERVAL: Duration = Duration::from_millis(50);

/// The client of an origin, with the configuration that it was made for.
type OpenedOrigin = (OriginConfig, Arc<dyn Origin>);

/// The origins of an open store.
pub(crate) struct Origins {
    catalog: Arc<Catalog>,
    planning: Arc<Planning>,
    writer: Arc<Writer>,
    fetch_locks: FetchLocks,
    /// The clients of the origins by number. A leaf: held for a lookup or a
    /// replacement. No client is made, and none is used, under it.
    opened: Mutex<HashMap<u32, OpenedOrigin>>,
    /// When this process last asked for names. A leaf.
    checked: Mutex<Checked>,
    /// Whether a listing has left out a folder. Relaxed: it is read after the listing, by the thread that has asked for it.
    has_left_out: AtomicBool,
    troubles: Troubles,
    /// How objects are read. A leaf.
    courses: Mutex<Courses>,
    ahead: Ahead,
    /// Which cached bytes were read last.
    pub recency: Recency,
    /// The mover, once it exists.
    room: OnceLock<Weak<dyn DropCached>>,
    /// Whether bytes were stored, so that the background thread has to make room and marks. Relaxed: a mere wish.
    has_stored: AtomicBool,
    /// The number of bytes that were fetched and found no room. Relaxed, as above.
    unkept: AtomicU64,
    /// Until when readers ask for no room, by the monotonic clock, because that is slow or in vain. Relaxed: at worst, one asks too often.
    full_until: AtomicU64,
    /// When this process last looked for new origins, by the monotonic clock. Relaxed: at worst, two threads look.
    heeded: AtomicU64,
}

/// Drops cached bytes for new ones. The mover implements it: it is above the origins, which cannot call it directly.
pub(crate) trait DropCached: Send + Sync {
    /// Drops cached bytes, those that were not read for the longest time first, so that `bytes` have room. Returns whether it pays to try
    /// again: something was dropped, or another thread or process is dropping something.
    fn drop_cached(&self, bytes: u64) -> Result<bool>;
}

/// An origin of the current configuration.
pub(crate) struct Configured {
    rules: Arc<Config>,
    at: usize,
}

impl Deref for Configured {
    type Target = OriginConfig;

    fn deref(&self) -> &OriginConfig {
        &self.rules.origins[self.at]
    }
}

/// Where the bytes of an object are.
pub(crate) struct Source {
    origin: Configured,
    path: Vec<u8>,
    identity: String,
}

impl Origins {
    /// Creates the origins of the store in `dir`.
    pub fn new(dir: &Path, catalog: Arc<Catalog>, planning: Arc<Planning>, writer: Arc<Writer>) -> Origins {
        Origins {
            catalog,
            planning,
            writer,
            fetch_locks: FetchLocks::of(dir),
            opened: Mutex::default(),
            checked: Mutex::default(),
            has_left_out: AtomicBool::new(false),
            troubles: Troubles::default(),
            courses: Mutex::default(),
            ahead: Ahead::default(),
            recency: Recency::of(dir),
            room: OnceLock::new(),
            has_stored: AtomicBool::new(false),
            unkept: AtomicU64::new(0),
            full_until: AtomicU64::new(0),
            heeded: AtomicU64::new(0),
        }
    }

    /// Sets who drops cached bytes for new ones. Later calls change nothing.
    pub fn set_room(&self, room: Weak<dyn DropCached>) {
        // Fails only if it was set before.
        let _ = self.room.set(room);
    }

    /// Returns whether there are any, as far as this process knows.
    pub fn is_any(&self) -> bool {
        self.planning.rules.has_origins()
    }

    /// Returns the origin to which a key belongs.
    pub fn of_key(&self, key: &[u8]) -> Option<Configured> {
        // Another process may have added one: a folder that it has not listed would be empty here, and could be written to.
        if !self.heed() {
            return None;
        }
        let rules = self.planning.rules.now();
        let at = rules.origins.iter().position(|origin| key::below(key, origin.prefix.as_bytes()))?;
        Some(Configured { rules, at })
    }

    /// Checks that a key belongs to no origin, because nothing is written there.
    ///
    /// # Errors
    /// [`Error::ReadOnlyOrigin`].
    pub fn check_changeable(&self, key: &[u8]) -> Result<()> {
        match self.of_key(key) {
            Some(origin) => Err(Error::ReadOnlyOrigin { key: key::show(key), origin: origin.prefix.clone() }),
            None => Ok(()),
        }
    }

    /// Looks now and then whether another process has added an origin. Returns whether there are any.
    pub fn heed(&self) -> bool {
        let now = monotonic_nanos();
        let last = self.heeded.load(Ordering::Relaxed); // see the field
        if now.saturating_sub(last) > HEED_INTERVAL.as_nanos() as u64 {
            self.heeded.store(now, Ordering::Relaxed); // see the field
            self.planning.rules.renew();
        }
        self.is_any()
    }

    /// Returns where the bytes in holes of an object are. None if they are zeros.
    ///
    /// # Errors
    /// If its origin is not there any more.
    pub fn source_of(&self, key: &[u8], object: &Object) -> Result<Option<Source>> {
        let Some(pinned) = Pinned::of(object).filter(|_| object.attributes.kind != Kind::Directory) else {
            return Ok(None);
        };
        let find = || self.of_key(key).filter(|origin| origin.number == pinned.number);
        let origin = find().or_else(|| {
            self.planning.rules.renew();
            find()
        });
        let Some(origin) = origin else {
            let context = format!("reading {:?}", key::show(key));
            let cause =
                io::Error::new(io::ErrorKind::NotFound, "the origin of this file was removed; its bytes are not here");
            return Err(Error::Io { context, cause });
        };
        let path = path_in(&origin, key).unwrap_or_default().to_vec();
        Ok(Some(Source { origin, path, identity: pinned.identity.to_owned() }))
    }

    /// Returns whether bytes were stored, or found no room, since the last call.
    pub fn take_work(&self) -> bool {
        self.has_stored.load(Ordering::Relaxed) && self.has_stored.swap(false, Ordering::Relaxed) // see the field
    }

    /// Returns the number of bytes that found no room since the last call.
    pub fn take_unkept(&self) -> u64 {
        match self.unkept.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.unkept.swap(0, Ordering::Relaxed), // see the field
        }
    }

    fn files_of(&self, origin: &OriginConfig) -> io::Result<Arc<dyn Origin>> {
        if let Some((of, files)) = self.opened.lock().get(&origin.number)
            && of == origin
        {
            return Ok(files.clone());
        }
        let files = open_origin(origin)?;
        self.opened.lock().insert(origin.number, (origin.clone(), files.clone()));
        Ok(files)
    }

    /// Asks an origin, unless it has not answered just before.
    fn ask<T, E: From<io::Error> + AsTrouble>(
        &self,
        origin: &OriginConfig,
        question: impl FnOnce(&dyn Origin) -> Result<T, E>,
    ) -> Result<T, E> {
        self.troubles.check(origin.number)?;
        let asked = Instant::now();
        let answer = self.files_of(origin).map_err(E::from).and_then(|files| question(&*files));
        self.troubles.note(origin.number, asked, answer.as_ref().err().and_then(E::as_trouble));
        answer
    }
}

/// Returns the path of a key at its origin. None for the prefix itself.
fn path_in<'k>(origin: &OriginConfig, key: &'k [u8]) -> Option<&'k [u8]> {
    key.strip_prefix(origin.prefix.as_bytes())?.strip_prefix(b"/")
}

/// Returns whether an origin has refused to show something.
pub(crate) fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Origin { cause, .. } if cause.kind() == io::ErrorKind::PermissionDenied)
}

/// Returns the error of an origin that does not answer.
fn unanswered(origin: &OriginConfig, doing: &str, key: &[u8], cause: io::Error) -> Error {
    let context = format!("{doing} {:?}", key::show(key));
    Error::Origin { context, origin: origin.prefix.clone(), url: origin.url.clone(), cause }
}
