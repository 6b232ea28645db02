//! Ratio and speed of every encoding over made-up data or a file: `cargo run --release --example speeds [FILE]`.
//!
//! Best of several runs over blocks of 1 MiB, on one thread, in wall time.

#[path = "../tests/data/mod.rs"]
mod data;

use std::time::{Duration, Instant};

use terrace_codec::{ALL, Encoding, Error, RARE, Scratch, decode, encode};

const BLOCK: usize = 1 << 20;
const KINDS: [&str; 8] = ["random", "constant", "f32 field", "f64 ramp", "i32 ramp", "i64 times", "words", "records"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(file) = std::env::args().nth(1) {
        let raw = std::fs::read(&file)?;
        return Ok(table(&file, &raw[..raw.len().min(8 * BLOCK)])?);
    }
    for (kind, name) in (0u8..).zip(KINDS) {
        table(name, &data::bytes(kind, BLOCK, 1))?;
    }
    Ok(())
}

fn table(name: &str, raw: &[u8]) -> Result<(), Error> {
    println!("{name}: ratio, MB/s encoding, MB/s decoding");
    let mut scratch = Scratch::default();
    for &encoding in ALL.iter().chain(RARE) {
        let mut stored = 0;
        let (mut there, mut back) = (Duration::ZERO, Duration::ZERO);
        for block in raw.chunks(BLOCK) {
            let (length, one, other) = best(encoding, block, &mut scratch)?;
            stored += length;
            there += one;
            back += other;
        }
        let speed = |time: Duration| raw.len() as f64 / time.as_secs_f64().max(1e-9) / 1e6;
        println!("  {encoding:16} {:6.2} {:8.0} {:8.0}", raw.len() as f64 / stored as f64, speed(there), speed(back));
    }
    Ok(())
}

/// Stored length, and the best times there and back.
fn best(encoding: Encoding, raw: &[u8], scratch: &mut Scratch) -> Result<(usize, Duration, Duration), Error> {
    let (mut out, mut back) = (Vec::new(), vec![0; raw.len()]);
    let (mut there, mut again) = (Duration::MAX, Duration::MAX);
    let (mut length, began) = (raw.len(), Instant::now());
    while there == Duration::MAX || began.elapsed() < Duration::from_millis(25) {
        let start = Instant::now();
        let made = encode(encoding, raw, &mut out, scratch)?;
        there = there.min(start.elapsed());
        let (with, stored) = made.map_or((Encoding::NONE, raw), |_| (encoding, &out[..]));
        length = stored.len();
        let start = Instant::now();
        decode(with, stored, &mut back, scratch)?;
        again = again.min(start.elapsed());
    }
    Ok((length, there, again))
}
