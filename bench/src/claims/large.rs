//! One large object, compared with `cp` to the same tier.

use std::process::Command;

use anyhow::{Result, ensure};
use terrace::{Ack, PutOptions};

use crate::place::{Place, random_bytes, smooth_floats};
use crate::row::{Better, Row};
use crate::timing::{median, time};

const OBJECT_BYTES: usize = 256 << 20;
const ROUND_COUNT: usize = 5;

pub fn run() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, block, element) in [
        ("bytes that no codec shrinks", random_bytes(16 << 20, 3), None),
        ("made floats", smooth_floats(16 << 20, 3), Some(terrace::Element::F64)),
    ] {
        let place = Place::new()?;
        let store = place.store("store", 0)?;
        let (source, copy, back) = (place.ram().join("source"), place.ram().join("copy"), place.ram().join("back"));
        std::fs::write(&source, block.repeat(OBJECT_BYTES / block.len()))?;
        let options = PutOptions { ack: Some(Ack::Placed), element, ..PutOptions::default() };
        let (mut puts, mut copies, mut gets, mut reads) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut stored = 0;
        for _ in 0..ROUND_COUNT {
            let _ = std::fs::remove_file(&copy);
            copies.push(cp(&source, &copy)?);
            let (took, receipt) = time(|| Ok(store.put(b"large", std::fs::File::open(&source)?, &options)?))?;
            stored = receipt.stored;
            puts.push(took);
            let _ = std::fs::remove_file(&back);
            reads.push(cp(&copy, &back)?);
            let _ = std::fs::remove_file(&back);
            gets.push(time(|| Ok(store.get_to(b"large", 0, None, std::fs::File::create(&back)?)?))?.0);
            store.sync()?;
            store.reap_now()?;
        }
        ensure!(std::fs::read(&source)? == std::fs::read(&back)?, "the bytes differ");
        for (verb, ours, peer) in [("put", puts, copies), ("get", gets, reads)] {
            let rate = |times: Vec<f64>| OBJECT_BYTES as f64 / median(times) / 1e9;
            rows.push(
                Row::new("large", format!("{verb} 256 MiB of {name}, tmpfs, beside cp"), rate(ours), "GB/s")
                    .beside(rate(peer), Better::Higher)
                    .details(format!("verified; stored {:.0} %", stored as f64 / OBJECT_BYTES as f64 * 100.0)),
            );
        }
    }
    Ok(rows)
}

fn cp(from: &std::path::Path, to: &std::path::Path) -> Result<f64> {
    let (took, status) = time(|| Ok(Command::new("cp").args(["--reflink=never"]).arg(from).arg(to).status()?))?;
    ensure!(status.success(), "cp failed");
    Ok(took)
}
