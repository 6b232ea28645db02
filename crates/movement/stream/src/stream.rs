//! A stream in a store.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use terrace::{Ack, Locked, Store};

use crate::control::Control;
use crate::destinations::Destination;
use crate::ledger::{Ledger, Mark};
use crate::log::{Accepted, Log, Page, SOURCE, Submitted};
use crate::owners::Owners;
use crate::places::Places;
use crate::request::{Framed, Name, Origin, Request};
use crate::run::Running;
use crate::seen::Seen;
use crate::sources::{Tally, all_tallies};
use crate::{Error, Result};

/// Below which all that is kept of streams lies.
const FOLDER: &str = ".terrace/streams";
/// How the files end that tell how streams do.
const FIGURES: &str = ".figures";

/// How the files end that tell which directories streams read and write.
const PLACES: &str = ".places";

/// Pages of which some requests are done that are looked into to count the others. More are counted whole.
const MAX_PAGES_LOOKED_INTO: usize = 256;

/// How often it is tried to become the one that runs a stream.
const TRIES: usize = 4;

/// A stream of requests: a log that many append to, and how far its destinations have got. Cheap to clone.
#[derive(Clone)]
pub struct Stream {
    store: Store,
    name: String,
    folder: String,
    locks: PathBuf,
    pub(crate) log: Arc<Log>,
}

/// What a stream has delivered, in all its runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Done {
    /// Requests, each counted in the commit that tells that it is done.
    pub requests: u64,
    /// Files that were delivered whole and removed.
    pub files: u64,
    /// Bytes of both.
    pub bytes: u64,
}

/// What waits in a stream's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Requests that are not done.
    pub requests: u64,
    /// Their bytes, as the log holds them.
    pub bytes: u64,
    /// How long the oldest has waited.
    pub age: Option<Duration>,
}

