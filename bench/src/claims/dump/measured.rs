//! Measures real dumps. Each rank is a thread, whose link and disk are as slow as a rank's share of them in the paper.

use std::collections::BTreeMap;
use std::thread;
use std::time::Instant;

use anyhow::Result;
use rustix_futex_sync::Mutex;
use terrace::{Config, Store};
use terrace_dump::background::Background;
use terrace_dump::regions::{CopiedRegions, Protected, borrow, checkpoint, copy, prepare_copy};
use terrace_dump::transport::World;
use terrace_dump::transport::threads::Threads;
use terrace_dump::transport::throttle::{Links, Throttled};
use terrace_dump::{Dumped, Duplicates, Options, dump};

use super::{DISK_BYTES_PER_SECOND, LINK_BYTES_PER_SECOND, REPLICATION_FACTORS};
use crate::place::{Place, random_bytes};
use crate::row::{Better, Row};

/// The result of a dump.
struct Took {
    seconds: f64,
    ranks: Vec<Dumped>,
}

impl Took {
    fn sum(&self, of: impl Fn(&Dumped) -> u64) -> f64 {
        self.ranks.iter().map(of).sum::<u64>() as f64
    }

    /// Returns the shortest time in which the bytes can be sent and then stored if they are spread evenly over the
    /// ranks.
    fn bound(&self) -> f64 {
        let ranks = self.ranks.len() as f64;
        self.sum(|done| done.stored) / ranks / DISK_BYTES_PER_SECOND
            + self.sum(|done| done.chunks.sent) / ranks / LINK_BYTES_PER_SECOND
    }

    /// Returns the time of the busiest rank if its disk and both directions of its link work at the same time.
    fn busiest(&self) -> f64 {
        let moved = |done: &Dumped| done.chunks.sent.max(done.chunks.received) as f64 / LINK_BYTES_PER_SECOND;
        self.ranks.iter().map(|done| moved(done).max(done.stored as f64 / DISK_BYTES_PER_SECOND)).fold(0.0, f64::max)
    }

    fn sent_each(&self) -> f64 {
        self.sum(|done| done.chunks.sent) / self.ranks.len() as f64 / 1e6
    }

    fn most_received(&self) -> f64 {
        self.ranks.iter().map(|done| done.chunks.received).max().unwrap_or(0) as f64 / 1e6
    }
}

/// Makes a store for each rank, on a disk of its own. If `encoding` is `None`, the planner chooses.
pub fn make_stores(place: &Place, ranks: usize, encoding: Option<&str>) -> Result<Vec<Store>> {
    let rule = encoding.map_or(String::new(), |name| format!("[[rule]]\nprefix = 'dumps/'\nencoding = '{name}'\n"));
    let store = |rank: usize| {
        let dir = place.ram().join(rank.to_string());
        let rate = DISK_BYTES_PER_SECOND / 1e6;
        let text = format!(
            "{rule}[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\nthrottle = {{ read = '{rate:.2}MB/s', write = '{rate:.2}MB/s' }}\n",
            dir.join("disk").display()
        );
        Ok(Store::init(&dir.join("store"), &Config::parse(&text, "bench")?)?)
    };
    (0..ranks).map(store).collect()
}

/// Dumps once, with each rank on a node of its own.
fn once(pages: &[Vec<u8>], replicas: u32, duplicates: Duplicates, encoding: Option<&str>) -> Result<Took> {
    let place = Place::new()?;
    let stores = make_stores(&place, pages.len(), encoding)?;
    let nodes: Vec<u32> = (0..pages.len() as u32).collect();
    let links = Links::new(nodes.len(), LINK_BYTES_PER_SECOND);
    let options = Options { replicas, duplicates, ..Options::default() };
    let begin = Instant::now();
    let done = Threads::on(&nodes).run(|world| {
        let rank = world.rank() as usize;
        dump(&Throttled { world, links: &links }, &stores[rank], "bench", &[&pages[rank]], &options)
    });
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Took { seconds, ranks: done.into_iter().collect::<terrace_dump::Result<_>>()? })
}

