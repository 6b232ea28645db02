//! A running stream: its sources, its destination, and the pipeline between them.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use terrace_pipeline::{DestinationOf, Ended, Pulled, Settings, Source};

use crate::control::Control;
use crate::deal::{Deal, Delivery};
use crate::deliver::{Begun, Deliver};
use crate::destinations::Destination;
use crate::entry::Entry;
use crate::ledger::Ledger;
use crate::log::{LOG_SOURCE_NAME, LogSource};
use crate::owners::{Claims, Owners};
use crate::places::{Places, PlacesCheck};
use crate::request::Name;
use crate::right::{Exclusive, Right};
use crate::seen::Seen;
use crate::sources::{Directory, Tail, Watch};
use crate::stream::Stream;
use crate::{Error, Result};

/// How often the stream saves its figures and serves the requests of other processes.
const ATTENTION_INTERVAL: Duration = Duration::from_secs(1);

/// A source of a stream other than its log.
pub type AnySource = Box<dyn Source<Move = Entry, Error = Error> + Send>;

/// A stream that this process runs, alone or as one of several nodes.
pub struct Running {
    stream: Stream,
    ledger: Arc<Ledger>,
    owners: Arc<Owners>,
    control: Arc<Control>,
    destination: Arc<dyn Destination>,
    names: Vec<String>,
    sources: Vec<AnyRunningSource>,
    places: Places,
    begun: Arc<Begun>,
    right: Right,
    deal: Option<Arc<Deal>>,
    /// Dropped last.
    _exclusive: Option<Exclusive>,
}

enum AnyRunningSource {
    Log(Box<LogSource>),
    Directory(Box<Directory>),
    Other(AnySource),
}

impl Stream {
    /// Starts to run the stream in this process, delivering to this destination.
    ///
    /// # Errors
    /// [`Error::Running`] if another process runs it.
    pub fn run(&self, to: Arc<dyn Destination>, control: &Arc<Control>) -> Result<Running> {
        let exclusive = self.lock()?;
        let right = exclusive.right.clone();
        Running::new(self, to, control, &right, Some(exclusive))
    }

    /// Like [`Stream::run`], beside other nodes that do the same: each delivers the log's requests to a part of the destinations. `place` says
    /// in words where `to` is, and must be the same on all nodes. In a store of one machine this is [`Stream::run`].
    ///
    /// # Errors
    /// [`Error::Running`] if a process of this node runs the stream, or one of another node runs it alone; [`Error::OtherPlace`].
    pub fn run_beside_others(
        &self,
        to: Arc<dyn Destination>,
        place: String,
        control: &Arc<Control>,
    ) -> Result<Running> {
        match self.store().node()? {
            Some(node) => Running::new(self, to, control, &Right::Dealt(self.join(node, place)?), None),
            None => self.run(to, control),
        }
    }
}

impl Running {
    pub(crate) fn new(
        stream: &Stream,
        to: Arc<dyn Destination>,
        control: &Arc<Control>,
        right: &Right,
        exclusive: Option<Exclusive>,
    ) -> Result<Running> {
        let running = Running {
            places: Places { from: Vec::new(), to: to.root().map(Path::to_owned) },
            stream: stream.clone(),
            ledger: Arc::new(stream.ledger_of(right)),
            owners: Arc::new(stream.owners()),
            control: control.clone(),
            destination: to,
            names: Vec::new(),
            sources: Vec::new(),
            begun: Arc::default(),
            right: right.clone(),
            deal: if let Right::Dealt(deal) = right { Some(deal.clone()) } else { None },
            _exclusive: exclusive,
        };
        running.places.check_destination(stream.store())?;
        running.declare()?;
        Ok(running)
    }

    /// Publishes the directories that this stream reads and writes, and only then reads those of other streams: of two streams that start
    /// at once, at least one sees the other.
    fn declare(&self) -> Result<()> {
        self.places.save(&self.stream.places_path())?;
        self.places.check_others(&self.stream.others()?)
    }

    /// Adds the stream's log as a source.
    pub fn with_log(mut self) -> Running {
        let (log, ledger, control) = (self.stream.log.clone(), self.ledger.clone(), self.control.clone());
        let source = LogSource::new(log, ledger, control, self.deal.clone(), self.sources.len());
        self.sources.push(AnyRunningSource::Log(Box::new(source)));
        self.names.push(LOG_SOURCE_NAME.into());
        self
    }

