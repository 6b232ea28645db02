//! The handle of a stream in a store.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use terrace::{Ack, Locked, Store};

use crate::deal::Deal;
use crate::ledger::{Ledger, Mark};
use crate::log::{Accepted, LOG_SOURCE_NAME, Log, Page, Submitted};
use crate::owners::Owners;
use crate::places::Places;
use crate::request::{Framed, Name, Origin, Request};
use crate::right::{Exclusive, Right, runs_elsewhere};
use crate::seen::Seen;
use crate::sources::{Tally, all_tallies};
use crate::{Error, Result};

/// The key below which the store keeps all stream records.
const STREAMS_FOLDER: &str = ".terrace/streams";
/// The suffix of the files that hold the figures of streams.
const FIGURES_SUFFIX: &str = ".figures";

/// The suffix of the files that hold the directories of running streams.
const PLACES_SUFFIX: &str = ".places";

/// The largest number of partly finished pages that are read to count their pending requests. Further pages are counted as completely
/// pending.
const MAX_COUNTED_PAGES: usize = 256;

/// The number of attempts to lock a stream.
const MAX_LOCK_ATTEMPTS: usize = 4;

/// A stream of requests: a log with many producers, and the progress of its destinations. Cheap to clone.
#[derive(Clone)]
pub struct Stream {
    store: Store,
    name: String,
    folder: String,
    locks: PathBuf,
    pub(crate) log: Arc<Log>,
}

/// Deliveries of a stream in all its runs.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Done {
    /// Requests. The commit that records a request as done also counts it.
    pub requests: u64,
    /// Files that were delivered completely and removed.
    pub files: u64,
    /// Bytes of both.
    pub bytes: u64,
}

/// The pending requests in a stream's log.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// The number of pending requests.
    pub requests: u64,
    /// Their size in bytes in the log.
    pub bytes: u64,
    /// The age of the oldest one.
    pub age: Option<Duration>,
}

