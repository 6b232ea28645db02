//! Claims H2 (HReplica Fig. 4) and C1 (HCompress Fig. 3): the share of the time of 1,000 writes and reads of 1 MiB that
//! is neither I/O nor codec.
//!
//! The same I/O by plain calls and the same codec on the same bytes are timed in turn with the store. A throttled tier
//! credits the time between tasks to the next task, so waiting says nothing there. Instead, the overhead is the CPU
//! time of all threads of the process less the CPU time of the same parts, and I/O takes the time that the setting
//! implies.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use terrace::{Ack, Attributes, Config, Encoding, PutOptions, Store};
use terrace_codec::{Scratch, decode, encode};
use xxhash_rust::xxh3::xxh3_64;

use crate::place::{Place, random_bytes, smooth_floats};
use crate::row::{Better, PageRow, Row};
use crate::timing::median;

const OBJECT_BYTES: usize = 1 << 20;
const PAGE_BYTES: usize = 4 << 10;
const TASK_COUNT: usize = 1_000;
/// The number of different objects; each task takes the next one.
const OBJECT_COUNT: u64 = 16;

/// The tier of a measurement: its name, whether it is on disk, the bytes written and read per second if it is
/// throttled, and the largest percentage that may be neither I/O nor codec.
type Profile = (&'static str, bool, Option<(f64, f64)>, f64);

const TIER_PROFILES: [Profile; 3] =
    [("ares nvme", false, Some((60e6, 120e6)), 2.0), ("node nvme", true, None, 7.0), ("tmpfs", false, None, 7.0)];

pub const PAGE_ROWS: &[PageRow] = &[PageRow::made(
    "H2",
    "reading 1 MiB, tmpfs: neither I/O nor codec",
    "Share of reading 1 MiB in memory that is overhead, beside HReplica",
)];

/// H2: bytes that no codec shrinks.
pub fn replicas() -> Result<Vec<Row>> {
    let blocks: Vec<Vec<u8>> = (0..OBJECT_COUNT).map(|seed| random_bytes(OBJECT_BYTES, seed + 1)).collect();
    let mut rows = Vec::new();
    for profile in TIER_PROFILES {
        rows.extend(measure("H2", profile, &blocks, [6.0, 2.0, 4.6])?);
    }
    Ok(rows)
}

/// C1: smooth floats, for which an encoding is chosen.
pub fn compression() -> Result<Vec<Row>> {
    let blocks: Vec<Vec<u8>> = (0..OBJECT_COUNT).map(|seed| smooth_floats(OBJECT_BYTES, seed + 1)).collect();
    measure("C1", TIER_PROFILES[0], &blocks, [2.0, 0.06, f64::NAN])
}

/// The seconds of tasks, and of some parts of them.
#[derive(Default)]
struct Times {
    task: Vec<f64>,
    neither: Vec<f64>,
    hash: Vec<f64>,
    commit: Vec<f64>,
}

impl Times {
    /// Adds a task, with its time, the time of its codec and the time of its I/O by the same clock.
    fn note(&mut self, took: f64, codec: f64, io: f64, throttled: Option<f64>) {
        let neither = took - codec - io;
        self.neither.push(neither);
        self.task.push(throttled.map_or(took, |io| neither + codec + io));
    }
}

/// Makes the rows of writes and of reads. `paper` has the shares of all overhead, of planning, and of the catalog.
fn measure(id: &str, profile: Profile, blocks: &[Vec<u8>], paper: [f64; 3]) -> Result<Vec<Row>> {
    let (tier, on_disk, throttle, goal) = profile;
    let place = Place::new()?;
    let folder: PathBuf = if on_disk { place.disk().join("tier") } else { place.ram().join("tier") };
    let limit = throttle.map_or(String::new(), |(write, read)| {
        format!("throttle = {{ read = '{:.0}MB/s', write = '{:.0}MB/s' }}\n", read / 1e6, write / 1e6)
    });
    let text = format!(
        "[store]\nreplicas = {{ default = 1 }}\ncache = '0B'\n[[tier]]\nname = 'tier'\nkind = 'directory'\ntargets = ['{}']\n{limit}",
        folder.display()
    );
    let store = Store::init(&place.disk().join("store"), &Config::parse(&text, "bench")?)?;
    let bare = File::options().read(true).write(true).create(true).truncate(true).open(folder.join("bare"))?;
    let options = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
    let clock = if throttle.is_some() { ClockId::ProcessCPUTime } else { ClockId::Monotonic };
    let [mut writes, mut reads] = [Times::default(), Times::default()];
    let mut scratch = Scratch::default();
    for task in 0..TASK_COUNT {
        let (key, raw) = (format!("o/{task}.f64"), &blocks[task % blocks.len()]);
        let (put, _) = time(clock, || Ok(store.put_bytes(key.as_bytes(), raw, &options)?))?;
        let location = store.locate(key.as_bytes())?;
        let replica = location.extents.first().and_then(|extent| extent.replicas.first()).context("no replica")?;
        let encoding: Encoding = replica.encoding.parse().map_err(anyhow::Error::msg)?;
        let mut coded = Vec::new();
        let (coding, stored) = match encoding {
            Encoding::NONE => (0.0, &raw[..]),
            _ => (time(clock, || Ok(encode(encoding, raw, &mut coded, &mut scratch)?))?.0, &coded[..]),
        };
        // The offsets are those of frames: at whole mebibytes, the page cache would use larger pages.
        let at = (task * (OBJECT_BYTES + PAGE_BYTES)) as u64;
        let set = |rate: fn((f64, f64)) -> f64| throttle.map(|rates| stored.len() as f64 / rate(rates));
        let (written, _) = time(clock, || Ok(bare.write_all_at(stored, at)?))?;
        writes.note(put, coding, written, set(|(write, _)| write));
        let (get, _) = time(clock, || Ok(store.get(key.as_bytes())?))?;
        let (read, back) = time(clock, || {
            let mut back = vec![0; stored.len()];
            bare.read_exact_at(&mut back, at)?;
            Ok(back)
        })?;
        let mut raw = vec![0; OBJECT_BYTES];
        let decoding = match encoding {
            Encoding::NONE => 0.0,
            _ => time(clock, || Ok(decode(encoding, &back, &mut raw, &mut scratch)?))?.0,
        };
        reads.note(get, decoding, read, set(|(_, read)| read));
        let all = || Ok(std::hint::black_box(stored.chunks(64 << 10).map(xxh3_64).fold(0, |a, b| a ^ b)));
        let (hash, _) = time(clock, all)?;
        writes.hash.push(hash);
        reads.hash.push(hash);
        let attributes = Attributes { mtime: task as i64, ..store.stat(key.as_bytes())?.attributes };
        let (commit, _) = time(clock, || Ok(store.set_attributes(key.as_bytes(), attributes)?))?;
        writes.commit.push(commit);
        reads.commit.push(time(clock, || Ok(store.locate(key.as_bytes())?))?.0);
    }
    let planned = store.planned();
    let planning = planned.spent.as_secs_f64() / planned.requests.max(1) as f64;
    Ok([("writing", writes, planning), ("reading", reads, 0.0)]
        .into_iter()
        .flat_map(|(verb, times, planning)| rows(id, &format!("{verb} 1 MiB, {tier}"), times, planning, goal, paper))
        .collect())
}

fn rows(id: &str, what: &str, times: Times, planning: f64, goal: f64, [rest, engine, catalog]: [f64; 3]) -> Vec<Row> {
    let task = median(times.task.iter().copied());
    let share = |seconds: f64| seconds / task * 100.0;
    let beside = |row: Row, paper: f64| if paper.is_finite() { row.beside(paper, Better::Lower) } else { row };
    // The parts of a task are subtracted from the same task, because both vary together.
    let neither = times.neither.iter().zip(&times.task).map(|(neither, task)| neither / task);
    let neither = Row::new(id, format!("{what}: neither I/O nor codec"), median(neither) * 100.0, "%")
        .details(format!("of {:.0} us; {TASK_COUNT} tasks, medians, checksums included", task * 1e6));
    let mut rows = vec![beside(neither, rest).goal(goal, Better::Lower)];
    rows.push(Row::new(id, format!("{what}: checksums alone"), share(median(times.hash)), "%"));
    let commit = Row::new(id, format!("{what}: a commit, or a look-up, alone"), share(median(times.commit)), "%");
    rows.push(beside(commit, catalog));
    if planning > 0.0 {
        rows.push(beside(Row::new(id, format!("{what}: planning"), share(planning), "%"), engine));
    }
    rows
}

/// Runs a function. Returns the seconds that it took by a clock, and its result.
fn time<T>(clock: ClockId, run: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
    let now = || {
        let time = clock_gettime(clock);
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    };
    let start = now();
    let value = run()?;
    Ok((now() - start, value))
}
