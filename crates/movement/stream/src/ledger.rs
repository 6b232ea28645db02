//! The progress of each destination: one catalog record for each, kept as the attributes of an empty object.

use std::collections::{BTreeMap, HashMap};

use rustix_futex_sync::Mutex;
use terrace::{Attributes, Batch, Store};

use crate::claim::Claim;
use crate::entry::Position;
use crate::request::{Name, escape, unescape};
use crate::right::Right;
use crate::{Error, Result};

/// The progress of a destination. It is committed only after the delivered bytes are durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The end of all delivered bytes, and the offset of the next append. `None` before the first delivery.
    pub watermark: Option<u64>,
    /// The last delivered request of each source, by the source's name.
    pub done: BTreeMap<String, Position>,
    /// The length of a truncation in progress, if it is below the watermark.
    pub cut: Option<u64>,
    /// Why the destination is parked, if it is.
    pub parked: Option<String>,
    /// The number of delivered requests. It is committed with them, so that each is counted once.
    pub requests: u64,
    /// The number of their bytes.
    pub bytes: u64,
}

const ATTRIBUTE_WATERMARK: &str = "watermark";
const ATTRIBUTE_CUT: &str = "cut";
const ATTRIBUTE_PARKED: &str = "parked";
const ATTRIBUTE_REQUESTS: &str = "requests";
const ATTRIBUTE_BYTES: &str = "bytes";
const ATTRIBUTE_DONE_PREFIX: &str = "done ";

/// The prefix of the names under which followed files are recorded.
pub const LANE_PREFIX: &str = "tail ";

impl Mark {
    /// The greatest delivered position of any source.
    pub fn newest(&self) -> Position {
        self.done.values().max().copied().unwrap_or_default()
    }

    /// Whether requests were delivered here, rather than only bytes of followed files.
    pub fn takes_requests(&self) -> bool {
        self.watermark.is_some() && self.done.keys().any(|source| !source.starts_with(LANE_PREFIX))
    }

    fn attributes(&self) -> Attributes {
        let mut attributes = Attributes::now();
        attributes.user.extend(self.watermark.map(|end| (ATTRIBUTE_WATERMARK.into(), end.to_string())));
        attributes.user.extend(self.cut.map(|end| (ATTRIBUTE_CUT.into(), end.to_string())));
        attributes.user.extend(self.parked.clone().map(|reason| (ATTRIBUTE_PARKED.into(), reason)));
        for (name, number) in [(ATTRIBUTE_REQUESTS, self.requests), (ATTRIBUTE_BYTES, self.bytes)] {
            attributes.user.extend((number > 0).then(|| (name.to_owned(), number.to_string())));
        }
        attributes
            .user
            .extend(self.done.iter().map(|(source, at)| (format!("{ATTRIBUTE_DONE_PREFIX}{source}"), at.to_string())));
        attributes
    }

    fn read(attributes: &Attributes) -> Option<Mark> {
        let mut mark = Mark::default();
        for (name, value) in &attributes.user {
            match name.as_str() {
                ATTRIBUTE_WATERMARK => mark.watermark = Some(value.parse().ok()?),
                ATTRIBUTE_CUT => mark.cut = Some(value.parse().ok()?),
                ATTRIBUTE_REQUESTS => mark.requests = value.parse().ok()?,
                ATTRIBUTE_BYTES => mark.bytes = value.parse().ok()?,
                ATTRIBUTE_PARKED => mark.parked = Some(value.clone()),
                name => {
                    mark.done.insert(name.strip_prefix(ATTRIBUTE_DONE_PREFIX)?.to_owned(), Position::parse(value)?);
                }
            }
        }
        Some(mark)
    }
}

/// The marks of a stream's destinations. Only one process writes each.
pub struct Ledger {
    store: Store,
    folder: Vec<u8>,
    /// Each commit expects that this process still has it.
    right: Right,
    /// The marks as this process last read or wrote them. A leaf: the store is not called under it.
    known: Mutex<HashMap<Name, Option<Mark>>>,
}

impl Ledger {
    /// Creates a ledger whose records lie below `folder`.
    pub(crate) fn new(store: &Store, folder: Vec<u8>, right: Right) -> Ledger {
        Ledger { store: store.clone(), folder, right, known: Mutex::default() }
    }

