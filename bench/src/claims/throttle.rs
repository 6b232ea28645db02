//! Whether an emulated device has the configured speed for all processes together.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use terrace::{Ack, Config, PutOptions, Store};

use crate::place::{Place, random_bytes};
use crate::row::{Better, Row};
use crate::workers;

const RUN_DURATION: Duration = Duration::from_secs(10);
const LIMIT_BYTES_PER_SECOND: f64 = 20e6;

/// The work of one process, for ten seconds.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Work {
    put: bool,
}

pub fn run() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let text = format!(
        "[[tier]]\nname = 'slow'\nkind = 'directory'\ntargets = ['{}']\nthrottle = {{ read = '20MB/s', write = '20MB/s', latency = '2ms' }}\n",
        place.ram().join("slow").display()
    );
    let store = Store::init(&place.disk().join("store"), &Config::parse(&text, "bench")?)?;
    let mut rows = Vec::new();
    for (put, verb) in [(true, "writing"), (false, "reading")] {
        let printed = workers::run(store.dir(), 2, &Work { put })?;
        let rate: f64 = printed.iter().map(|p| p[0]).sum();
        rows.push(
            Row::new(
                "throttle",
                format!("{verb}, 2 processes, off by"),
                (rate / LIMIT_BYTES_PER_SECOND - 1.0).abs() * 100.0,
                "%",
            )
            .goal(5.0, Better::Lower)
            .details(format!("{:.2} MB/s over 10 s where 20 MB/s and 2 ms are set", rate / 1e6)),
        );
    }
    Ok(rows)
}

impl workers::Work for Work {
    const WORK_NAME: &'static str = "throttle";

    fn work(&self, store: &Path, worker: u64, ready: impl FnOnce() -> std::io::Result<()>) -> Result<Vec<f64>> {
        work(&Store::open(store)?, worker, self, ready)
    }
}

/// Returns the bytes per second of one process.
fn work(store: &Store, worker: u64, work: &Work, ready: impl FnOnce() -> std::io::Result<()>) -> Result<Vec<f64>> {
    let bytes = random_bytes(256 << 10, worker);
    let options = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
    ready()?;
    let (begin, mut count) = (Instant::now(), 0);
    while begin.elapsed() < RUN_DURATION {
        let key = format!("{worker}/{}", count % 100);
        if work.put {
            store.put_bytes(key.as_bytes(), &bytes, &options)?;
        } else {
            store.get(key.as_bytes())?;
        }
        count += 1;
    }
    Ok(vec![(count * bytes.len()) as f64 / begin.elapsed().as_secs_f64()])
}
