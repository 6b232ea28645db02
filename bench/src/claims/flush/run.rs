//! One run: producers send, a flusher writes, and every request is checked at its destination.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use bytes::Bytes;
use terrace::{Ack, Config, Store};
use terrace_stream::{Control, Request, Settings, Stream, Submitted};

use super::archive::{Archive, TARGET_COUNT, file, name};
use super::batch::{Batch, Push};

pub const PRODUCER_COUNT: u64 = 4;

/// The flusher that is measured.
#[derive(Clone, Copy)]
pub enum Who {
    Terrace,
    Batch(usize, Duration, Push),
}

/// The behaviour of a producer that had to wait.
#[derive(Clone, Copy, PartialEq)]
pub enum Producers {
    /// It sends at once everything that it would have sent meanwhile, like an instrument or a program with a buffer.
    CatchUp,
    /// It goes on at its rate, like a program that stands still while it waits.
    StandStill,
}

/// The load of a run.
#[derive(Clone, Copy)]
pub struct Load {
    /// The size of a request in bytes.
    pub size: usize,
    pub requests: u64,
    /// The rate of all producers together in bytes per second, if they need not wait.
    pub rate: f64,
    pub producers: Producers,
}

/// The result of one run.
pub struct Ran {
    /// The time from accept to durable of each request, in seconds.
    pub latencies: Vec<f64>,
    /// The bytes per second from the first request sent to the last one durable.
    pub bandwidth: f64,
    /// The largest number of bytes that were accepted and not durable.
    pub buffered: u64,
    /// The number of requests that are missing, duplicated, or before an earlier one of their producer.
    pub misplaced: u64,
}

/// The producer of a request, and the time at which the request was accepted.
type Accepted = (u64, Instant);

/// One producer's connection to the flusher.
trait Way {
    /// Sends a request. It may return before the request is accepted.
    fn send(&mut self, id: u64, bytes: Bytes) -> Result<()>;

    /// Waits until all requests are accepted.
    fn end(self) -> Result<()>;
}

struct ToBatch<'a>(&'a Batch<'a>);

impl Way for ToBatch<'_> {
    fn send(&mut self, id: u64, bytes: Bytes) -> Result<()> {
        self.0.accept(id, bytes);
        Ok(())
    }

    fn end(self) -> Result<()> {
        Ok(())
    }
}

struct ToStream<'a>(&'a Stream, VecDeque<Submitted>);

impl Way for ToStream<'_> {
    fn send(&mut self, id: u64, bytes: Bytes) -> Result<()> {
        self.1.push_back(self.0.submit(vec![Request::append(file(id), bytes).into()]));
        while self.1.front().is_some_and(Submitted::is_done) {
            self.1.pop_front().map(Submitted::wait).transpose()?;
        }
        Ok(())
    }

    fn end(self) -> Result<()> {
        Ok(self.1.into_iter().try_for_each(|one| one.wait().map(drop))?)
    }
}

/// Sends all requests of one producer.
fn produce(load: &Load, producer: u64, begun: Instant, mut way: impl Way) -> Result<Vec<(u64, Accepted)>> {
    let body = vec![7; load.size - 8];
    let mut stood = Duration::ZERO;
    let mut accepted = Vec::new();
    for id in (producer..load.requests).step_by(PRODUCER_COUNT as usize) {
        let due = begun + stood + Duration::from_secs_f64(id as f64 * load.size as f64 / load.rate);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let bytes = [id.to_le_bytes().as_slice(), &body].concat();
        let before = Instant::now();
        way.send(id, bytes.into())?;
        let now = Instant::now();
        if load.producers == Producers::StandStill {
            stood += now - before;
        }
        accepted.push((id, (producer, now)));
    }
    way.end()?;
    Ok(accepted)
}

/// Runs all producers. Returns the time at which each request was accepted.
fn produce_all<W: Way>(load: &Load, way: impl Fn() -> W + Sync) -> Result<Vec<Accepted>> {
    let (begun, way) = (Instant::now(), &way);
    let mut all = thread::scope(|scope| {
        let one = |producer| scope.spawn(move || produce(load, producer, begun, way()));
        let producers: Vec<_> = (0..PRODUCER_COUNT).map(one).collect();
        let mut all = Vec::new();
        for producer in producers {
            all.extend(producer.join().map_err(|_| anyhow!("a producer panicked"))??);
        }
        anyhow::Ok(all)
    })?;
    all.sort_unstable_by_key(|(id, _)| *id);
    Ok(all.into_iter().map(|(_, accepted)| accepted).collect())
}