    /// Begins a batch that is committed only as long as this process may change the progress of a destination, or of the log if none is
    /// named.
    ///
    /// # Errors
    /// [`Error::TakenOver`] if it may not any more.
    pub(crate) fn batch(&self, destination: Option<&[u8]>) -> Result<Batch<'_>> {
        let mut batch = self.store.batch();
        self.right.guard(&mut batch, destination)?;
        Ok(batch)
    }

    /// Fails if this process must not deliver now.
    pub(crate) fn check_fresh(&self) -> Result<()> {
        self.right.check_fresh()
    }

    /// Commits a batch of [`Ledger::batch`].
    ///
    /// # Errors
    /// [`Error::TakenOver`] if another node has what the batch is about.
    pub(crate) fn commit_batch(&self, batch: Batch<'_>) -> Result<()> {
        self.right.check(batch.commit().map(drop))
    }

    /// Forgets what is known of these destinations, because other processes may have changed it.
    pub(crate) fn reread(&self, is_one: &dyn Fn(&[u8]) -> bool) {
        self.known.lock().retain(|destination, _| !is_one(destination));
    }

    fn key(&self, destination: &[u8]) -> Vec<u8> {
        [&self.folder, b"/".as_slice(), &escape(destination)].concat()
    }

    /// Returns the progress of a destination, or `None` before its first delivery.
    pub fn mark(&self, destination: &Name) -> Result<Option<Mark>> {
        self.with_mark(destination, |mark| mark.cloned())
    }

    /// Returns the last request of a source that was delivered to a destination.
    pub fn done(&self, destination: &Name, source: &str) -> Result<Option<Position>> {
        self.with_mark(destination, |mark| mark?.done.get(source).copied())
    }

    fn with_mark<T>(&self, destination: &Name, use_mark: impl FnOnce(Option<&Mark>) -> T) -> Result<T> {
        if let Some(known) = self.known.lock().get(destination) {
            return Ok(use_mark(known.as_ref()));
        }
        let mark = match self.store.stat(&self.key(destination)) {
            Ok(object) => Some(read(destination, &object.attributes)?),
            Err(terrace::Error::NotFound { .. }) => None,
            Err(e) => return Err(e.into()),
        };
        // A commit in the meantime has inserted a newer mark, which stays: an older one would deliver requests twice.
        Ok(use_mark(self.known.lock().entry(destination.clone()).or_insert(mark).as_ref()))
    }

    /// Commits the progress of a destination.
    pub fn commit(&self, destination: &Name, mark: Mark) -> Result<()> {
        let batch = self.batch(Some(destination))?;
        self.commit_into(batch, destination, mark)
    }

    /// Commits the progress of a destination if this claim still holds.
    ///
    /// # Errors
    /// [`Error::TakenOver`] if it does not.
    pub(crate) fn commit_under(&self, claim: &Claim, destination: &Name, mark: Mark) -> Result<()> {
        let mut batch = self.store.batch();
        claim.guard(&mut batch);
        self.commit_into(batch, destination, mark)
    }

    fn commit_into(&self, mut batch: Batch<'_>, destination: &Name, mark: Mark) -> Result<()> {
        let key = self.key(destination);
        let is_new = self.mark(destination)?.is_none();
        match is_new {
            true => drop(batch.make(&key, 0, mark.attributes())?),
            false => batch.set_attributes(&key, mark.attributes()),
        }
        self.commit_batch(batch)?;
        self.known.lock().insert(destination.clone(), Some(mark));
        Ok(())
    }

    /// Records that a destination is parked.
    pub(crate) fn park(&self, destination: &Name, reason: &str) -> Result<()> {
        // Begun before the mark is read: under a later claim, what this process knew of the destination would be old.
        let batch = self.batch(Some(destination))?;
        let mark = self.mark(destination)?.unwrap_or_default();
        self.commit_into(batch, destination, Mark { parked: Some(reason.into()), ..mark })
    }

    /// Records that a destination is no longer parked.
    pub fn unpark(&self, destination: &Name) -> Result<()> {
        let is_parked = |mark: Option<&Mark>| mark.is_some_and(|mark| mark.parked.is_some());
        if !self.with_mark(destination, is_parked)? {
            return Ok(());
        }
        let batch = self.batch(Some(destination))?; // see `park`
        let mark = self.mark(destination)?.unwrap_or_default();
        self.set_in(batch, destination, Mark { parked: None, ..mark })
    }

    /// Sets the progress of a destination. An empty mark removes the record.
    pub fn set(&self, destination: &Name, mark: Mark) -> Result<()> {
        self.set_in(self.batch(Some(destination))?, destination, mark)
    }

    fn set_in(&self, mut batch: Batch<'_>, destination: &Name, mark: Mark) -> Result<()> {
        if mark != Mark::default() {
            return self.commit_into(batch, destination, mark);
        }
        if self.mark(destination)?.is_none() {
            return Ok(());
        }
        let key = self.key(destination);
        batch.remove(&key);
        self.commit_batch(batch)?;
        self.known.lock().insert(destination.clone(), None);
        Ok(())
    }

    /// Returns once all committed marks survive a power cut.
    pub fn sync(&self) -> Result<()> {
        Ok(self.store.sync_placed()?)
    }

    /// Returns all destinations with their progress.
    pub fn all(&self) -> Result<Vec<(Vec<u8>, Mark)>> {
        let mut all = Vec::new();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = self.store.list(&self.folder, after.as_deref(), 1024)?;
            for (key, object) in &page {
                let name = unescape(key.get(self.folder.len() + 1..).unwrap_or_default());
                let mark = read(&name, &object.attributes)?;
                all.push((name, mark));
            }
            match page.into_iter().next_back() {
                Some((last, _)) => after = Some(last),
                None => return Ok(all),
            }
        }
    }
}

fn read(destination: &[u8], attributes: &Attributes) -> Result<Mark> {
    let what = || format!("the record of destination {:?}", String::from_utf8_lossy(destination));
    Mark::read(attributes).ok_or_else(|| Error::damaged(what(), "a number is missing or malformed"))
}
