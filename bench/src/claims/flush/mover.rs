//! The store's own flushing: a mover that works continuously, compared with batches in the same store: the upper tier
//! is filled, then all of it is moved down while writers wait.

use std::sync::Barrier;
use std::time::Instant;

use anyhow::{Result, anyhow};
use terrace::{Ack, Config, PutOptions, Store};

use crate::place::{Place, random_bytes};
use crate::row::{Better, Row};
use crate::timing::Times;

const WRITER_COUNT: usize = 4;
const OBJECT_BYTES: usize = 256 << 10;
/// The number of objects of each writer.
const OBJECTS_PER_WRITER: usize = 160;
/// The number of objects of each writer in a batch.
const OBJECTS_PER_BATCH: usize = 20;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Continuous,
    Batches,
}

/// Returns the bytes per second until everything is durable below, and the time of each write.
fn measure(place: &Place, way: Way) -> Result<(f64, Times)> {
    let name = if way == Way::Continuous { "continuous" } else { "batches" };
    let (ram, disk) = (place.ram().join(name), place.disk().join(format!("{name}-disk")));
    let rule = if way == Way::Batches { "[[rule]]\nprefix = ''\nvolatile = true\n" } else { "" };
    let text = format!(
        "[store]\nreplicas = {{ default = 2 }}\n{rule}[[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{}']\npersistent = false\n\
         capacity = '32MiB'\n[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\nthrottle = {{ write = '40MB/s', latency = '1ms' }}\n",
        ram.display(),
        disk.display()
    );
    let store = Store::init(&place.disk().join(name), &Config::parse(&text, "bench")?)?;
    let replicas = (way == Way::Batches).then_some(1);
    let options = PutOptions { ack: Some(Ack::Placed), replicas, ..PutOptions::default() };
    let bytes = random_bytes(OBJECT_BYTES, 5);
    let barrier = Barrier::new(WRITER_COUNT);
    let begun = Instant::now();
    let write = |writer: usize| -> Result<Vec<f64>> {
        let mut times = Vec::new();
        let mut before = Instant::now();
        for at in 0..OBJECTS_PER_WRITER {
            store.put_bytes(format!("w{writer}/{at}").as_bytes(), &bytes, &options)?;
            if way == Way::Batches && (at + 1) % OBJECTS_PER_BATCH == 0 && barrier.wait().is_leader() {
                store.evict(b"", "ram")?;
                store.sync()?;
            }
            if way == Way::Batches && (at + 1) % OBJECTS_PER_BATCH == 0 {
                barrier.wait();
            }
            times.push(before.elapsed().as_secs_f64());
            before = Instant::now();
        }
        Ok(times)
    };
    let times = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITER_COUNT).map(|writer| scope.spawn(move || write(writer))).collect();
        let times = writers.into_iter().map(|writer| writer.join().map_err(|_| anyhow!("a writer panicked"))?);
        anyhow::Ok(times.collect::<Result<Vec<_>>>()?.concat())
    })?;
    let wrote = begun.elapsed();
    store.sync()?;
    eprintln!(
        "{name}: {:.1} s of writes, {:.1} s until all was below",
        wrote.as_secs_f64(),
        begun.elapsed().as_secs_f64()
    );
    Ok(((WRITER_COUNT * OBJECTS_PER_WRITER * OBJECT_BYTES) as f64 / begun.elapsed().as_secs_f64(), Times::new(times)))
}

/// Measures the bandwidth until everything is below, and the longest write.
pub fn run() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let (ours, writes) = measure(&place, Way::Continuous)?;
    let (batches, pushed) = measure(&place, Way::Batches)?;
    let conditions = format!(
        "{WRITER_COUNT} writers at full speed, {} objects of 256 KB, memory of 32 MiB above a disk of 40 MB/s; batches of {} MiB",
        WRITER_COUNT * OBJECTS_PER_WRITER,
        (WRITER_COUNT * OBJECTS_PER_BATCH * OBJECT_BYTES) >> 20
    );
    let words = |times: &Times| format!("p50 {:.1}, p99 {:.0} ms", times.median() * 1e3, times.quantile(0.99) * 1e3);
    let both = format!("ours {}, batches {}; {conditions}", words(&writes), words(&pushed));
    Ok(vec![
        Row::new("mover", "until all is on the lower tier, beside batches", ours / 1e6, "MB/s")
            .beside(batches / 1e6, Better::Higher)
            .details(conditions),
        Row::new("mover", "the longest write, beside batches; none fails", writes.quantile(1.0) * 1e3, "ms")
            .beside(pushed.quantile(1.0) * 1e3, Better::Lower)
            .details(both),
    ])
}
