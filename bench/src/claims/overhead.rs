//! The time that the engine adds to hashing and I/O, and its write amplification.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};
use terrace::{Ack, PutOptions};
use xxhash_rust::xxh3::xxh3_64;

use crate::place::{Place, random_bytes};
use crate::row::{Better, Row};
use crate::timing::{median, time};

const OBJECT_BYTES: usize = 1 << 20;
const WRITE_COUNT: usize = 600;

pub fn run() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let store = place.store("store", 0)?;
    let bytes = random_bytes(OBJECT_BYTES, 5);
    let options = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
    let bare = File::create(place.ram().join("bare"))?;
    let (mut ours, mut parts) = (Vec::new(), Vec::new());
    let written_before = written()?;
    for i in 0..WRITE_COUNT {
        ours.push(time(|| Ok(store.put_bytes(format!("o/{i}").as_bytes(), &bytes, &options)?))?.0);
        parts.push(
            time(|| {
                bytes.chunks(64 << 10).map(xxh3_64).for_each(|hash| {
                    std::hint::black_box(hash);
                });
                Ok(bare.write_all_at(&bytes, (i * OBJECT_BYTES) as u64)?)
            })?
            .0,
        );
    }
    let amplification = (written()? - written_before) as f64 / (WRITE_COUNT * OBJECT_BYTES) as f64 - 1.0;
    let (ours, parts) = (median(ours), median(parts));
    Ok(vec![
        Row::new(
            "overhead",
            "put 1 MiB: time outside hashing and the write to the tier",
            (ours - parts).max(0.0) / ours * 100.0,
            "%",
        )
        .details(format!(
            "{:.0} us; the same hash and write alone take {:.0} us, alternating",
            ours * 1e6,
            parts * 1e6
        )),
        Row::new("overhead", "bytes written per byte put, 1 MiB, 1 replica", amplification, "bytes")
            .goal(1.02, Better::Lower)
            .details("all writes of the process (frames, log, catalog), less the bare ones"),
    ])
}

/// Returns the bytes that this process has passed to `write` so far.
fn written() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let line = text.lines().find_map(|l| l.strip_prefix("wchar: ")).context("no wchar in /proc/self/io")?;
    Ok(line.parse()?)
}
