//! Claims R1, R2 and R3 (RFlush Fig. 2): latency from accept to durable, bandwidth and buffering of continuous
//! flushing, compared with batches.
//!
//! Both sides write the same bytes to the same slow archive with the same syncs in the same run. Every request is
//! checked at its destination.

mod archive;
mod batch;
pub mod dropped;
pub mod mover;
mod run;

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Result;

use self::archive::{SYNC_LATENCY, TARGET_BYTES_PER_SECOND, TARGET_COUNT, WRITE_LATENCY};
use self::batch::Push;
use self::run::{Load, PRODUCER_COUNT, Producers, Ran, Who, measure};
use crate::place::Place;
use crate::row::{Better, PageRow, Row};
use crate::size::Size;
use crate::timing::{Times, median};

/// The sizes of requests in bytes, and the number of requests of each size in a full run for latency.
const REQUEST_SIZES: [(usize, u64); 3] = [(1 << 10, 1_000_000), (16 << 10, 250_000), (64 << 10, 62_500)];
/// The rate of the producers when latency is measured, as a share of the archive's bandwidth.
const PRODUCER_RATE_SHARE: f64 = 0.4;
/// The mean latency of the paper's batches. The timer of our batches is set to reach it.
const PAPER_LATENCY_SECONDS: f64 = 2.0;
/// A batch size that is never reached: at the paper's setting only the timer closes batches.
const UNBOUNDED_BATCH_BYTES: usize = 1 << 30;
/// The batch size of the sweep.
const SWEPT_BATCH_BYTES: usize = 32 << 20;
/// The timers of the sweep.
const SWEPT_TIMERS_MS: [u64; 6] = [5, 20, 50, 100, 500, 2000];
/// The bytes of a run for bandwidth or of a sweep.
const RUN_BYTES: u64 = 100_000_000;
const REPEAT_COUNT: usize = 3;

fn archive_rate() -> f64 {
    TARGET_BYTES_PER_SECOND * TARGET_COUNT as f64
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len().max(1) as f64
}

fn milliseconds(ran: &Ran) -> f64 {
    mean(&ran.latencies) * 1e3
}

fn words(times: &Times) -> String {
    format!("p50 {:.0}, p99 {:.0} ms", times.median() * 1e3, times.quantile(0.99) * 1e3)
}

fn conditions(load: &Load) -> String {
    format!(
        "{} requests of {} B at {:.0} MB/s, {PRODUCER_COUNT} producers, {TARGET_COUNT} workers; archive of {TARGET_COUNT} targets of {:.0} MB/s, \
         {} us a write, {} ms a sync; the log on tmpfs",
        load.requests,
        load.size,
        load.rate / 1e6,
        TARGET_BYTES_PER_SECOND / 1e6,
        WRITE_LATENCY.as_micros(),
        SYNC_LATENCY.as_millis()
    )
}

/// Continuous flushing, and batches with the paper's latency, with producers at a fraction of the archive's bandwidth.
struct Paced {
    load: Load,
    timer: Duration,
    ours: Ran,
    paper: Ran,
}

/// Runs both for requests of each length. The runs are made once, because two claims use them.
fn paced() -> Result<&'static [Paced]> {
    static PACED_RUNS: OnceLock<Vec<Paced>> = OnceLock::new();
    if let Some(ran) = PACED_RUNS.get() {
        return Ok(ran);
    }
    let place = Place::new()?;
    let of = |(size, requests): (usize, u64)| -> Result<Paced> {
        let requests = Size::get().of(requests / 10, requests / 5, requests);
        let load = Load { size, requests, rate: PRODUCER_RATE_SHARE * archive_rate(), producers: Producers::CatchUp };
        let timer = paper_timer(&place, load)?;
        let ours = measure(place.ram(), Who::Terrace, load)?;
        let paper = measure(place.ram(), Who::Batch(UNBOUNDED_BATCH_BYTES, timer, Push::Aggregated), load)?;
        Ok(Paced { load, timer, ours, paper })
    };
    let ran = REQUEST_SIZES.into_iter().map(of).collect::<Result<_>>()?;
    Ok(PACED_RUNS.get_or_init(|| ran))
}

