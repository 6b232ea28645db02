//! Claims R1 and R2 (RFlush Fig. 2): latency from accept to durable, and bandwidth, of continuous flushing against batches.
//!
//! Both write the same bytes to the same slow archive, with the same syncs, in the same run. Batches are at the paper's setting, which makes their
//! mean latency about 2 s, and at the best of a sweep.

mod archive;
mod batch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use bytes::Bytes;
use terrace::{Ack, Config, Store};
use terrace_stream::{Control, Request, Settings, Stream};

use self::archive::{Archive, BANDWIDTH, SYNC, TARGETS, WRITE, file};
use self::batch::{Batch, Push};
use crate::place::Place;
use crate::row::{Better, Row};
use crate::timing::{Times, median};

const PRODUCERS: u64 = 4;
/// The rate of the paper's setting, as a share of the archive's bandwidth.
const PACE: f64 = 0.4;
/// Bytes of a run for latency, and of one for bandwidth.
const BYTES: usize = 80_000_000;
const REPEATS: usize = 3;

/// How one run went.
struct Ran {
    latencies: Vec<f64>,
    bandwidth: f64,
    /// The most bytes in memory.
    peak: u64,
}

/// Who is measured.
#[derive(Clone, Copy)]
enum Who {
    Terrace,
    Batch(usize, Duration, Push),
}

/// Runs producers that together send at `rate` bytes per second, or as fast as they are let.
fn measure(place: &Place, number: usize, who: Who, size: usize, bytes: usize, rate: f64) -> Result<Ran> {
    let requests = (bytes / size) as u64;
    let folder = place.ram().join(format!("flush-{number}"));
    let archive = Arc::new(Archive::new(&folder.join("archive"), size, requests)?);
    let body = vec![7; size - 8];
    let begun = Instant::now();
    let produce = |accept: &(dyn Fn(u64, Bytes) -> Result<()> + Sync)| -> Result<Vec<(u64, Instant)>> {
        let next = AtomicU64::new(0);
        let produce = || {
            let mut accepted = Vec::new();
            loop {
                let id = next.fetch_add(1, Ordering::Relaxed);
                if id >= requests {
                    return anyhow::Ok(accepted);
                }
                let due = begun + Duration::from_secs_f64(id as f64 * size as f64 / rate);
                thread::sleep(due.saturating_duration_since(Instant::now()));
                let bytes = [id.to_le_bytes().as_slice(), &body].concat();
                accept(id, bytes.into())?;
                accepted.push((id, Instant::now()));
            }
        };
        thread::scope(|scope| {
            let producers: Vec<_> = (0..PRODUCERS).map(|_| scope.spawn(produce)).collect();
            let mut all = Vec::new();
            for producer in producers {
                all.extend(producer.join().map_err(|_| anyhow!("a producer panicked"))??);
            }
            all.sort_unstable();
            Ok(all)
        })
    };
    let (accepted, peak) = match who {
        Who::Batch(most, age, push) => {
            let batch = Batch::new(&archive, most, age, push);
            let accepted = thread::scope(|scope| {
                let running = scope.spawn(|| batch.run());
                let accepted = produce(&|id, bytes| {
                    batch.accept(id, bytes);
                    Ok(())
                });
                batch.end();
                running.join().map_err(|_| anyhow!("the flusher panicked"))??;
                accepted
            })?;
            (accepted, most as u64)
        }
        Who::Terrace => {
            let text = format!(
                "[[tier]]\nname = 'nvme'\nkind = 'directory'\ntargets = ['{}']\n",
                folder.join("nvme").display()
            );
            let store = Store::init(&folder.join("store"), &Config::parse(&text, "bench")?)?;
            let stream = Stream::open(&store, "bench", Ack::Placed)?;
            let control = Arc::new(Control::default());
            let running = stream.run(archive.clone(), &control)?.with_log();
            let accepted = thread::scope(|scope| {
                let running = scope.spawn(|| running.go(&Settings { workers: TARGETS, ..Settings::default() }));
                let accepted = produce(&|id, bytes| Ok(stream.append(vec![Request::append(file(id), bytes)])?));
                control.drain();
                running.join().map_err(|_| anyhow!("the stream panicked"))??;
                accepted
            })?;
            (accepted, control.figures.peak.load(Ordering::Relaxed))
        }
    };
    let durable = archive.durable();
    if durable.len() != accepted.len() {
        return Err(anyhow!("{} of {} requests arrived", durable.len(), accepted.len()));
    }
    let last = durable.iter().max().copied().unwrap_or(begun);
    let latency = |((_, accepted), durable): (&(u64, Instant), &Instant)| {
        durable.saturating_duration_since(*accepted).as_secs_f64()
    };
    let latencies = accepted.iter().zip(&durable).map(latency).collect();
    let _ = std::fs::remove_dir_all(&folder);
    Ok(Ran { latencies, bandwidth: bytes as f64 / last.duration_since(begun).as_secs_f64(), peak })
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len().max(1) as f64
}