fn by_batches(archive: &Archive, load: &Load, most: usize, age: Duration, push: Push) -> Result<Vec<Accepted>> {
    let batch = Batch::new(archive, most, age, push);
    thread::scope(|scope| {
        let running = scope.spawn(|| batch.run());
        let accepted = produce_all(load, || ToBatch(&batch));
        batch.end();
        running.join().map_err(|_| anyhow!("the flusher panicked"))??;
        accepted
    })
}

fn by_stream(archive: &Arc<Archive>, load: &Load, folder: &Path) -> Result<Vec<Accepted>> {
    let nvme = folder.join("nvme");
    let text = format!("[[tier]]\nname = 'nvme'\nkind = 'directory'\ntargets = ['{}']\n", nvme.display());
    let store = Store::init(&folder.join("store"), &Config::parse(&text, "bench")?)?;
    let stream = Stream::open(&store, "bench", Ack::Placed)?;
    let control = Arc::new(Control::default());
    let running = stream.run(archive.clone(), &control)?.with_log();
    thread::scope(|scope| {
        let running = scope.spawn(|| running.go(&Settings { workers: TARGET_COUNT, ..Settings::default() }));
        let accepted = produce_all(load, || ToStream(&stream, VecDeque::new()));
        control.drain();
        running.join().map_err(|_| anyhow!("the stream panicked"))??;
        accepted
    })
}

/// The number of the next run: each run has a folder of its own.
static NEXT_RUN_NUMBER: AtomicU64 = AtomicU64::new(0);

pub fn measure(place: &Path, who: Who, load: Load) -> Result<Ran> {
    let folder = place.join(format!("flush-{}", NEXT_RUN_NUMBER.fetch_add(1, Ordering::Relaxed)));
    let root = folder.join("archive");
    let archive = Arc::new(Archive::new(&root, load.size, load.requests)?);
    let begun = Instant::now();
    let accepted = match who {
        Who::Batch(most, age, push) => by_batches(&archive, &load, most, age, push)?,
        Who::Terrace => by_stream(&archive, &load, &folder)?,
    };
    let durable = archive.durable();
    if durable.len() != accepted.len() {
        return Err(anyhow!("{} of {} requests arrived", durable.len(), accepted.len()));
    }
    let misplaced = misplaced(&root, &load)?;
    std::fs::remove_dir_all(&folder)?;
    let last = durable.iter().max().copied().unwrap_or(begun);
    let latency =
        |((_, accepted), durable): (&Accepted, &Instant)| durable.saturating_duration_since(*accepted).as_secs_f64();
    Ok(Ran {
        latencies: accepted.iter().zip(&durable).map(latency).collect(),
        bandwidth: load.requests as f64 * load.size as f64 / last.duration_since(begun).as_secs_f64(),
        buffered: most_at_once(&accepted, &durable) * load.size as u64,
        misplaced,
    })
}

/// Returns the largest number of requests that were accepted and not durable.
fn most_at_once(accepted: &[Accepted], durable: &[Instant]) -> u64 {
    let came = accepted.iter().map(|(_, at)| (*at, 1));
    let mut steps: Vec<(Instant, i64)> = came.chain(durable.iter().map(|at| (*at, -1))).collect();
    steps.sort_unstable();
    let held = steps.iter().scan(0, |held, (_, step)| {
        *held += step;
        Some(*held)
    });
    held.max().unwrap_or(0).max(0) as u64
}

/// Counts misplaced requests at the destination.
fn misplaced(root: &Path, load: &Load) -> Result<u64> {
    let (mut misplaced, mut found) = (0, 0);
    for target in 0..TARGET_COUNT {
        let archived = File::open(root.join(name(target)))?;
        let length = archived.metadata()?.len();
        let mut last: HashMap<u64, u64> = HashMap::new();
        for at in (0..length).step_by(load.size) {
            let mut id = [0; 8];
            archived.read_exact_at(&mut id, at)?;
            let id = u64::from_le_bytes(id);
            let before = last.insert(id % PRODUCER_COUNT, id);
            let right = file(id) == name(target) && before.is_none_or(|before| before < id);
            misplaced += u64::from(!right);
            found += 1;
        }
    }
    Ok(misplaced + load.requests.abs_diff(found))
}