/// Finds the timer with which batches of the load have the paper's latency.
fn paper_timer(place: &Place, load: Load) -> Result<Duration> {
    let mut timer = Duration::from_secs_f64(PAPER_LATENCY_SECONDS * 0.75);
    for _ in 0..2 {
        let ran = measure(place.ram(), Who::Batch(UNBOUNDED_BATCH_BYTES, timer, Push::Aggregated), load)?;
        timer = timer.mul_f64(PAPER_LATENCY_SECONDS / mean(&ran.latencies));
    }
    Ok(timer)
}

/// Measures the latency from accept to durable.
pub fn latency() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let mut rows = Vec::new();
    for Paced { load, timer, ours, paper } in paced()? {
        let (times, batches) = (Times::new(ours.latencies.clone()), Times::new(paper.latencies.clone()));
        let row = |what: &str, quantity: &str, ours: f64, theirs: f64, unit: &str| {
            Row::new("R1", format!("{what}, {} KB, beside batches at the paper's latency", load.size >> 10), ours, unit)
                .beside(theirs, Better::Lower)
                .goal(theirs / 10.0, Better::Lower)
                .details(format!(
                    "{quantity}; batches with N = 1 GiB, T = {:.2} s have a mean of {:.2} s; paper: 300 beside 2000 ms; {}",
                    timer.as_secs_f64(),
                    mean(&paper.latencies),
                    conditions(load)
                ))
        };
        let both = format!("ours {}, batches {}", words(&times), words(&batches));
        rows.push(row("latency, mean", &both, milliseconds(ours), milliseconds(paper), "ms"));
        let p99 = |times: &Times| times.quantile(0.99) * 1e3;
        rows.push(row("latency, p99", &both, p99(&times), p99(&batches), "ms"));
        let short = Size::get().of(RUN_BYTES / 2, RUN_BYTES, 2 * RUN_BYTES) / load.size as u64;
        rows.extend(swept(&place, Load { requests: short, ..*load }, ours)?);
    }
    Ok(rows)
}

/// Compares our mean latency with the best mean latency of batches over several timers.
fn swept(place: &Place, load: Load, ours: &Ran) -> Result<Vec<Row>> {
    let plot = format!("mean latency, {} KB, by the batches' timer", load.size >> 10);
    let mut rows = Vec::new();
    let mut best: Option<(u64, Ran)> = None;
    for timer in SWEPT_TIMERS_MS {
        let ran =
            measure(place.ram(), Who::Batch(SWEPT_BATCH_BYTES, Duration::from_millis(timer), Push::Aggregated), load)?;
        let point = |line, ran: &Ran| Row::point("R1", &plot, line, format!("{timer} ms"), milliseconds(ran), "ms");
        rows.extend([point("batches", &ran), point("Terrace", ours)]);
        if best.as_ref().is_none_or(|(_, best)| mean(&ran.latencies) < mean(&best.latencies)) {
            best = Some((timer, ran));
        }
    }
    let what = format!("latency, mean, {} KB, beside the best batches of a sweep", load.size >> 10);
    rows.extend(best.map(|(timer, ran)| {
        let row = Row::new("R1", what, milliseconds(ours), "ms").beside(milliseconds(&ran), Better::Lower);
        row.details(format!(
            "the best of T = 5 ms to 2 s with N = 32 MiB is {timer} ms, {}; the sweep's runs have {} requests each",
            words(&Times::new(ran.latencies)),
            load.requests
        ))
    }));
    Ok(rows)
}

