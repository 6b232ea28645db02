//! Flushing: streams that run, and how they do.

mod glance;
mod places;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use terrace::config::{Bytes, Time};
use terrace::{Ack, Store};
use terrace_stream::{Control, Frames, Settings, Stream, Submitted};

use crate::output::{Show, count};
pub use glance::{Shown, glance, streams};
use places::{From, To};

/// Bytes of stdin that are read at once.
const BUFFER: usize = 1 << 20;

#[derive(Args)]
pub struct Flush {
    /// What to pull from: - for framed requests on stdin, a directory, or redis://HOST:PORT/DB?stream=KEY. Several are pulled at once.
    pub sources: Vec<OsString>,
    /// Where to: a directory, key:PREFIX for the store itself, or SERVICE://BUCKET/PATH.
    #[arg(long, value_name = "DEST")]
    pub to: Option<OsString>,
    /// An option of the service, such as region=eu-1. May be given again.
    #[arg(long = "option", value_name = "NAME=VALUE")]
    pub options: Vec<String>,
    /// The stream's name: it goes on where one of this name ended.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub stream: String,
    /// End when nothing is left to pull. Requests of stdin end with it.
    #[arg(long)]
    pub once: bool,
    /// Write so many bytes at once, at most.
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<Bytes>,
    /// Let no request wait for longer before it is written, even where all workers are busy.
    #[arg(long, value_name = "TIME")]
    pub max_age: Option<Time>,
    /// Write to so many files, objects or keys at once.
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Hold so many bytes in memory, at most.
    #[arg(long, value_name = "BYTES")]
    pub memory: Option<Bytes>,
    /// Park what has failed for so long.
    #[arg(long, value_name = "TIME")]
    pub patience: Option<Time>,
    /// Take requests of stdin only when they survive a loss of power.
    #[arg(long)]
    pub durable: bool,
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
    if asked.sources.is_empty() {
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
        return Ok(streams.iter().all(|stream| stream.parked.is_empty()));
    }
    let to = asked.to.as_ref().context("say where to with --to: a directory, key:PREFIX or SERVICE://BUCKET/PATH")?;
    let to = To::parse(to)?.open(store, &asked.options)?;
    let sources = asked.sources.iter().map(|source| From::parse(source)).collect::<Result<Vec<From>>>()?;
    let ack = if asked.durable { Ack::Durable } else { Ack::Placed };
    let stream = Stream::open(store, &asked.stream, ack)?;
    let control = Arc::new(Control::default());
    let mut running = stream.run(to, &control)?;
    let stdin = sources.iter().any(|source| matches!(source, From::Stdin));
    for source in &sources {
        running = source.add(running, store, &asked.stream, &control)?;
    }
    let only_stdin = stdin && sources.len() == 1;
    std::thread::scope(|scope| {
        let reading = stdin.then(|| {
            let (stream, control) = (&stream, &control);
            scope.spawn(move || {
                let read = accept(stream);
                if only_stdin || asked.once {
                    // What was accepted arrives, whatever came then.
                    control.drain();
                }
                read
            })
        });
        if asked.once && !stdin {
            control.drain();
        }
        let progress = show.spinner();
        let ended = scope.spawn({
            let (control, progress) = (&control, progress.clone());
            move || glance::tick(control, &progress)
        });
        let ran = running.go(&asked.settings());
        control.stop();
        drop(ended.join());
        progress.finish_and_clear();
        ran?;
        match reading.map(|reading| reading.join()) {
            Some(Ok(read)) => read,
            _ => Ok(()),
        }
    })?;
    let shown = streams(store)?.into_iter().find(|shown| shown.name == asked.stream);
    let parked = shown.as_ref().map_or(0, |shown| shown.parked.len());
    let done = control.figures.moves.load(std::sync::atomic::Ordering::Relaxed);
    let mut words = format!("{} done", count(done, "request"));
    if parked > 0 {
        words += &format!("; {} parked: `terrace flush` says why", count(parked as u64, "destination"));
    }
    show.result(&json!({ "requests": done, "parked": parked }), &words)?;
    Ok(parked == 0)
}

/// Takes the requests of stdin into the stream's log. What comes meanwhile is taken together.
fn accept(stream: &Stream) -> Result<()> {
    let mut submitted: VecDeque<Submitted> = VecDeque::new();
    let mut read = Ok(());
    for frame in Frames::new(io::BufReader::with_capacity(BUFFER, io::stdin())) {
        match frame {
            Ok(frame) => submitted.push_back(stream.submit(vec![frame])),
            // What came before it arrives.
            Err(bad) => read = Err(bad),
        }
        while let Some(first) = submitted.pop_front_if(|first| first.is_done()) {
            first.wait()?;
        }
    }
    submitted.into_iter().try_for_each(|one| one.wait().map(drop))?;
    Ok(read?)
}

/// How long files of a directory that nobody is seen to close are left alone.
const SETTLED: Duration = Duration::from_secs(1);
