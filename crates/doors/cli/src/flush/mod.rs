//! `terrace flush`: runs streams and shows their progress.

mod glance;
mod parked;
mod places;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use terrace::config::{Bytes, Time};
use terrace::{Ack, Store};
use terrace_stream::sources::Watch;
use terrace_stream::{Control, Frames, Running, Settings, Stream, Submitted};

use crate::errors::describe;
use crate::output::{Show, complain, count, note};
pub use glance::{Shown, glance, streams};
use parked::Wish;
use places::{From, To};

/// The size of a read from stdin.
const STDIN_BUFFER_BYTES: usize = 1 << 20;

#[derive(Args)]
pub struct Flush {
    /// Sources to pull: - for framed requests on standard input, a directory, or redis://HOST:PORT/DB?stream=KEY.
    /// With --retry, --drop or --forget: names of destinations.
    pub sources: Vec<OsString>,
    /// Deliver to a directory, to key:PREFIX in this store, or to SERVICE://BUCKET/PATH.
    #[arg(long, value_name = "DEST")]
    pub to: Option<OsString>,
    /// Set an option of the service, such as region=eu-1. Can be repeated.
    #[arg(long = "option", value_name = "NAME=VALUE")]
    pub options: Vec<String>,
    /// Name of the stream. A stream continues where the last run of this name ended.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub stream: String,
    /// Stop when nothing is left to deliver.
    #[arg(long)]
    pub once: bool,
    /// Write at most this many bytes at once, such as 8MiB [default: 8MiB].
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<Bytes>,
    /// Write each request after at most this time, such as 200ms, even if all workers are busy [default: 250ms].
    #[arg(long, value_name = "TIME")]
    pub max_age: Option<Time>,
    /// Write to at most this many destinations at once [default: 4].
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Hold at most this many bytes in memory, such as 64MiB [default: 64MiB].
    #[arg(long, value_name = "BYTES")]
    pub memory: Option<Bytes>,
    /// Deliver a file only after it has not changed for this long [default: 1s, or at once when it was closed].
    #[arg(long, value_name = "TIME", conflicts_with = "tail")]
    pub settle: Option<Time>,
    /// Follow growing files: deliver what is appended, and remove no file.
    #[arg(long)]
    pub tail: bool,
    /// Park a destination that has failed for this long, and give up a source that was unreachable for this long, such as 10min
    /// [default: 60s].
    #[arg(long, value_name = "TIME")]
    pub patience: Option<Time>,
    /// Acknowledge requests from standard input only once they survive a power cut.
    #[arg(long)]
    pub durable: bool,
    /// Retry parked destinations: at once if the stream is running, otherwise in its next run.
    #[arg(long, group = "wish", conflicts_with = "to")]
    pub retry: bool,
    /// Delete the pending requests of these destinations from the stream's log.
    #[arg(long, group = "wish", conflicts_with = "to")]
    pub drop: bool,
    /// Forget how far these destinations are: the next append goes to the present end of the file.
    #[arg(long, group = "wish", conflicts_with = "to")]
    pub forget: bool,
    /// With --retry, --drop or --forget: apply it to all parked destinations.
    #[arg(long, requires = "wish", conflicts_with = "sources")]
    pub all: bool,
}

impl Flush {
    fn settings(&self) -> Settings {
        let usual = Settings::default();
        let bytes = |asked: Option<Bytes>, usual| asked.map_or(usual, |bytes| bytes.0 as usize);
        Settings {
            max_bytes: bytes(self.max_bytes, usual.max_bytes),
            memory: bytes(self.memory, usual.memory),
            max_age: self.max_age.map_or(usual.max_age, |time| time.0),
            patience: self.patience.map_or(usual.patience, |time| time.0),
            workers: self.workers.unwrap_or(usual.workers),
            ..usual
        }
    }
}

pub fn flush(store: &Store, asked: &Flush, show: Show) -> Result<bool> {
    if let Some(wish) = Wish::of(asked) {
        return parked::carry_out(store, asked, wish, show);
    }
    if asked.sources.is_empty() {
        return show_streams(store, asked, show);
    }
    let (run, running) = Run::open(store, asked)?;
    let is_read = run.deliver(running, show)?;
    Ok(run.report(show)? && is_read)
}

fn show_streams(store: &Store, asked: &Flush, show: Show) -> Result<bool> {
    if asked.to.is_some() {
        bail!("--to says where to flush; say what, too: -, a directory or redis://...");
    }
    let streams = streams(store)?;
    let words = if streams.is_empty() {
        "no stream flows here, and nothing waits to be flushed".into()
    } else {
        glance(&streams)
    };
    show.result(&streams, words.trim_start())?;
    Ok(streams.iter().all(Shown::is_well))
}

/// One run of a stream.
struct Run<'a> {
    store: &'a Store,
    asked: &'a Flush,
    stream: Stream,
    control: Arc<Control>,
    reads_stdin: bool,
    /// The number of sources that are directories.
    directories: usize,
}

