//! The cost of calls in a store with many objects, beside one with few.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
use terrace::{Ack, Config, PutOptions, Store};

use super::memory::peak;
use crate::place::{Place, random_bytes};
use crate::row::{Better, PageRow, Row};
use crate::size::Size;
use crate::timing::{median, time};

pub const PAGE_ROWS: &[PageRow] =
    &[PageRow::made("scale", "put, beside 10 thousand", "Put 1 KiB beside a million objects, beside ten thousand")];

const FEW_OBJECTS: u64 = 10_000;
const SHORT_OBJECT_BYTES: usize = 1 << 10;
/// Each is encoded as some hundred bytes, so that ten million of them fit on a disk.
const LONG_OBJECT_BYTES: usize = 64 << 10;
/// Nothing may take more times as long as in the store with few objects.
const MAX_COST_RATIO: f64 = 1.5;
/// The length of the first tier, which is full of the objects that come last.
const FIRST_TIER_MIB: usize = 256;
const CALL_COUNT: u64 = 500;
const ROUND_COUNT: usize = 5;

/// The objects of a store, which are all alike.
struct Objects {
    bytes: Vec<u8>,
    encoding: &'static str,
    /// Their names in the rows and in the details.
    row: &'static str,
    details: &'static str,
}

/// The times of calls in a store, in seconds.
struct Costs {
    calls: Vec<(&'static str, f64)>,
    /// The objects that are rebuilt and verified in a second.
    rates: Vec<(&'static str, f64)>,
    /// The anonymous memory that `terrace status` takes.
    memory: u64,
}

pub fn run() -> Result<Vec<Row>> {
    let short = Objects {
        bytes: random_bytes(SHORT_OBJECT_BYTES, 1),
        encoding: "none",
        row: "beside 10 thousand",
        details: "objects of 1 KiB",
    };
    let long = Objects {
        bytes: vec![7; LONG_OBJECT_BYTES],
        encoding: "lz4",
        row: "64 KiB, beside 10 thousand",
        details: "objects of 64 KiB, encoded",
    };
    Ok([compare(&short)?, compare(&long)?].concat())
}

/// Measures a store with many of these objects, and one with few.
fn compare(of: &Objects) -> Result<Vec<Row>> {
    let many = Size::get().of(100_000, 1_000_000, 10_000_000);
    let (few, costs) = (measure(of, FEW_OBJECTS)?, measure(of, many)?);
    let beside = |what: &str| format!("{what}, {}", of.row);
    let objects = of.details;
    let mut rows = Vec::new();
    for ((what, ours), (_, before)) in costs.calls.into_iter().zip(few.calls) {
        let details = format!("{many} {objects}: {:.3} ms to {:.3} ms", ours * 1e3, before * 1e3);
        let row = Row::new("scale", beside(what), ours / before, "times as long");
        rows.push(row.goal(MAX_COST_RATIO, Better::Lower).details(details));
    }
    for ((what, ours), (_, before)) in costs.rates.into_iter().zip(few.rates) {
        let details = format!("{many} {objects}: {ours:.0}/s to {before:.0}/s");
        rows.push(Row::new("scale", beside(what), ours / before, "of the rate").details(details));
    }
    let memory = costs.memory as f64 / few.memory as f64;
    let details =
        format!("`terrace status`: {} KiB to {} KiB of anonymous memory", costs.memory >> 10, few.memory >> 10);
    rows.push(
        Row::new("scale", beside("memory"), memory, "times as much")
            .goal(MAX_COST_RATIO, Better::Lower)
            .details(details),
    );
    Ok(rows)
}

fn measure(of: &Objects, objects: u64) -> Result<Costs> {
    let place = Place::new()?;
    let text = format!(
        "[[tier]]\nname = 'ram'\nkind = 'directory'\npersistent = false\ncapacity = '{FIRST_TIER_MIB}MiB'\ntargets = ['{}']\n\
         [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n\
         [[rule]]\nprefix = 'runs'\nencoding = '{}'\n",
        place.ram().join("ram").display(),
        place.disk().join("disk").display(),
        of.encoding,
    );
    let dir = place.disk().join("store");
    let store = Store::init(&dir, &Config::parse(&text, "bench")?)?;
    let on_disk = PutOptions { ack: Some(Ack::Placed), tiers: Some(vec!["disk".into()]), ..PutOptions::default() };
    let put = |store: &Store, number: u64| store.put_bytes(&key(number), &of.bytes, &on_disk);
    for number in 0..objects {
        put(&store, number)?;
    }
    store.sync()?;
    store.close()?;
    let open = time_rounds(|| Store::open(&dir))?;
    let store = Store::open(&dir)?;
    let mut costs = vec![("open", open)];
    costs.push(("put", time_calls(|number| put(&store, objects + number))?));
    let get = |number| store.get(&key(spread(number, objects)));
    let page = |number| store.list(b"", Some(&key(spread(number, objects))), 100);
    // The first call for each key touches pages of the catalog's map that this process has not seen: beside few objects, others have
    // touched them before.
    costs.extend([("get", time_calls(get)?), ("get again", time_calls(get)?)]);
    costs.extend([("a page of 100 names", time_calls(page)?), ("a page of 100 names again", time_calls(page)?)]);
    costs.push(("status", time_rounds(|| store.status())?));
    costs.push(("evict", time_evictions(&store)?));
    store.sync()?;
    store.close()?;
    costs.push(("open after kill -9", time_opening_after_kill(&dir)?));
    let memory = peak(Command::new(find_program()?).arg("--store").arg(&dir).arg("status"))?;
    let (rebuild, store) = time(|| Ok(Store::rebuild(&dir)?))?;
    let (scrub, found) = time(|| Ok(store.scrub(b"runs", false, None, |_| {})?))?;
    ensure!((found.bad, found.lost) == (0, 0), "{found:?}");
    let rates = vec![("rebuild", objects as f64 / rebuild), ("scrub", objects as f64 / scrub)];
    Ok(Costs { calls: costs, rates, memory })
}

/// Fills the first tier with objects whose keys come last, then returns the time of a put of 1 MiB there, for which others leave.
fn time_evictions(store: &Store) -> Result<f64> {
    let bytes = random_bytes(1 << 20, 2);
    let options = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
    let mut times = Vec::new();
    for number in 0..2 * FIRST_TIER_MIB {
        let key = format!("then/{number:08}");
        times.push(time(|| Ok(store.put_bytes(key.as_bytes(), &bytes, &options)?))?.0);
    }
    Ok(times[FIRST_TIER_MIB..].iter().sum::<f64>() / FIRST_TIER_MIB as f64)
}

/// Kills a process that has the store open, and returns the time that the next one takes to open it.
fn time_opening_after_kill(dir: &Path) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..ROUND_COUNT {
        let mut command = Command::new(find_program()?);
        command.arg("--store").arg(dir).args(["put", "-", "killed"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        // It waits for the bytes of the object then.
        std::thread::sleep(Duration::from_millis(500));
        child.kill()?;
        child.wait()?;
        times.push(time(|| Ok(Store::open(dir)?))?.0);
    }
    Ok(median(times))
}

fn find_program() -> Result<std::path::PathBuf> {
    let program = std::env::current_exe()?.with_file_name("terrace");
    ensure!(program.exists(), "{} is not there; `cargo build` makes it", program.display());
    Ok(program)
}

fn key(number: u64) -> Vec<u8> {
    format!("runs/{:03}/{number:08}", number % 1000).into_bytes()
}

/// Numbers of objects in no order.
fn spread(number: u64, objects: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % objects
}

/// Returns the median time of many calls.
fn time_calls<T>(mut call: impl FnMut(u64) -> terrace::Result<T>) -> Result<f64> {
    let times: Result<Vec<f64>> = (0..CALL_COUNT).map(|number| Ok(time(|| Ok(call(number)?))?.0)).collect();
    Ok(median(times?))
}

/// Returns the median time of a few calls.
fn time_rounds<T>(mut call: impl FnMut() -> terrace::Result<T>) -> Result<f64> {
    let times: Result<Vec<f64>> = (0..ROUND_COUNT).map(|_| Ok(time(|| Ok(call()?))?.0)).collect();
    Ok(median(times?))
}