    /// Adds a directory as a source: its files are delivered under their names, and are removed or followed.
    ///
    /// # Errors
    /// If the directory and the destination are the same, or one contains the other.
    pub fn with_directory(mut self, root: &Path, watch: &Watch) -> Result<Running> {
        self.check_alone()?;
        let (store, number) = (self.stream.store(), self.sources.len());
        let context = || format!("opening {}", root.display());
        let path = std::path::absolute(root).map_err(Error::io(context()))?;
        let root = std::fs::canonicalize(root).map_err(Error::io(context()))?;
        self.places.check(&path, store)?;
        // With its symbolic links: if one of them is changed, the files are taken from where it leads then.
        self.places.from.push(path.clone());
        self.declare()?;
        self.owners.add_directory();
        self.names.push(format!("directory {}", root.display()));
        let claims = Claims::new(path, root, &self.owners, &self.ledger);
        let destination = &self.destination;
        if watch.tail {
            if destination.appends_only() {
                return Err(Error::NoTail);
            }
            let tail = Tail::new(number, self.ledger.clone(), claims, &self.control)?;
            self.sources.push(AnyRunningSource::Other(Box::new(tail)));
            return Ok(self);
        }
        let stream = self.stream.name();
        let directory = Directory::new(store, stream, claims, watch, number, destination, &self.control)?;
        self.sources.push(AnyRunningSource::Directory(Box::new(directory)));
        Ok(self)
    }

    /// Adds a source with a unique name. `make` receives the source's number and the destinations' progress.
    pub fn with(mut self, name: &str, make: impl FnOnce(usize, Arc<Ledger>) -> Result<AnySource>) -> Result<Running> {
        self.check_alone()?;
        self.sources.push(AnyRunningSource::Other(make(self.sources.len(), self.ledger.clone())?));
        self.names.push(name.into());
        Ok(self)
    }

    /// Returns the check of all directories, for when a path leads to another directory than when they were added.
    fn places_check(&self) -> PlacesCheck {
        let (places, stream) = (self.places.clone(), self.stream.clone());
        Arc::new(move || {
            places.check_all(stream.store())?;
            places.check_others(&stream.others()?)
        })
    }

    fn check_alone(&self) -> Result<()> {
        if self.deal.is_some() { Err(Error::LogOnly) } else { Ok(()) }
    }

    /// Runs until all sources have ended or [`Control`] stops the stream.
    ///
    /// # Errors
    /// If the store or a source fails. A failure at a destination is not an error: see [`Ledger::all`] for parked destinations.
    pub fn go(self, settings: &Settings) -> Result<()> {
        if self.destination.appends_only() && self.sources.len() > 1 {
            return Err(Error::OneSource);
        }
        let check = self.places_check();
        self.destination.set_check(Some(check.clone()));
        self.sources.iter().for_each(|source| source.set_check(&check));
        let deliver = Deliver {
            destination: self.destination.clone(),
            ledger: self.ledger,
            sources: self.names,
            control: self.control.clone(),
            deal: self.deal.clone(),
            begun: self.begun.clone(),
        };
        let dealt =
            Dealt { sources: &self.sources, ledger: &deliver.ledger, begun: &self.begun, control: &self.control };
        // For tests: a process that goes on after a pause may deliver before this thread does anything.
        let delay = Duration::from_millis(terrace::fail::limit("TERRACE_ATTEND_DELAY_MILLISECONDS", 0));
        let attend = || {
            thread::sleep(delay);
            let has = |destination: &Name| self.deal.as_ref().is_none_or(|deal| deal.has(destination));
            self.stream.take_retry_requests(&has)?.into_iter().for_each(|name| self.control.retry(name));
            match &self.right {
                Right::Local => Ok(()),
                Right::Alone(alone) => alone.tend(),
                Right::Dealt(deal) => deal.tend(&dealt),
            }
        };
        attend()?;
        let (control, figures) = (&self.control, &self.control.figures);
        let (ended, ends) = channel::<()>();
        let (done, finished) = thread::scope(|scope| {
            let stream = &self.stream;
            scope.spawn(move || serve_observers(control, stream, &attend, &ends));
            let done = terrace_pipeline::run(&self.sources, &deliver, settings, figures);
            let finished = self.sources.iter().try_for_each(AnyRunningSource::finish_all);
            // Signal the end only now, so that the last saved figures include the final state.
            drop(ended);
            (done, finished)
        });
        // It holds the store, and the destination may outlive this run.
        self.destination.set_check(None);
        let done = done.map_err(|ended| match ended {
            Ended::Failed(error) => error,
            Ended::NoThread(cause) => Error::io("starting a thread")(cause),
        });
        done.and(finished)
    }
}