/// Makes the rows of each replication factor.
pub fn factors(what: &str, pages: &[Vec<u8>]) -> Result<Vec<Row>> {
    let rows = REPLICATION_FACTORS.map(|replicas| factor(what, pages, replicas)).collect::<Result<Vec<_>>>()?;
    Ok(rows.into_iter().flatten().collect())
}

/// Compares no deduplication, local deduplication, and collective deduplication.
pub fn factor(what: &str, pages: &[Vec<u8>], replicas: u32) -> Result<Vec<Row>> {
    let [none, local, ours] = [Duplicates::Kept, Duplicates::Local, Duplicates::Collective]
        .map(|duplicates| once(pages, replicas, duplicates, Some("none")));
    let (none, local, ours) = (none?, local?, ours?);
    let megabytes = |took: &Took, of: fn(&Dumped) -> u64| took.sum(of) / 1e6;
    let faster = |id: &str, name: &str, other: &Took, paper: f64| {
        let bound = other.bound() / ours.bound();
        let details = format!(
            "{:.2} s instead of {:.2} s; byte bound {bound:.2}x, of the busiest ranks {:.2}x; stored {:.1} of {:.1} MB, sent {:.1} of {:.1} MB; raw",
            ours.seconds,
            other.seconds,
            other.busiest() / ours.busiest(),
            megabytes(&ours, |done| done.stored),
            megabytes(other, |done| done.stored),
            megabytes(&ours, |done| done.chunks.sent),
            megabytes(other, |done| done.chunks.sent),
        );
        Row::new(id, format!("{what}, factor {replicas}: faster than {name}"), other.seconds / ours.seconds, "x")
            .beside(paper, Better::Higher)
            .goal(0.9 * bound, Better::Higher)
            .details(details)
    };
    let mut rows = vec![faster("D1", "full replication", &none, 9.8), faster("D2", "local deduplication", &local, 2.8)];
    if replicas > 1 {
        rows.push(Row::new("D3", format!("{what}, factor {replicas}: sent per rank"), ours.sent_each(), "MB").details(
            format!(
                "{:.2} MB without deduplication, {:.2} MB with local; at most {:.2} MB to one rank",
                none.sent_each(),
                local.sent_each(),
                ours.most_received()
            ),
        ));
    }
    for (line, took) in [("no deduplication", &none), ("local", &local), ("collective", &ours)] {
        let point =
            |figure: &str, value, unit| Row::point("D", &format!("{what}: {figure}"), line, replicas, value, unit);
        rows.push(point("stored, by factor", megabytes(took, |done| done.stored), "MB"));
        rows.push(point("sent by a rank, by factor", took.sent_each(), "MB"));
        rows.push(point("largest receive of a rank, by factor", took.most_received(), "MB"));
        rows.push(point("time, by factor", took.seconds, "s"));
    }
    Ok(rows)
}

/// Measures dumps whose encodings the planner chooses.
pub fn codec(what: &str, pages: &[Vec<u8>]) -> Result<Vec<Row>> {
    let (raw, coded) = (once(pages, 3, Duplicates::Kept, Some("none"))?, once(pages, 3, Duplicates::Collective, None)?);
    let row = Row::new(
        "D1",
        format!("{what}, factor 3: with codecs, faster than full replication"),
        raw.seconds / coded.seconds,
        "x",
    );
    Ok(vec![row.details(format!("{:.2} s instead of {:.2} s, which is without codecs", coded.seconds, raw.seconds))])
}