fn conditions(size: usize) -> String {
    format!(
        "{} requests of {size} B, 4 producers, 4 workers; archive of {TARGETS} targets of {} MB/s, {} us a write, {} ms a sync; the log on tmpfs",
        BYTES / size,
        BANDWIDTH / 1e6,
        WRITE.as_micros(),
        SYNC.as_millis()
    )
}

/// Latency from accept to durable.
pub fn latency() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let rate = PACE * BANDWIDTH * TARGETS as f64;
    let mut rows = Vec::new();
    let mut number = 0;
    let mut run = |who, size| {
        number += 1;
        measure(&place, number, who, size, BYTES, rate)
    };
    for size in [1 << 10, 16 << 10, 64 << 10] {
        let ours = run(Who::Terrace, size)?;
        let paper = run(Who::Batch(1 << 30, Duration::from_millis(2600), Push::Aggregated), size)?;
        let mut best: Option<(Duration, Ran)> = None;
        for age in [20, 50, 100, 250, 1000].map(Duration::from_millis) {
            let ran = run(Who::Batch(8 << 20, age, Push::Aggregated), size)?;
            if best.as_ref().is_none_or(|(_, best)| mean(&ran.latencies) < mean(&best.latencies)) {
                best = Some((age, ran));
            }
        }
        let (times, batches) = (Times::new(ours.latencies.clone()), Times::new(paper.latencies.clone()));
        let words =
            |times: &Times| format!("p50 {:.0}, p99 {:.0} ms", times.median() * 1e3, times.quantile(0.99) * 1e3);
        rows.push(
            Row::new(
                "R1",
                format!("latency, mean, {} KB, beside batches at the paper's setting", size >> 10),
                mean(&ours.latencies) * 1e3,
                "ms",
            )
            .beside(mean(&paper.latencies) * 1e3, Better::Lower)
            .goal(mean(&paper.latencies) * 1e3 / 10.0, Better::Lower)
            .details(format!(
                "ours {}, batches {}; peak buffer {:.1} MB, batches' {:.1} MB; paper: 300 beside 2000 ms; {}",
                words(&times),
                words(&batches),
                ours.peak as f64 / 1e6,
                rate * 2.6 / 1e6,
                conditions(size)
            )),
        );
        if let Some((age, ran)) = best {
            rows.push(
                Row::new(
                    "R1",
                    format!("latency, mean, {} KB, beside the best batches of a sweep", size >> 10),
                    mean(&ours.latencies) * 1e3,
                    "ms",
                )
                .beside(mean(&ran.latencies) * 1e3, Better::Lower)
                .details(format!(
                    "best of T = 20 ms to 1 s: {} ms, {}",
                    age.as_millis(),
                    words(&Times::new(ran.latencies))
                )),
            );
        }
    }
    Ok(rows)
}

/// Bandwidth where producers are about as fast as the archive.
pub fn bandwidth() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let rate = BANDWIDTH * TARGETS as f64;
    let mut rows = Vec::new();
    let mut number = 1000;
    for size in [1 << 10, 16 << 10, 64 << 10] {
        let mut run = |who| {
            number += 1;
            measure(&place, number, who, size, BYTES, rate).map(|ran| ran.bandwidth / 1e6)
        };
        let (mut ours, mut aggregated) = (Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            ours.push(run(Who::Terrace)?);
            let batches = [1, 8, 32].map(|mib| run(Who::Batch(mib << 20, Duration::from_secs(2), Push::Aggregated)));
            aggregated.push(batches.into_iter().collect::<Result<Vec<f64>>>()?.into_iter().fold(0.0, f64::max));
        }
        let generic = run(Who::Batch(8 << 20, Duration::from_secs(2), Push::Generic))?;
        let ours = median(ours);
        let row = |what: &str, other: f64, goal: f64| {
            Row::new("R2", format!("bandwidth, {} KB, beside {what}", size >> 10), ours, "MB/s")
                .beside(other, Better::Higher)
                .goal(goal * other, Better::Higher)
                .details(format!(
                    "the archive's is {:.0} MB/s, and producers send as fast; {}",
                    rate / 1e6,
                    conditions(size)
                ))
        };
        rows.push(row("batches in order of arrival, a write for each request", generic, 3.0));
        rows.push(row("aggregated batches, the best of 1, 8 and 32 MiB", median(aggregated), 1.3));
    }
    Ok(rows)
}
