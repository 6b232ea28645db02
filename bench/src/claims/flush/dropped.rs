//! Files dropped into a directory, compared with a common way to flush them: rsync in a loop. A file is safe when it is
//! removed from the directory that it was dropped into; both sides sync it before that. Fluent Bit is left out because
//! no package repository of Debian has it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use terrace::{Ack, Config, Store};
use terrace_stream::destinations::Files;
use terrace_stream::sources::Watch;
use terrace_stream::{Control, Settings, Stream};

use super::{mean, words};
use crate::place::Place;
use crate::row::{Better, Row};
use crate::timing::Times;

const FILE_COUNT: usize = 400;
const FILE_BYTES: usize = 256 << 10;
/// The time between two files in the runs that measure latency.
const FILE_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, PartialEq)]
enum Who {
    Terrace,
    Rsync,
}

fn by_stream(home: &Path, from: &Path, to: &Path, over: &AtomicBool) -> Result<()> {
    let text = format!("[[tier]]\nname = 'a'\nkind = 'directory'\ntargets = ['{}']\n", home.join("a").display());
    let store = Store::init(&home.join("store"), &Config::parse(&text, "bench")?)?;
    let stream = Stream::open(&store, "dropped", Ack::Placed)?;
    let control = Arc::new(Control::default());
    let running = stream.run(Arc::new(Files::new(to)?), &control)?.with_directory(from, &Watch::default())?;
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(5));
            }
            control.stop();
        });
        Ok(running.go(&Settings::default())?)
    })
}

fn by_rsync(from: &Path, to: &Path, over: &AtomicBool) -> Result<()> {
    let mut rsync = Command::new("rsync");
    rsync.args(["-a", "--fsync", "--remove-source-files", "--exclude=.*"]);
    rsync.arg(format!("{}/", from.display())).arg(format!("{}/", to.display())).stderr(Stdio::null());
    while !over.load(Ordering::Acquire) {
        ensure!(rsync.status()?.success(), "rsync failed");
    }
    Ok(())
}

/// Drops files. Returns how long each file lay there, and how long all of them took.
fn measure(place: &Place, who: Who, pace: Duration) -> Result<(Vec<f64>, f64)> {
    let name = format!("{}-{}", if who == Who::Rsync { "rsync" } else { "stream" }, pace.as_millis());
    let (home, to) = (place.disk().join(&name), place.disk().join(&name).join("archive"));
    let from = place.ram().join(&name);
    fs::create_dir_all(&from)?;
    fs::create_dir_all(&to)?;
    let (over, bytes) = (AtomicBool::new(false), vec![7; FILE_BYTES]);
    let (from, bytes) = (&from, &bytes);
    thread::scope(|scope| {
        let flusher = scope.spawn(|| match who {
            Who::Terrace => by_stream(&home, from, &to, &over),
            Who::Rsync => by_rsync(from, &to, &over),
        });
        // Waits until the flusher watches the directory.
        thread::sleep(Duration::from_millis(200));
        let begun = Instant::now();
        let dropping = scope.spawn(move || -> Result<Vec<Instant>> {
            let one = |number: usize| {
                thread::sleep((begun + pace * number as u32).saturating_duration_since(Instant::now()));
                fs::write(from.join(".new"), bytes)?;
                let now = Instant::now();
                fs::rename(from.join(".new"), from.join(number.to_string()))?;
                Ok(now)
            };
            (0..FILE_COUNT).map(one).collect()
        });
        let mut gone: Vec<Option<Instant>> = vec![None; FILE_COUNT];
        while gone.iter().any(Option::is_none) {
            if flusher.is_finished() {
                flusher.join().map_err(|_| anyhow!("the flusher panicked"))??;
                return Err(anyhow!("the flusher ended"));
            }
            for (number, gone) in gone.iter_mut().enumerate().filter(|(_, gone)| gone.is_none()) {
                let arrived = !from.join(number.to_string()).exists() && to.join(number.to_string()).exists();
                *gone = arrived.then(Instant::now);
            }
            thread::sleep(Duration::from_millis(1));
        }
        over.store(true, Ordering::Release);
        flusher.join().map_err(|_| anyhow!("the flusher panicked"))??;
        let dropped = dropping.join().map_err(|_| anyhow!("the producer panicked"))??;
        let lay = |(gone, dropped): (&Option<Instant>, &Instant)| {
            gone.map(|gone| gone.duration_since(*dropped).as_secs_f64())
        };
        let latencies = gone.iter().zip(&dropped).filter_map(lay).collect();
        Ok((latencies, gone.iter().flatten().max().map_or(0.0, |last| last.duration_since(begun).as_secs_f64())))
    })
}

/// Measures latency with files that come one by one, and bandwidth with files that come all at once.
pub fn run() -> Result<Vec<Row>> {
    if Command::new("rsync").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: there is no rsync here");
        return Ok(Vec::new());
    }
    let place = Place::new()?;
    let conditions = format!(
        "{FILE_COUNT} files of {} KB, from tmpfs to the disk, each synced before it is removed",
        FILE_BYTES >> 10
    );
    let (ours, _) = measure(&place, Who::Terrace, FILE_INTERVAL)?;
    let (theirs, _) = measure(&place, Who::Rsync, FILE_INTERVAL)?;
    let latency = Row::new(
        "dropped",
        "from dropped to safe, mean, 100 files a second, beside rsync in a loop",
        mean(&ours) * 1e3,
        "ms",
    )
    .beside(mean(&theirs) * 1e3, Better::Lower)
    .details(format!("ours {}, rsync {}; {conditions}", words(&Times::new(ours)), words(&Times::new(theirs))));
    let (_, ours) = measure(&place, Who::Terrace, Duration::ZERO)?;
    let (_, theirs) = measure(&place, Who::Rsync, Duration::ZERO)?;
    let bandwidth = |seconds: f64| (FILE_COUNT * FILE_BYTES) as f64 / seconds / 1e6;
    let all = Row::new("dropped", "all dropped at once, beside rsync in a loop", bandwidth(ours), "MB/s")
        .beside(bandwidth(theirs), Better::Higher)
        .details(conditions);
    Ok(vec![latency, all])
}