/// Measures how long ranks stop for a checkpoint that is dumped while they continue. The first checkpoint is measured twice: with memory
/// that is allocated for it then, and with memory that was prepared. The next one uses the memory of the first.
pub fn stop(what: &str, pages: &[Vec<u8>]) -> Result<Vec<Row>> {
    let whole = once(pages, 3, Duplicates::Collective, Some("none"))?.seconds;
    let ([first, next], [prepared, _]) = (stops(pages, false)?, stops(pages, true)?);
    let row = |(stop, which): (Stop, &str)| {
        let what = format!("{what}, factor 3, {which}: the ranks stop, of a synchronous dump");
        Row::new("D5", what, 100.0 * stop.stopped / whole, "%").goal(15.0, Better::Lower).details(format!(
            "the slowest of {} ranks stops for {:.1} ms instead of {:.0} ms, while its memory is copied; the checkpoint is durable after {:.0} ms",
            pages.len(),
            1e3 * stop.stopped,
            1e3 * whole,
            1e3 * stop.ended
        ))
    };
    let rows = [(first, "the first checkpoint"), (prepared, "the first checkpoint, prepared"), (next, "the next one")];
    Ok(rows.into_iter().map(row).collect())
}

/// Times of the slowest rank, in seconds from the begin of a checkpoint.
#[derive(Clone, Copy, Default)]
struct Stop {
    /// The time until the ranks continued.
    stopped: f64,
    /// The time until the checkpoint was durable.
    ended: f64,
}

impl Stop {
    fn slowest(self, other: Stop) -> Stop {
        Stop { stopped: self.stopped.max(other.stopped), ended: self.ended.max(other.ended) }
    }
}

/// Makes two checkpoints while ranks continue. If `is_prepared`, the memory for the first copy is allocated before.
fn stops(pages: &[Vec<u8>], is_prepared: bool) -> Result<[Stop; 2]> {
    let place = Place::new()?;
    let stores = make_stores(&place, pages.len(), Some("none"))?;
    let nodes: Vec<u32> = (0..pages.len() as u32).collect();
    let links = Links::new(nodes.len(), LINK_BYTES_PER_SECOND);
    let took = Threads::on(&nodes).run(|world| {
        let rank = world.rank() as usize;
        let (store, links) = (&stores[rank], &links);
        let spare = Mutex::new(match is_prepared {
            true => prepare_copy(&BTreeMap::from([(0, Protected::own(pages[rank].len()))])),
            false => CopiedRegions::new(),
        });
        let background = Background::default();
        let stop = || -> terrace_dump::Result<Stop> {
            world.barrier()?;
            let begin = Instant::now();
            let unused = std::mem::take(&mut *spare.lock());
            let copied = copy(&BTreeMap::from([(0, Protected::own(&pages[rank][..]))]), unused)?;
            let spare = &spare;
            background.begin(1, move || {
                let throttled = Throttled { world, links };
                let made = checkpoint(&throttled, store, "bench", &borrow(&copied), &Options::default());
                *spare.lock() = copied;
                Ok(made?.version)
            });
            let stopped = begin.elapsed().as_secs_f64();
            background.wait()?;
            Ok(Stop { stopped, ended: begin.elapsed().as_secs_f64() })
        };
        thread::scope(|scope| {
            scope.spawn(|| background.run());
            let stops = stop().and_then(|first| Ok([first, stop()?]));
            background.close();
            stops
        })
    });
    let took = took.into_iter().collect::<terrace_dump::Result<Vec<[Stop; 2]>>>()?;
    Ok([0, 1].map(|number| took.iter().map(|stops| stops[number]).fold(Stop::default(), Stop::slowest)))
}

/// Measures how much time the search for duplicates costs if there are none.
pub fn unique() -> Result<Vec<Row>> {
    let pages: Vec<Vec<u8>> = (1..=8).map(|seed| random_bytes(4 << 20, seed)).collect();
    let none = once(&pages, 3, Duplicates::Kept, Some("none"))?.seconds;
    let ours = once(&pages, 3, Duplicates::Collective, Some("none"))?.seconds;
    let row = Row::new("D1", "unique data, factor 3: time over that of full replication", ours / none, "x");
    Ok(vec![
        row.beside(2.4, Better::Lower)
            .goal(1.2, Better::Lower)
            .details(format!("8 ranks, 4 MiB each; {ours:.2} s and {none:.2} s; beside: AC-FTE's own, on local disks")),
    ])
}