pub const LATENCY_PAGE_ROWS: &[PageRow] = &[
    PageRow::made(
        "R1",
        "latency, mean, 16 KB, beside batches at the paper's latency",
        "Stream latency to durable, beside batches at their paper's latency",
    ),
    PageRow::made(
        "R1",
        "latency, mean, 16 KB, beside the best batches of a sweep",
        "Stream latency to durable, beside the best batches of a sweep",
    ),
];

pub const BANDWIDTH_PAGE_ROWS: &[PageRow] = &[PageRow::made(
    "R2",
    "bandwidth, 16 KB, beside aggregated batches, producers that catch up",
    "Stream bandwidth, beside the best batches, producers catch up",
)];

/// Measures the bandwidth with producers that are as fast as the archive.
pub fn bandwidth() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let mut rows = Vec::new();
    for (size, _) in REQUEST_SIZES {
        let load = |producers| Load { size, requests: RUN_BYTES / size as u64, rate: archive_rate(), producers };
        let aggregated = |mib: usize| Who::Batch(mib << 20, Duration::from_secs(2), Push::Aggregated);
        for (producers, which) in [
            (Producers::StandStill, "producers that stand still while they wait"),
            (Producers::CatchUp, "producers that catch up, so that nothing is gained but the gaps between batches"),
        ] {
            let run = |who| measure(place.ram(), who, load(producers)).map(|ran| ran.bandwidth / 1e6);
            let (mut ours, mut batches) = (Vec::new(), Vec::new());
            for _ in 0..REPEAT_COUNT {
                ours.push(run(Who::Terrace)?);
                let swept = [1, 8, 32].map(|mib| run(aggregated(mib))).into_iter().collect::<Result<Vec<f64>>>()?;
                batches.push(swept.into_iter().fold(0.0, f64::max));
            }
            let (ours, batches) = (median(ours), median(batches));
            let bound = archive_rate() / 1e6;
            let row = |what: &str, other: f64, goal: f64| {
                Row::new("R2", format!("bandwidth, {} KB, beside {what}", size >> 10), ours, "MB/s")
                    .beside(other, Better::Higher)
                    .goal(goal * other, Better::Higher)
                    .details(format!(
                        "{which}; the archive itself, at {bound:.0} MB/s, is {:.2}x; {}",
                        bound / other,
                        conditions(&load(producers))
                    ))
            };
            if producers == Producers::StandStill {
                let small = Load { requests: RUN_BYTES / 5 / size as u64, ..load(producers) };
                let generic = Who::Batch(8 << 20, Duration::from_secs(2), Push::Generic);
                let generic = measure(place.ram(), generic, small)?.bandwidth / 1e6;
                rows.push(row("batches in order of arrival, a write for each request", generic, 3.0));
            }
            let what = match producers {
                Producers::StandStill => "aggregated batches, the best of 1, 8 and 32 MiB",
                Producers::CatchUp => "aggregated batches, producers that catch up",
            };
            rows.push(row(what, batches, 1.3));
        }
    }
    Ok(rows)
}

/// Checks that each request arrives once and in order, and measures how much is buffered meanwhile.
pub fn exactly_once() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for Paced { load, timer, ours, paper } in paced()? {
        let megabytes = |ran: &Ran| ran.buffered as f64 / 1e6;
        rows.push(
            Row::new("R3", format!("accepted and not durable, at most, {} KB", load.size >> 10), megabytes(ours), "MB")
                .beside(megabytes(paper), Better::Lower)
                .goal(megabytes(paper), Better::Lower)
                .details(format!("batches of {:.2} s; {}", timer.as_secs_f64(), conditions(load))),
        );
        rows.push(
            Row::new(
                "R3",
                format!("requests missing, twice or out of order, {} KB", load.size >> 10),
                ours.misplaced as f64,
                "",
            )
            .goal(0.0, Better::Lower)
            .details(
                "each is looked at where it arrived; under kill -9 at every step: crates/movement/stream/tests/kill.rs",
            ),
        );
    }
    Ok(rows)
}
