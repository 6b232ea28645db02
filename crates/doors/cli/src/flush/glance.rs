//! The status of streams.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::ProgressBar;
use serde::Serialize;
use terrace::{Ack, Store};
use terrace_stream::{Control, Done, Seen, Stream};

use crate::output::{count, size, table};

/// The status of one stream.
#[derive(Serialize)]
pub struct Shown {
    pub name: String,
    /// Whether a process runs it.
    pub running: bool,
    /// The requests in its log, counting pages that are not completely done.
    pub backlog: u64,
    pub backlog_bytes: u64,
    /// The age of the oldest of these, in seconds.
    pub oldest: Option<f64>,
    /// The deliveries of all runs.
    pub done: Done,
    /// The figures of the process that runs it, or last ran it.
    pub seen: Option<Seen>,
    pub parked: Vec<Parked>,
}

/// A parked destination.
#[derive(Serialize)]
pub struct Parked {
    pub destination: String,
    pub reason: String,
}

impl Shown {
    /// Whether no destination or file waits for a user's action.
    pub fn is_well(&self) -> bool {
        self.parked.is_empty() && self.seen.as_ref().is_none_or(|seen| seen.stays.is_empty())
    }
}

/// Returns the status of all streams of a store.
pub fn streams(store: &Store) -> Result<Vec<Shown>> {
    let show = |name: String| {
        let stream = Stream::open(store, &name, Ack::Placed)?;
        let backlog = stream.backlog()?;
        let marks = stream.ledger().all()?.into_iter();
        let parked = marks.filter_map(|(destination, mark)| {
            Some(Parked { destination: String::from_utf8_lossy(&destination).into(), reason: mark.parked? })
        });
        Ok(Shown {
            running: stream.is_running()?,
            backlog: backlog.requests,
            backlog_bytes: backlog.bytes,
            oldest: backlog.age.map(|age| age.as_secs_f64()),
            done: stream.done()?,
            seen: stream.seen(),
            parked: parked.collect(),
            name,
        })
    };
    Stream::list(store)?.into_iter().map(show).collect()
}

/// Formats the status for people; empty without streams.
pub fn glance(streams: &[Shown]) -> String {
    if streams.is_empty() {
        return String::new();
    }
    let heads =
        ["stream", "state", "rate", "done", "backlog", "oldest", "by size/age/idle/memory", "retries", "parked"];
    let mut rows = table(&heads);
    for stream in streams {
        let seen = stream.seen.clone().unwrap_or_default();
        let rate = format!("{}/s, {}/s", seen.requests_per_second.round(), size(seen.bytes_per_second as u64));
        rows.add_row([
            stream.name.clone(),
            if stream.running { "running".into() } else { "at rest".into() },
            if stream.running { rate } else { "-".into() },
            amount(stream.done.requests, stream.done.files, stream.done.bytes),
            amount(stream.backlog, seen.files_left, stream.backlog_bytes + seen.bytes_left),
            stream.oldest.map_or("-".into(), |age| format!("{age:.1} s")),
            format!("{}/{}/{}/{}", seen.by_size, seen.by_age, seen.by_idle, seen.by_memory),
            seen.failed.to_string(),
            stream.parked.len().to_string(),
        ]);
    }
    let mut text = format!("\n{rows}");
    for stream in streams {
        for Parked { destination, reason } in &stream.parked {
            text += &format!("\nparked in {}: {destination}: {reason}", stream.name);
        }
    }
    if streams.iter().any(|stream| !stream.parked.is_empty()) {
        text += "\n`terrace flush --stream STREAM --retry NAME` tries one again, `--drop NAME` gives it up";
    }
    for (path, reason) in streams.iter().flat_map(|stream| stream.seen.iter().flat_map(|seen| &seen.stays)) {
        text += &format!("\nleft: {path}: {reason}");
    }
    text
}

fn amount(requests: u64, files: u64, bytes: u64) -> String {
    let what = match (requests, files) {
        (requests, 0) => requests.to_string(),
        (0, files) => count(files, "file"),
        (requests, files) => format!("{requests} + {}", count(files, "file")),
    };
    format!("{what} ({})", size(bytes))
}

/// Updates a progress display on a terminal until the stream is stopped.
pub fn tick(control: &Control, progress: &ProgressBar) {
    let begun = Instant::now();
    while !control.stopped() {
        let figures = &control.figures;
        let (moves, bytes) = (figures.moves.load(Relaxed), figures.bytes.load(Relaxed));
        let rate = bytes as f64 / begun.elapsed().as_secs_f64().max(0.1);
        let done = count(moves, "request");
        progress.set_message(format!(
            "{done} done, {}/s, {} writing",
            size(rate as u64),
            figures.workers.load(Relaxed)
        ));
        std::thread::sleep(Duration::from_millis(100));
    }
}
