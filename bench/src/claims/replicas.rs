//! Datasets in a store: the costs of reading and keeping other layouts, and their savings.

use anyhow::Result;
use terrace::Store;
use terrace_datasets::{Dataset, Datasets};

use crate::place::{Place, random_bytes};
use crate::row::{Better, PageRow, Row};
use crate::timing::{median, time};

const POINT_COUNT: usize = 8 << 20;
const REQUEST_BYTES: usize = 1 << 20;
const ROUND_COUNT: usize = 5;
const POINTS_VIEWS: &str = "
dataset { const N = 8388608; var data [N]struct { a, b, c float32 } }
view aos { var data = data }
view soa { var a [] { a } = data; var b [] { b } = data; var c [] { c } = data }
view b { var b [] { b } = data }
";

pub const PAGE_ROWS: &[PageRow] = &[PageRow::made(
    "V2",
    "soa read where aos is stored, beside aos",
    "Read fields where records are stored: share of the speed of reading records",
)];

pub fn run() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let store = place.store("views", 0)?;
    let bytes = random_bytes(12 * POINT_COUNT, 3);
    let mut rows = read(&store, &bytes)?;
    rows.push(write(&store, &bytes)?);
    rows.push(together(&store, &bytes)?);
    rows.extend(particles()?);
    Ok(rows)
}

fn add(store: &Store, replicas: &str) -> Result<Dataset> {
    Ok(Datasets::new(store).add("points", &format!("{POINTS_VIEWS}{replicas}"))?)
}

fn remove(store: &Store) -> Result<()> {
    Datasets::new(store).remove("points")?;
    Ok(store.reap_now()?)
}

fn write_all(dataset: &Dataset, view: &str, bytes: &[u8]) -> Result<f64> {
    let view = dataset.view(view)?;
    let write = || {
        bytes.chunks(REQUEST_BYTES).zip(0..).try_for_each(|(part, at)| view.write_at(at * REQUEST_BYTES as u64, part))
    };
    Ok(time(|| Ok(write()?))?.0)
}

fn read_all(dataset: &Dataset, view: &str) -> Result<f64> {
    let view = dataset.view(view)?;
    let (length, mut buffer) = (view.length()?, vec![0; REQUEST_BYTES]);
    let mut read = || (0..length).step_by(REQUEST_BYTES).try_for_each(|at| view.read_at(at, &mut buffer).map(drop));
    Ok(time(|| Ok(read()?))?.0)
}

/// V2: compares a view that is not stored with one that is.
fn read(store: &Store, bytes: &[u8]) -> Result<Vec<Row>> {
    let dataset = add(store, "replica main { view aos }")?;
    write_all(&dataset, "aos", bytes)?;
    let mut pairs = Vec::new();
    for _ in 0..ROUND_COUNT {
        pairs.push((read_all(&dataset, "aos")?, read_all(&dataset, "soa")?, read_all(&dataset, "b")?));
    }
    remove(store)?;
    let speed = bytes.len() as f64 / 1e6 / median(pairs.iter().map(|(stored, ..)| *stored));
    let soa = median(pairs.iter().map(|(stored, soa, _)| stored / soa));
    let one = median(pairs.iter().map(|(stored, _, one)| stored / one / 3.0));
    let details =
        format!("three times the bytes are read for it; 1 MiB requests in memory; the stored view at {speed:.0} MB/s");
    Ok(vec![
        Row::new("V2", "soa read where aos is stored, beside aos", soa, "of its speed")
            .beside(1.0 / 15.0, Better::Higher)
            .goal(0.7, Better::Higher)
            .details(&details),
        Row::new("V2", "b alone read where aos is stored, beside aos", one, "of its speed")
            .beside(1.0 / 22.0, Better::Higher)
            .details(&details),
    ])
}

/// Compares a write to three replicas with a write to one, by bytes stored.
fn write(store: &Store, bytes: &[u8]) -> Result<Row> {
    let mut pairs = Vec::new();
    for _ in 0..ROUND_COUNT {
        let one = write_all(&add(store, "replica aos { view aos }")?, "aos", bytes)?;
        remove(store)?;
        let all = add(store, "replica aos { view aos }\nreplica soa { view soa }\nreplica b { view b }")?;
        pairs.push((one, write_all(&all, "aos", bytes)?));
        remove(store)?;
    }
    let ratio = median(pairs.iter().map(|(one, all)| one / all)) * (7.0 / 3.0);
    Ok(Row::new(
        "V3",
        "aos written where aos, soa and b are stored, beside aos alone by bytes stored",
        ratio,
        "of its speed",
    )
    .beside(7.0 / 33.0 * 7.0 / 3.0, Better::Higher)
    .goal(0.8, Better::Higher)
    .details("sync, 1 MiB requests in memory, each one commit over all replicas"))
}

/// V4: a simulation writes `aos` and a viewer reads `b`, with and without a replica for the viewer.
fn together(store: &Store, bytes: &[u8]) -> Result<Row> {
    let mut pairs = Vec::new();
    for _ in 0..ROUND_COUNT {
        let total = |replicas: &str| -> Result<f64> {
            let dataset = add(store, replicas)?;
            let written = write_all(&dataset, "aos", bytes)?;
            let mut read = 0.0;
            // `b` is a third of the bytes, so three reads move as many bytes as were written.
            for _ in 0..3 {
                read += read_all(&dataset, "b")?;
            }
            remove(store)?;
            Ok(written + read)
        };
        pairs.push((total("replica aos { view aos }")?, total("replica aos { view aos }\nreplica b { view b }")?));
    }
    let ratio = median(pairs.iter().map(|(one, two)| one / two));
    Ok(Row::new("V4", "cumulative bandwidth: aos written, b read, two replicas over one", ratio, "times")
        .beside(132.0 / 81.0, Better::Higher)
        .details("as many bytes read as written, 1 MiB requests in memory"))
}

/// Measures the stored bytes of a real particle dump.
fn particles() -> Result<Vec<Row>> {
    let Some(data) = std::env::var_os("TERRACE_DATA") else { return Ok(Vec::new()) };
    let dump = std::fs::read(std::path::Path::new(&data).join("pic/vpic_harris_i_t264_r0.aos32"))?;
    let place = Place::new()?;
    let store = place.store("particles", 0)?;
    let text = include_str!("../../../crates/layouts/datasets/examples/vpic.dataset");
    let text = text.replace("const N = 65350", &format!("const N = {}", dump.len() / 32));
    Datasets::new(&store).add("ions", &text)?;
    drop(store);
    // Opened again, so that the replicas' rules hold.
    let store = Store::open(&place.disk().join("particles"))?;
    let dataset = Datasets::new(&store).open("ions")?;
    dataset.view("particles")?.write_at(0, &dump)?;
    let stored = |key: &str| -> Result<f64> {
        let extents = store.locate(key.as_bytes())?.extents;
        Ok(extents.iter().filter_map(|extent| extent.replicas.first()).map(|replica| replica.stored as f64).sum())
    };
    let (rows, fields) = (stored("datasets/ions/as_written")?, stored("datasets/ions/by_field")?);
    let length = dump.len() as f64;
    Ok(vec![
        Row::new(
            "V5",
            "a VPIC dump by field under shuffle4+zstd, beside as written under zstd",
            length / fields,
            "times smaller",
        )
        .beside(length / rows, Better::Higher)
        .details(format!("{} bytes: {fields:.0} by field, {rows:.0} as written", dump.len())),
    ])
}