impl Stream {
    /// The stream of this name, which begins when it is first appended to. `ack` says what a request survives once it is accepted.
    pub fn open(store: &Store, name: &str, ack: Ack) -> Result<Stream> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !(1..=64).contains(&name.len()) || name.starts_with('.') || !name.chars().all(allowed) {
            return Err(Error::BadName(name.into()));
        }
        let locks = store.dir().join("streams");
        std::fs::create_dir_all(&locks).map_err(Error::io(format!("making {}", locks.display())))?;
        let folder = format!("{FOLDER}/{name}");
        let log = Log::open(store, folder.as_bytes(), locks.join(format!("{name}.append")), ack);
        Ok(Stream { store: store.internal(), name: name.into(), folder, locks, log: Arc::new(log) })
    }

    /// The names of all streams of a store: those that it keeps something of, and those that were run.
    pub fn list(store: &Store) -> Result<Vec<String>> {
        let mut names = Self::run_in(store)?;
        let mut last: Option<String> = None;
        loop {
            // Behind all that lies below the last one.
            let after = last.map(|name| format!("{FOLDER}/{name}/\u{10ffff}"));
            let next = store.list(FOLDER.as_bytes(), after.as_ref().map(|key| key.as_bytes()), 1)?;
            let key = next.first().map(|(key, _)| String::from_utf8_lossy(key));
            last = key.and_then(|key| Some(key.strip_prefix(FOLDER)?.split('/').nth(1)?.to_owned()));
            match last.clone() {
                Some(name) => names.insert(name),
                None => return Ok(names.into_iter().collect()),
            };
        }
    }

    /// Those that were run; of what one pulls from elsewhere, the store keeps nothing once it is done.
    fn run_in(store: &Store) -> Result<BTreeSet<String>> {
        Self::with_file(store, FIGURES)
    }

    /// Those that have left a file of this kind.
    fn with_file(store: &Store, kind: &str) -> Result<BTreeSet<String>> {
        let folder = store.dir().join("streams");
        let entries = match std::fs::read_dir(&folder) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            entries => entries.map_err(Error::io(format!("listing {}", folder.display())))?,
        };
        let name = |entry: std::fs::DirEntry| Some(entry.file_name().to_str()?.strip_suffix(kind)?.to_owned());
        Ok(entries.filter_map(|entry| name(entry.ok()?)).collect())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Takes requests, all or none; they will not be sent again. Returns when they survive what the stream's `Ack` says.
    pub fn append(&self, requests: Vec<Request>) -> Result<()> {
        self.log.append(requests.into_iter().map(Framed::from).collect()).map(drop)
    }

    /// Takes requests, all or none, some of which may have been taken before.
    pub fn append_framed(&self, requests: Vec<Framed>) -> Result<Vec<Accepted>> {
        self.log.append(requests)
    }

    /// Hands requests over, and does not wait: they are accepted soon, all or none, in the order in which they were handed over. Many make one
    /// commit, so this is the way of those who have many small ones.
    pub fn submit(&self, requests: Vec<Framed>) -> Submitted {
        self.log.submit(requests)
    }

    /// One who numbers its requests, so that it may send them again. It goes on behind the last of which all before have come.
    pub fn producer(&self, name: impl AsRef<[u8]>) -> Result<Producer> {
        let name: Name = name.as_ref().into();
        let next = self.log.contiguous(&name)? + 1;
        Ok(Producer { stream: self.clone(), name, next })
    }

    /// Makes this process the one that runs the stream, to these destinations.
    ///
    /// # Errors
    /// [`Error::Running`] where another process does.
    pub fn run(&self, to: Arc<dyn Destination>, control: &Arc<Control>) -> Result<Running> {
        Running::new(self, to, control, self.lock()?)
    }

    /// The file of this kind that is the stream's.
    pub(crate) fn path(&self, kind: &str) -> PathBuf {
        self.locks.join(format!("{}{kind}", self.name))
    }

    pub(crate) fn lock(&self) -> Result<Locked> {
        let path = self.locks.join(format!("{}.run", self.name));
        let context = || format!("locking {}", path.display());
        for _ in 0..TRIES {
            let file = File::options().create(true).truncate(false).write(true).open(&path);
            match file.and_then(Locked::at_once).map_err(Error::io(context()))? {
                Some(lock) => return Ok(lock),
                // Somebody may only be looking whether it runs.
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        Err(Error::Running(self.name.clone()))
    }

    /// Whether some process runs it now.
    pub fn is_running(&self) -> Result<bool> {
        match self.lock() {
            Ok(_) => Ok(false),
            Err(Error::Running(_)) => Ok(true),
            Err(e) => Err(e),
        }
    }

    /// What the process that runs it, or ran it last, has done; none where nobody ever did.
    pub fn seen(&self) -> Option<Seen> {
        Seen::load(&self.seen_path())
    }

    pub(crate) fn seen_path(&self) -> PathBuf {
        self.path(FIGURES)
    }

    pub(crate) fn places_path(&self) -> PathBuf {
        self.path(PLACES)
    }

    /// The directories of all other streams of the store that run.
    pub(crate) fn others(&self) -> Result<Vec<(String, Places)>> {
        let mut others = Vec::new();
        for name in Self::with_file(&self.store, PLACES)?.into_iter().filter(|name| *name != self.name) {
            let stream = Stream::open(&self.store, &name, Ack::Placed)?;
            if stream.is_running()? {
                others.push((name, Places::load(&stream.places_path())));
            }
        }
        Ok(others)
    }

    /// How far its destinations have got.
    pub fn ledger(&self) -> Ledger {
        Ledger::new(&self.store, format!("{}/to", self.folder).into_bytes())
    }

    pub(crate) fn owners(&self) -> Owners {
        Owners::new(&self.store, &self.name, &self.folder)
    }

    /// Whether anything is known of a destination: how far it has got, or to which directory it belongs.
    pub fn knows(&self, destination: &Name) -> Result<bool> {
        Ok(self.ledger().mark(destination)?.is_some() || self.owners().knows(destination)?)
    }

    /// What it has delivered, in all its runs.
    pub fn done(&self) -> Result<Done> {
        let Tally { files, bytes } = all_tallies(&self.store, &self.name)?;
        let mut done = Done { requests: 0, files, bytes };
        for (_, mark) in self.ledger().all()? {
            done.requests += mark.requests;
            done.bytes += mark.bytes;
        }
        Ok(done)
    }

    /// What waits in its log.
    pub fn backlog(&self) -> Result<Backlog> {
        let mut backlog = Backlog::default();
        let ledger = self.ledger();
        let log = |mark: Mark| mark.done.get(SOURCE).map(|done| done.0);
        let newest = ledger.all()?.into_iter().filter_map(|(_, mark)| log(mark)).max().unwrap_or(0);
        let mut looked = 0;
        let folder = format!("{}/log", self.folder).into_bytes();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let listed = self.store.list(&folder, after.as_deref(), 1024)?;
            for (key, object) in &listed {
                let Some(page) = Page::parse(key, &folder) else { continue };
                let (mut requests, mut bytes) = (page.count, object.length);
                // Behind what any destination has got to nothing is done.
                if page.first <= newest && looked < MAX_PAGES_LOOKED_INTO {
                    looked += 1;
                    match self.log.waiting(&page, &ledger) {
                        Ok(waiting) => {
                            requests = waiting.len() as u64;
                            bytes = waiting.iter().map(|(_, request)| request.bytes.len() as u64).sum();
                        }
                        // It was removed meanwhile: all of it is done.
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

/// One who numbers its requests.
pub struct Producer {
    stream: Stream,
    name: Name,
    next: u64,
}

impl Producer {
    /// The number of the next request.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Sends the next request; its number. Where it fails it may have been taken: [`Producer::resend`] it.
    pub fn send(&mut self, request: Request) -> Result<u64> {
        let sequence = self.next;
        self.next += 1;
        self.resend(sequence, request)?;
        Ok(sequence)
    }

    /// Sends a request that may have been taken before.
    pub fn resend(&self, sequence: u64, request: Request) -> Result<Accepted> {
        let origin = Some(Origin { producer: self.name.clone(), sequence });
        let accepted = self.stream.append_framed(vec![Framed { request, origin }])?;
        Ok(accepted.first().copied().unwrap_or(Accepted::Known))
    }
}
