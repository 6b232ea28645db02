//! N2: what one node acknowledged, read on another one.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use terrace::{Error, Store};
use terrace_testkit::EtcdCluster;

use super::bare::BareLog;
use super::latency::put;
use super::nodes::{SharedStore, StoreShape};
use crate::place::random_bytes;
use crate::row::{Better, Row};
use crate::size::Size;
use crate::timing::{Times, time};

const OBJECT_BYTES: usize = 4 << 10;
const ROUND_COUNT: usize = 4;
const MAX_MILLISECONDS: f64 = 10.0;
/// The longest search for an object that was acknowledged.
const MAX_SEARCH_TIME: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_micros(100);
const BARE_LOG_NUMBER: u64 = 2;

/// The gets of one kind of reader.
#[derive(Default)]
struct TimedGets {
    milliseconds: Vec<f64>,
    /// The number of objects that were there at once.
    found: usize,
}

pub fn run(etcd: &mut EtcdCluster) -> Result<Vec<Row>> {
    let shared = SharedStore::start(etcd, StoreShape::new(2, 1))?;
    let (writer, bare) = (shared.open(0)?, BareLog::make(etcd, BARE_LOG_NUMBER)?);
    let bytes = random_bytes(OBJECT_BYTES, 1);
    let count = Size::get().of(20, 100, 500);
    let (mut opening, mut open, mut heads) = (TimedGets::default(), TimedGets::default(), Vec::new());
    for round in 0..ROUND_COUNT {
        for i in 0..count {
            let key = format!("opening/{round}/{i}");
            put(&writer, &key, &bytes)?;
            opening.get(&key, &bytes, || shared.open(1))?;
        }
        let reader = shared.open(1)?;
        for i in 0..count {
            let key = format!("open/{round}/{i}");
            put(&writer, &key, &bytes)?;
            open.get(&key, &bytes, || Ok(reader.clone()))?;
        }
        for _ in 0..count {
            heads.push(time(|| bare.read_head())?.0 * 1e3);
        }
    }
    let head = Times::new(heads).median();
    let rows = [
        opening.rows("a process that opens the store for it", head),
        open.rows("a process that had the store open", head),
    ];
    Ok(rows.concat())
}

impl TimedGets {
    /// TimedGets an object that another node has acknowledged, as often as it takes.
    fn get(&mut self, key: &str, bytes: &[u8], open: impl FnOnce() -> Result<Store>) -> Result<()> {
        let begin = Instant::now();
        let store = open()?;
        let mut is_first = true;
        let got = loop {
            match store.get(key.as_bytes()) {
                Err(Error::NotFound { .. }) if begin.elapsed() < MAX_SEARCH_TIME => {
                    is_first = false;
                    thread::sleep(POLL_INTERVAL);
                }
                got => break got?,
            }
        };
        self.milliseconds.push(begin.elapsed().as_secs_f64() * 1e3);
        self.found += usize::from(is_first);
        ensure!(got == bytes, "{key} has other bytes");
        Ok(())
    }

    fn rows(self, reader: &str, head: f64) -> [Row; 2] {
        let (found, count) = (self.found, self.milliseconds.len());
        let times = Times::new(self.milliseconds);
        let details = format!(
            "p50; p99 {:.1} ms; {count} objects of 4 KiB, each put on one node before; beside the linearizable read that asks etcd for the log's end",
            times.quantile(0.99)
        );
        let share = found as f64 * 100.0 / count as f64;
        [
            Row::new("cluster N2", format!("objects found at once on another node, by {reader}"), share, "%")
                .goal(100.0, Better::Higher)
                .details(format!("{found} of {count}; each get begins after the put has returned")),
            Row::new("cluster N2", format!("get on another node, by {reader}"), times.median(), "ms")
                .beside(head, Better::Lower)
                .goal(MAX_MILLISECONDS, Better::Lower)
                .details(details),
        ]
    }
}