impl Stream {
    /// Opens the stream of this name; the first append creates it. `ack` sets the durability of an accepted request.
    pub fn open(store: &Store, name: &str, ack: Ack) -> Result<Stream> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !(1..=64).contains(&name.len()) || name.starts_with('.') || !name.chars().all(allowed) {
            return Err(Error::BadName(name.into()));
        }
        let locks = store.dir().join("streams");
        std::fs::create_dir_all(&locks).map_err(Error::io(format!("making {}", locks.display())))?;
        let folder = format!("{STREAMS_FOLDER}/{name}");
        let log = Log::open(store, folder.as_bytes(), locks.join(format!("{name}.append")), ack);
        Ok(Stream { store: store.internal(), name: name.into(), folder, locks, log: Arc::new(log) })
    }

    /// Lists the names of all streams of a store: those with records, and those that have run.
    pub fn list(store: &Store) -> Result<Vec<String>> {
        let mut names = Self::run_in(store)?;
        let mut last: Option<String> = None;
        loop {
            // Skip all keys below the last stream.
            let after = last.map(|name| format!("{STREAMS_FOLDER}/{name}/\u{10ffff}"));
            let next = store.list(STREAMS_FOLDER.as_bytes(), after.as_ref().map(|key| key.as_bytes()), 1)?;
            let key = next.first().map(|(key, _)| String::from_utf8_lossy(key));
            last = key.and_then(|key| Some(key.strip_prefix(STREAMS_FOLDER)?.split('/').nth(1)?.to_owned()));
            match last.clone() {
                Some(name) => names.insert(name),
                None => return Ok(names.into_iter().collect()),
            };
        }
    }

    /// Lists the streams that have run. The store keeps no record of a stream whose other sources are completely delivered.
    fn run_in(store: &Store) -> Result<BTreeSet<String>> {
        Self::with_file(store, FIGURES_SUFFIX)
    }

    /// Lists the streams that have left a file of this kind.
    fn with_file(store: &Store, kind: &str) -> Result<BTreeSet<String>> {
        let folder = store.dir().join("streams");
        let entries = match std::fs::read_dir(&folder) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            entries => entries.map_err(Error::io(format!("listing {}", folder.display())))?,
        };
        let name = |entry: std::fs::DirEntry| Some(entry.file_name().to_str()?.strip_suffix(kind)?.to_owned());
        Ok(entries.filter_map(|entry| name(entry.ok()?)).collect())
    }

    /// Returns the stream's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Appends all or none of the requests, without protection against duplicates. Returns once they have the durability that the
    /// stream's `Ack` requires.
    pub fn append(&self, requests: Vec<Request>) -> Result<()> {
        self.log.append(requests.into_iter().map(Framed::from).collect()).map(drop)
    }

    /// Appends all or none of the requests, skipping duplicates of earlier ones.
    pub fn append_framed(&self, requests: Vec<Framed>) -> Result<Vec<Accepted>> {
        self.log.append(requests)
    }

    /// Submits requests without waiting: they are accepted soon, all or none, in the order of submission. Many submissions share one
    /// commit, so this is the efficient way to append many small requests.
    pub fn submit(&self, requests: Vec<Framed>) -> Submitted {
        self.log.submit(requests)
    }

    /// Opens a producer, which numbers its requests so that it can send them again. It continues after the last sequence up to which all
    /// have arrived.
    pub fn producer(&self, name: impl AsRef<[u8]>) -> Result<Producer> {
        let name: Name = name.as_ref().into();
        let next = self.log.contiguous(&name)? + 1;
        Ok(Producer { stream: self.clone(), name, next })
    }

    /// Returns the path of the stream's file of this kind.
    pub(crate) fn path(&self, kind: &str) -> PathBuf {
        self.locks.join(format!("{}{kind}", self.name))
    }

    /// Returns a key below those of the stream.
    pub(crate) fn key(&self, what: &str) -> Vec<u8> {
        [self.folder.as_str(), what].concat().into_bytes()
    }

    /// Takes the right to run the stream, or to change its progress.
    ///
    /// # Errors
    /// [`Error::Running`] if another process has it.
    pub(crate) fn lock(&self) -> Result<Exclusive> {
        Exclusive::take(&self.store, &self.folder, &self.name, self.lock_here()?)
    }

    /// Joins the processes of other nodes that deliver the stream to a place.
    ///
    /// # Errors
    /// [`Error::Running`] if a process of this node runs the stream, or one of another node does alone.
    pub(crate) fn join(&self, node: String, place: String) -> Result<Arc<Deal>> {
        let lock = self.lock_here()?;
        Ok(Arc::new(Deal::join(&self.store, &self.folder, &self.name, node, place, lock)?))
    }

    /// Locks the stream among the processes of this machine.
    fn lock_here(&self) -> Result<Locked> {
        let path = self.locks.join(format!("{}.run", self.name));
        let context = || format!("locking {}", path.display());
        for _ in 0..MAX_LOCK_ATTEMPTS {
            let file = File::options().create(true).truncate(false).write(true).open(&path);
            match file.and_then(Locked::at_once).map_err(Error::io(context()))? {
                Some(lock) => return Ok(lock),
                // The holder of the lock may only be checking whether the stream runs.
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        Err(Error::Running(self.name.clone()))
    }

    /// Whether a process runs the stream now.
    pub fn is_running(&self) -> Result<bool> {
        match self.lock_here() {
            Ok(_) => runs_elsewhere(&self.store, &self.folder),
            Err(Error::Running(_)) => Ok(true),
            Err(e) => Err(e),
        }
    }

    /// Returns the figures of the process that runs, or last ran, the stream; `None` if it has never run.
    pub fn seen(&self) -> Option<Seen> {
        Seen::load(&self.seen_path())
    }

    pub(crate) fn seen_path(&self) -> PathBuf {
        self.path(FIGURES_SUFFIX)
    }

    pub(crate) fn places_path(&self) -> PathBuf {
        self.path(PLACES_SUFFIX)
    }

    /// Returns the directories of all other running streams of the store.
    pub(crate) fn others(&self) -> Result<Vec<(String, Places)>> {
        let mut others = Vec::new();
        for name in Self::with_file(&self.store, PLACES_SUFFIX)?.into_iter().filter(|name| *name != self.name) {
            let stream = Stream::open(&self.store, &name, Ack::Placed)?;
            if stream.is_running()? {
                others.push((name, Places::load(&stream.places_path())));
            }
        }
        Ok(others)
    }

    /// Returns the progress of its destinations.
    pub fn ledger(&self) -> Ledger {
        Ledger::new(&self.store, format!("{}/to", self.folder).into_bytes(), Right::Local)
    }

    /// Returns the progress of its destinations, for the holder of the right to change it.
    pub(crate) fn ledger_of(&self, right: &Right) -> Ledger {
        Ledger::new(&self.store, format!("{}/to", self.folder).into_bytes(), right.clone())
    }

    pub(crate) fn owners(&self) -> Owners {
        Owners::new(&self.store, &self.name, &self.folder)
    }

    /// Whether a destination has a mark, an owning directory or a request in the log.
    pub fn knows(&self, destination: &Name) -> Result<bool> {
        let has_mark = self.ledger().mark(destination)?.is_some();
        Ok(has_mark || self.owners().knows(destination)? || self.has_request(destination)?)
    }

    fn has_request(&self, destination: &Name) -> Result<bool> {
        let ledger = self.ledger();
        for page in self.log.pages()? {
            match self.log.waiting(&page, &ledger) {
                Ok(waiting) if waiting.iter().any(|(_, request)| request.destination == *destination) => {
                    return Ok(true);
                }
                // A page that was removed meanwhile has no request that waits.
                Ok(_) | Err(Error::Engine(terrace::Error::NotFound { .. })) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(false)
    }

    /// Returns the deliveries in all runs.
    pub fn done(&self) -> Result<Done> {
        let Tally { files, bytes } = all_tallies(&self.store, &self.name)?;
        let mut done = Done { requests: 0, files, bytes };
        for (_, mark) in self.ledger().all()? {
            done.requests += mark.requests;
            done.bytes += mark.bytes;
        }
        Ok(done)
    }

    /// Returns the pending requests in the log.
    pub fn backlog(&self) -> Result<Backlog> {
        let mut backlog = Backlog::default();
        let ledger = self.ledger();
        let log = |mark: Mark| mark.done.get(LOG_SOURCE_NAME).map(|done| done.0);
        let newest = ledger.all()?.into_iter().filter_map(|(_, mark)| log(mark)).max().unwrap_or(0);
        let mut counted = 0;
        let folder = format!("{}/log", self.folder).into_bytes();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let listed = self.store.list(&folder, after.as_deref(), 1024)?;
            for (key, object) in &listed {
                let Some(page) = Page::parse(key, &folder) else { continue };
                let (mut requests, mut bytes) = (page.count, object.length);
                // Requests after the greatest position of all destinations are all pending.
                if page.first <= newest && counted < MAX_COUNTED_PAGES {
                    counted += 1;
                    match self.log.waiting(&page, &ledger) {
                        Ok(waiting) => {
                            requests = waiting.len() as u64;
                            bytes = waiting.iter().map(|(_, request)| request.bytes.len() as u64).sum();
                        }
                        // The page was removed meanwhile: all its requests are done.
                        Err(Error::Engine(terrace::Error::NotFound { .. })) => continue,
                        Err(e) => return Err(e),
                    }
                }
                if requests == 0 {
                    continue;
                }
                backlog.requests += requests;
                backlog.bytes += bytes;
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let age = now.saturating_sub(Duration::from_nanos(object.attributes.mtime.max(0) as u64));
                backlog.age = Some(backlog.age.map_or(age, |oldest| oldest.max(age)));
            }
            match listed.into_iter().next_back() {
                Some((last, _)) => after = Some(last),
                None => return Ok(backlog),
            }
        }
    }
}

/// A producer that numbers its requests.
pub struct Producer {
    stream: Stream,
    name: Name,
    next: u64,
}

impl Producer {
    /// The sequence of the next request.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Sends the next request and returns its sequence. After an error the request may have been accepted: [`Producer::resend`] it.
    pub fn send(&mut self, request: Request) -> Result<u64> {
        let sequence = self.next;
        self.next += 1;
        self.resend(sequence, request)?;
        Ok(sequence)
    }

    /// Sends a request that may have been accepted before.
    pub fn resend(&self, sequence: u64, request: Request) -> Result<Accepted> {
        let origin = Some(Origin { producer: self.name.clone(), sequence });
        let accepted = self.stream.append_framed(vec![Framed { request, origin }])?;
        Ok(accepted.first().copied().unwrap_or(Accepted::Known))
    }
}
