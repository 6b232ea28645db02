//! A slow archive of four targets. Each target has its own bandwidth, and each call has a cost.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix_futex_sync::Mutex;
use terrace_stream::destinations::{Destination, Files, Outcome};
use terrace_stream::{Position, Run};

/// The archive has this many targets with one file each.
pub const TARGET_COUNT: usize = 4;
/// The bandwidth of each target.
pub const TARGET_BYTES_PER_SECOND: f64 = 25e6;
/// The cost of a write besides its bytes.
pub const WRITE_LATENCY: Duration = Duration::from_micros(200);
/// The cost of a sync.
pub const SYNC_LATENCY: Duration = Duration::from_millis(8);

/// Returns the file of a request. Each producer writes to each file.
pub fn file(id: u64) -> String {
    name(target(id))
}

/// Returns the name of a target's file.
pub fn name(target: usize) -> String {
    format!("f{target}")
}

pub fn target(id: u64) -> usize {
    (id as usize / TARGET_COUNT) % TARGET_COUNT
}

/// The archive, and the time at which each request became durable. A request begins with its number.
pub struct Archive {
    files: Files,
    targets: Vec<Mutex<()>>,
    size: usize,
    written: Vec<Mutex<Vec<u64>>>,
    durable: Mutex<Vec<Option<Instant>>>,
}

impl Archive {
    pub fn new(root: &Path, size: usize, requests: u64) -> Result<Archive> {
        Ok(Archive {
            files: Files::new(root)?,
            targets: (0..TARGET_COUNT).map(|_| Mutex::default()).collect(),
            size,
            written: (0..TARGET_COUNT).map(|_| Mutex::default()).collect(),
            durable: Mutex::new(vec![None; requests as usize]),
        })
    }

    fn target(&self, name: &[u8]) -> usize {
        name.get(1).map_or(0, |digit| usize::from(digit - b'0')) % TARGET_COUNT
    }

    fn pause(&self, target: usize, time: Duration) {
        let _turn = self.targets[target].lock();
        thread::sleep(time);
    }

    /// Returns the time at which each request became durable.
    pub fn durable(&self) -> Vec<Instant> {
        self.durable.lock().iter().flatten().copied().collect()
    }
}

impl Destination for Archive {
    fn length(&self, name: &[u8]) -> Outcome<Option<u64>> {
        self.files.length(name)
    }

    fn write(&self, name: &[u8], first: Position, runs: &[Run]) -> Outcome<()> {
        let target = self.target(name);
        for run in runs {
            self.pause(
                target,
                WRITE_LATENCY + Duration::from_secs_f64(run.bytes.len() as f64 / TARGET_BYTES_PER_SECOND),
            );
            let id = |request: &[u8]| request.first_chunk().map_or(0, |id| u64::from_le_bytes(*id));
            self.written[target].lock().extend(run.bytes.chunks(self.size).map(id));
        }
        self.files.write(name, first, runs)
    }

    fn set_length(&self, name: &[u8], length: u64) -> Outcome<()> {
        self.files.set_length(name, length)
    }

    fn sync(&self, name: &[u8]) -> Outcome<()> {
        let target = self.target(name);
        self.pause(target, SYNC_LATENCY);
        self.files.sync(name)?;
        let now = Instant::now();
        let mut durable = self.durable.lock();
        for id in self.written[target].lock().drain(..) {
            if let Some(at) = durable.get_mut(id as usize) {
                *at = Some(now);
            }
        }
        Ok(())
    }
}