impl Run<'_> {
    /// Opens the destination and the stream, and adds the sources to it.
    fn open<'a>(store: &'a Store, asked: &'a Flush) -> Result<(Run<'a>, Running)> {
        let to =
            asked.to.as_ref().context("say where to with --to: a directory, key:PREFIX or SERVICE://BUCKET/PATH")?;
        let to = To::parse(to)?;
        let sources = asked.sources.iter().map(|source| From::parse(source)).collect::<Result<Vec<From>>>()?;
        let directories: Vec<_> = sources.iter().filter_map(From::directory).collect();
        terrace_stream::check_directories(store, &directories, to.directory())?;
        let to = to.open(store, &asked.options)?;
        let ack = if asked.durable { Ack::Durable } else { Ack::Placed };
        let stream = Stream::open(store, &asked.stream, ack)?;
        let control = Arc::new(Control::default());
        let is_stdin = |source: &From| matches!(source, From::Stdin);
        let mut running = if sources.iter().all(is_stdin) {
            // Several nodes may deliver what is in the log.
            let place = to.root().map_or_else(|| asked.to.clone().unwrap_or_default(), |root| root.into());
            stream.run_beside_others(to, place.to_string_lossy().into_owned(), &control)?
        } else {
            stream.run(to, &control)?
        };
        let patience = asked.settings().patience;
        let watch = Watch { settle: asked.settle.map(|time| time.0), tail: asked.tail, patience };
        if (asked.tail || asked.settle.is_some()) && directories.is_empty() {
            bail!("--tail and --settle are for directories");
        }
        for source in &sources {
            running = source.add(running, &watch, &control)?;
        }
        let (reads_stdin, directories) = (sources.iter().any(is_stdin), directories.len());
        Ok((Run { store, asked, stream, control, reads_stdin, directories }, running))
    }

    /// Delivers until the run ends. Returns false if standard input could not be read, and this was already reported.
    fn deliver(&self, running: Running, show: Show) -> Result<bool> {
        let control = &self.control;
        std::thread::scope(|scope| {
            let reading = self.reads_stdin.then(|| scope.spawn(|| self.read_stdin()));
            if self.asked.once && !self.reads_stdin {
                control.drain();
            }
            let progress = show.spinner();
            let ended = scope.spawn({
                let progress = progress.clone();
                move || glance::tick(control, &progress)
            });
            let ran = running.go(&self.asked.settings());
            control.stop();
            drop(ended.join());
            progress.finish_and_clear();
            ran?;
            match reading.map(|reading| reading.join()) {
                Some(Ok(read)) => read,
                _ => Ok(true),
            }
        })
    }

    /// Accepts the requests of standard input. Returns false if this failed while other sources continue.
    fn read_stdin(&self) -> Result<bool> {
        let ends_with_stdin = self.asked.sources.len() == 1 || self.asked.once;
        let mut read = accept(&self.stream).map(|()| true);
        if let Some(e) = read.as_ref().err().filter(|_| !ends_with_stdin) {
            // The other sources continue, so report this failure now, and do not repeat it at the end.
            complain(&describe(e));
            read = Ok(false);
        }
        if ends_with_stdin {
            // Deliver the accepted requests, whatever error followed them.
            self.control.drain();
        }
        read
    }

    /// Prints the results. Returns whether everything was delivered.
    fn report(&self, show: Show) -> Result<bool> {
        let control = &self.control;
        let all_parked = self.stream.ledger().all()?.iter().filter(|(_, mark)| mark.parked.is_some()).count();
        // Other nodes deliver a part of what this run has accepted, so what they have parked counts, too.
        let parked = if self.store.is_shared() { all_parked } else { control.parked() };
        let (requests, files, left) = (control.requests_done(), control.files_done(), control.left());
        let only_requests = self.asked.tail || self.directories == 0;
        let done = match (only_requests, self.directories == self.asked.sources.len()) {
            (true, _) => count(requests, "request"),
            (false, true) => count(files, "file"),
            (false, false) => format!("{} and {}", count(requests, "request"), count(files, "file")),
        };
        let mut words = format!("{done} done");
        if parked > 0 {
            words += &format!("; {} parked", count(parked as u64, "destination"));
        }
        if left.files > 0 {
            words += &format!("; {} left", count(left.files, "file"));
        }
        let is_delivered = parked == 0 && left.files == 0 && left.stays.is_empty();
        if !is_delivered {
            words += ": `terrace flush` says why";
        }
        let value = json!({ "requests": requests, "files": files, "parked": parked, "left": left.files });
        show.result(&value, &words)?;
        if all_parked > parked {
            let earlier = count((all_parked - parked) as u64, "destination");
            note(&format!("{earlier} parked by earlier runs: `terrace flush` says which and why"));
        }
        Ok(is_delivered)
    }
}

/// Appends the requests of stdin to the stream's log. Requests that arrive during an append are appended together.
fn accept(stream: &Stream) -> Result<()> {
    let mut submitted: VecDeque<Submitted> = VecDeque::new();
    let mut read = Ok(());
    for frame in Frames::new(io::BufReader::with_capacity(STDIN_BUFFER_BYTES, io::stdin())) {
        match frame {
            Ok(frame) => submitted.push_back(stream.submit(vec![frame])),
            // After a malformed frame the rest of the input is unusable: it is not framed, or only looks so by chance.
            Err(bad) => read = Err(bad),
        }
        while let Some(first) = submitted.pop_front_if(|first| first.is_done()) {
            read = read.and(first.wait().map(drop));
        }
        if read.is_err() {
            break;
        }
    }
    // Earlier requests are accepted even if one of the later ones is invalid.
    for one in submitted {
        read = read.and(one.wait().map(drop));
    }
    Ok(read?)
}
