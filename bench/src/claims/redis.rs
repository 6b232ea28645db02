//! `terrace serve redis` compared with a redis-server that makes the same promise, under redis-benchmark, in pairs.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::place::Place;
use crate::row::{Better, PageRow, Row};
use crate::server::ServerProcess;
use crate::size::Size;
use crate::timing::median;

pub const PAGE_ROWS: &[PageRow] = &[PageRow::made(
    "redis",
    "SET of 100 B by 1 at a time, beside redis-server with a log that is not synced",
    "SET of 100 B, 50 clients of Redis: share of redis-server's throughput",
)];

const CLIENT_COUNT: &str = "50";
const KEY_COUNT: &str = "10000";
const PAIR_COUNT: usize = 3;
const VALUE_BYTES: [usize; 2] = [100, 1000];

/// Requests of one kind.
struct Load {
    command: &'static str,
    /// The requests that a client sends before it waits for the replies.
    pipeline: usize,
    /// The share of the other's throughput to reach.
    goal: f64,
}

const REQUEST_LOADS: [Load; 4] = [
    Load { command: "SET", pipeline: 1, goal: 0.5 },
    Load { command: "GET", pipeline: 1, goal: 0.5 },
    Load { command: "SET", pipeline: 16, goal: 0.2 },
    Load { command: "GET", pipeline: 16, goal: 0.3 },
];

/// One server's answer to a load.
#[derive(Clone, Copy)]
struct Answered {
    requests_per_second: f64,
    median_milliseconds: f64,
    /// The server's own processor time.
    cpu_seconds: f64,
}

pub fn run() -> Result<Vec<Row>> {
    if Command::new("redis-benchmark").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: there is no redis-benchmark");
        return Ok(Vec::new());
    }
    let place = Place::new()?;
    let (ours, theirs) = (Listening::terrace(&place)?, Listening::redis(&place)?);
    let mut rows = Vec::new();
    for bytes in VALUE_BYTES {
        for load in &REQUEST_LOADS {
            let requests = Size::get().of(5_000, 50_000, 200_000) * load.pipeline.min(4);
            let mut pairs = Vec::new();
            for _ in 0..PAIR_COUNT {
                pairs.push([ours.answer(load, bytes, requests)?, theirs.answer(load, bytes, requests)?]);
            }
            rows.push(share(load, bytes, requests, &pairs));
        }
    }
    Ok(rows)
}

fn share(load: &Load, bytes: usize, requests: usize, pairs: &[[Answered; 2]]) -> Row {
    let middle = |side: usize, of: fn(&Answered) -> f64| median(pairs.iter().map(|pair| of(&pair[side])));
    let [ours, theirs] = [0, 1].map(|side| middle(side, |answered| answered.requests_per_second));
    let [our_latency, their_latency] = [0, 1].map(|side| middle(side, |answered| answered.median_milliseconds));
    let [our_time, their_time] =
        [0, 1].map(|side| middle(side, |answered| answered.cpu_seconds) * 1e6 / requests as f64);
    let shares: Vec<f64> =
        pairs.iter().map(|[ours, theirs]| ours.requests_per_second / theirs.requests_per_second).collect();
    let listed: Vec<String> = shares.iter().map(|share| format!("{share:.2}")).collect();
    let details = format!(
        "{ours:.0}/s to {theirs:.0}/s, {our_latency:.2} ms to {their_latency:.2} ms (median), {our_time:.1} us to {their_time:.1} us of \
         the server's processor time each; {CLIENT_COUNT} clients, {KEY_COUNT} keys, `appendonly yes` and `appendfsync no` there; \
         middle of {} pairs: {}",
        pairs.len(),
        listed.join(", ")
    );
    let what = format!(
        "{} of {bytes} B by {} at a time, beside redis-server with a log that is not synced",
        load.command, load.pipeline
    );
    Row::new("redis", what, median(shares), "of its throughput").goal(load.goal, Better::Higher).details(details)
}

/// A server and its socket.
struct Listening {
    process: ServerProcess,
    socket: PathBuf,
}

impl Listening {
    fn terrace(place: &Place) -> Result<Listening> {
        let store = place.store("redis", 0)?;
        let mut command = Command::new(std::env::current_exe()?.with_file_name("terrace"));
        command.arg("--store").arg(store.dir()).args(["serve", "redis", "--unix"]);
        drop(store);
        Listening::start(command, place.ram().join("terrace.socket"))
    }

    fn redis(place: &Place) -> Result<Listening> {
        let folder = place.disk().join("redis-server");
        fs::create_dir(&folder)?;
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync", "no", "--dir"]);
        command.arg(&folder).arg("--unixsocket");
        Listening::start(command, place.ram().join("redis.socket"))
    }

    fn start(mut command: Command, socket: PathBuf) -> Result<Listening> {
        command.arg(&socket);
        let process = ServerProcess::start(command, || UnixStream::connect(&socket).is_ok())?;
        Ok(Listening { process, socket })
    }

    fn answer(&self, load: &Load, bytes: usize, requests: usize) -> Result<Answered> {
        let before = self.process.cpu_seconds()?;
        let mut command = Command::new("redis-benchmark");
        command.arg("-s").arg(&self.socket).args(["--csv", "-c", CLIENT_COUNT, "-r", KEY_COUNT, "-t", load.command]);
        command.args(["-d", &bytes.to_string(), "-n", &requests.to_string(), "-P", &load.pipeline.to_string()]);
        let output = command.output().context("starting redis-benchmark")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let figures = text.lines().last().filter(|line| line.starts_with(&format!("\"{}\"", load.command)));
        let figures: Vec<f64> = figures
            .into_iter()
            .flat_map(|line| line.split(',').skip(1))
            .filter_map(|figure| figure.trim_matches('"').parse().ok())
            .collect();
        // The throughput, and then latencies: the mean, the least, the median.
        let &[requests_per_second, _, _, median_milliseconds, ..] = figures.as_slice() else {
            bail!("redis-benchmark: {text}{}", String::from_utf8_lossy(&output.stderr));
        };
        Ok(Answered { requests_per_second, median_milliseconds, cpu_seconds: self.process.cpu_seconds()? - before })
    }
}