/// Saves the figures once a second and at the end, and attends to other processes once a second.
fn serve_observers(control: &Control, stream: &Stream, attend: &dyn Fn() -> Result<()>, ends: &Receiver<()>) {
    let path = &stream.seen_path();
    let mut before = (Seen::default(), Instant::now());
    let mut ended = false;
    loop {
        let seen = Seen::of(control, &before);
        if let Err(error) = seen.save(path) {
            tracing::warn!(%error, "others do not see how the stream does");
        }
        if ended {
            return;
        }
        if let Err(error) = attend() {
            tracing::warn!(%error, "requests of other processes were not served; this is tried again");
        }
        before = (seen, Instant::now());
        ended = ends.recv_timeout(ATTENTION_INTERVAL) != Err(RecvTimeoutError::Timeout);
    }
}

/// The delivery of the destinations that this process has, where several nodes run the stream.
struct Dealt<'a> {
    sources: &'a [AnyRunningSource],
    ledger: &'a Ledger,
    begun: &'a Begun,
    control: &'a Control,
}

impl Delivery for Dealt<'_> {
    fn is_idle(&self, is_one: &dyn Fn(&[u8]) -> bool) -> bool {
        let is_idle = |source: &AnyRunningSource| match source {
            AnyRunningSource::Log(log) => log.is_idle(is_one),
            _ => true,
        };
        self.sources.iter().all(is_idle)
    }

    fn forget(&self, is_one: &dyn Fn(&[u8]) -> bool) {
        self.ledger.reread(is_one);
        self.begun.lock().retain(|name| !is_one(name));
    }

    fn retry(&self, failed: Vec<Name>) {
        failed.into_iter().for_each(|name| self.control.retry(name));
    }
}

impl AnyRunningSource {
    fn set_check(&self, check: &PlacesCheck) {
        if let AnyRunningSource::Directory(directory) = self {
            directory.set_check(check.clone());
        }
    }

    /// Completes the remaining work of the sources once pulling has ended.
    fn finish_all(&self) -> Result<()> {
        match self {
            AnyRunningSource::Log(log) => log.trim(true),
            AnyRunningSource::Directory(directory) => directory.finish_removal(),
            AnyRunningSource::Other(_) => Ok(()),
        }
    }
}

impl Source for AnyRunningSource {
    type Move = Entry;
    type Error = Error;

    fn pull(&self, budget: usize) -> Result<Pulled<Entry>> {
        match self {
            AnyRunningSource::Log(log) => log.pull(budget),
            AnyRunningSource::Directory(directory) => directory.pull(budget),
            AnyRunningSource::Other(other) => other.pull(budget),
        }
    }

    fn wait(&self, limit: Duration) {
        match self {
            AnyRunningSource::Log(log) => log.wait(limit),
            AnyRunningSource::Directory(directory) => directory.wait(limit),
            AnyRunningSource::Other(other) => other.wait(limit),
        }
    }

    fn finish(&self, moves: Vec<Entry>) -> Result<()> {
        match self {
            AnyRunningSource::Log(log) => log.finish(moves),
            AnyRunningSource::Directory(directory) => directory.finish(moves),
            AnyRunningSource::Other(other) => other.finish(moves),
        }
    }

    fn again(&self, destination: &DestinationOf<Entry>) -> Result<()> {
        match self {
            AnyRunningSource::Log(log) => log.again(destination),
            AnyRunningSource::Directory(directory) => directory.again(destination),
            AnyRunningSource::Other(other) => other.again(destination),
        }
    }
}
