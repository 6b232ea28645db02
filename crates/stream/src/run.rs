//! A stream that runs: its sources, one destination of bytes, and the pipeline between them.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;
use terrace::Locked;
use terrace_flush::{DestinationOf, Ended, Figures, Pulled, Settings, Source};

use crate::control::Control;
use crate::deliver::Deliver;
use crate::destinations::Destination;
use crate::entry::Entry;
use crate::ledger::Ledger;
use crate::log::{LogSource, SOURCE};
use crate::seen::Seen;
use crate::stream::Stream;
use crate::{Error, Result};

/// How often figures are left for others.
const TOLD: Duration = Duration::from_secs(1);

/// What a stream pulls besides its log.
pub type AnySource = Box<dyn Source<Move = Entry, Error = Error> + Send>;

/// A stream that this process, and no other, runs.
pub struct Running {
    stream: Stream,
    ledger: Arc<Ledger>,
    control: Arc<Control>,
    destination: Arc<dyn Destination>,
    names: Vec<String>,
    sources: Vec<Which>,
    _lock: Locked,
}

enum Which {
    Log(Box<LogSource>),
    Other(AnySource),
}

impl Running {
    pub(crate) fn new(stream: &Stream, to: Arc<dyn Destination>, control: &Arc<Control>, lock: Locked) -> Running {
        Running {
            stream: stream.clone(),
            ledger: Arc::new(stream.ledger()),
            control: control.clone(),
            destination: to,
            names: Vec::new(),
            sources: Vec::new(),
            _lock: lock,
        }
    }

    /// Pulls the stream's log, too.
    pub fn with_log(mut self) -> Running {
        let (log, ledger, control) = (self.stream.log.clone(), self.ledger.clone(), self.control.clone());
        let source = LogSource::new(log, ledger, control, self.sources.len());
        self.sources.push(Which::Log(Box::new(source)));
        self.names.push(SOURCE.into());
        self
    }

    /// Pulls another source, too, under a name that is its own: `make` is given its number and how far destinations have got.
    pub fn with(mut self, name: &str, make: impl FnOnce(usize, Arc<Ledger>) -> Result<AnySource>) -> Result<Running> {
        self.sources.push(Which::Other(make(self.sources.len(), self.ledger.clone())?));
        self.names.push(name.into());
        Ok(self)
    }

    /// Runs until all sources have ended, or [`Control`] says so.
    ///
    /// # Errors
    /// Where the store or a source fails. What goes wrong at a destination is none: see [`Ledger::all`] for what is parked.
    pub fn go(self, settings: &Settings) -> Result<()> {
        if self.destination.appends_only() && self.sources.len() > 1 {
            return Err(Error::OneSource);
        }
        let deliver = Deliver {
            destination: self.destination,
            ledger: self.ledger,
            sources: self.names,
            begun: Mutex::default(),
        };
        let figures = &self.control.figures;
        let (ended, ends) = channel::<()>();
        let done = thread::scope(|scope| {
            let path = self.stream.seen_path();
            scope.spawn(move || tell(figures, &path, &ends));
            let done = terrace_flush::run(&self.sources, &deliver, settings, figures);
            drop(ended);
            done
        });
        let done = done.map_err(|ended| match ended {
            Ended::Failed(error) => error,
            Ended::NoThread(cause) => Error::io("starting a thread")(cause),
        });
        let trim = |source: &Which| match source {
            Which::Log(log) => log.trim(true),
            Which::Other(_) => Ok(()),
        };
        done.and(self.sources.iter().try_for_each(trim))
    }
}

/// Leaves the figures where others look, once a second and at the end.
fn tell(figures: &Figures, path: &Path, ends: &Receiver<()>) {
    let mut before = (Seen::default(), Instant::now());
    let mut ended = false;
    loop {
        let seen = Seen::of(figures, &before);
        if let Err(error) = seen.save(path) {
            tracing::warn!(%error, "others do not see how the stream does");
        }
        if ended {
            return;
        }
        before = (seen, Instant::now());
        ended = ends.recv_timeout(TOLD) != Err(RecvTimeoutError::Timeout);
    }
}

impl Source for Which {
    type Move = Entry;
    type Error = Error;

    fn pull(&self, budget: usize) -> Result<Pulled<Entry>> {
        match self {
            Which::Log(log) => log.pull(budget),
            Which::Other(other) => other.pull(budget),
        }
    }

    fn wait(&self, limit: Duration) {
        match self {
            Which::Log(log) => log.wait(limit),
            Which::Other(other) => other.wait(limit),
        }
    }

    fn finish(&self, moves: Vec<Entry>) -> Result<()> {
        match self {
            Which::Log(log) => log.finish(moves),
            Which::Other(other) => other.finish(moves),
        }
    }

    fn again(&self, destination: &DestinationOf<Entry>) -> Result<()> {
        match self {
            Which::Log(log) => log.again(destination),
            Which::Other(other) => other.again(destination),
        }
    }
}
