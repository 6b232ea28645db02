//! Small objects: puts and gets, compared with plain files and SQLite in the same run.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use terrace::{Ack, PutOptions, Store};

use crate::place::{Place, random_bytes};
use crate::row::{Better, PageRow, Row};
use crate::timing::{Times, median};
use crate::workers;

const SLICE_DURATION: Duration = Duration::from_millis(250);
const ROUND_COUNT: usize = 6;
/// This many keys are written and read, each many times.
const KEY_COUNT: usize = 4000;

/// The work of one process, with this many threads.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Work {
    threads: usize,
    length: usize,
    put: bool,
}

pub const PAGE_ROWS: &[PageRow] = &[
    PageRow::made(
        "small",
        "put 4 KiB, 1 replica on tmpfs, beside SQLite (WAL, unsynced) there",
        "Put 4 KiB in memory, beside SQLite (WAL, no sync)",
    ),
    PageRow::made(
        "small",
        "put 64 KiB, 1 replica on tmpfs, beside a plain file there",
        "Put 64 KiB in memory, beside a plain file",
    ),
];

pub fn run() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (length, name) in [(4 << 10, "4 KiB"), (64 << 10, "64 KiB")] {
        let place = Place::new()?;
        let (one, three) = (place.store("one", 0)?, place.store("three", 2)?);
        let (files, sqlite) = (place.ram().join("files"), Sqlite::open(&place.ram().join("sqlite.db"))?);
        std::fs::create_dir(&files)?;
        let bytes = random_bytes(length, 1);
        // The contenders take turns, so that none has a quieter machine.
        let mut puts = [const { Vec::new() }; 4];
        let mut gets = [const { Vec::new() }; 4];
        for _ in 0..ROUND_COUNT {
            puts[0].push(slice(|i| put(&one, i, &bytes))?);
            puts[1].push(slice(|i| put_file(&files, i, &bytes))?);
            puts[2].push(slice(|i| sqlite.put(i, &bytes))?);
            puts[3].push(slice(|i| put(&three, i, &bytes))?);
            three.sync()?;
            gets[0].push(slice(|i| get(&one, i, length))?);
            gets[1].push(slice(|i| Ok(std::fs::read(files.join(key(i))).map(drop)?))?);
            gets[2].push(slice(|i| sqlite.get(i, length))?);
            gets[3].push(slice(|i| get(&three, i, length))?);
        }
        for (verb, all) in [("put", &puts), ("get", &gets)] {
            let [ours, files, sqlite, three] = all;
            let us = |slices: &[Times], share: f64| median(slices.iter().map(|t| t.quantile(share))) * 1e6;
            let details = |slices: &[Times]| {
                let runs = slices.iter().map(Times::count).sum::<usize>();
                format!("depth 1, p99 {:.0} us, {runs} runs", us(slices, 0.99))
            };
            let mut row = Row::new(
                "small",
                format!("{verb} {name}, 1 replica on tmpfs, beside a plain file there"),
                us(ours, 0.5),
                "us",
            );
            if length == 4 << 10 {
                row = row.goal(30.0, Better::Lower);
            }
            rows.push(row.beside(us(files, 0.5), Better::Lower).details(details(ours)));
            let what = format!("{verb} {name}, 1 replica on tmpfs, beside SQLite (WAL, unsynced) there");
            rows.push(
                Row::new("small", what, us(ours, 0.5), "us")
                    .beside(us(sqlite, 0.5), Better::Lower)
                    .details(details(sqlite)),
            );
            rows.push(
                Row::new("small", format!("{verb} {name}, 3 replicas: tmpfs and 2 on disk"), us(three, 0.5), "us")
                    .details(details(three)),
            );
        }
        for put in [true, false] {
            let mut rates = [(1, 1), (1, 2), (2, 1)].map(|workers| (workers, Vec::new()));
            // They take turns, too: each round of puts fills memory that was not used for longer, which is slower.
            for _ in 0..3 {
                for ((processes, threads), rates) in &mut rates {
                    let work = Work { threads: *threads, length, put };
                    rates.push(workers::run(one.dir(), *processes, &work)?.iter().map(|p| p[0]).sum());
                }
            }
            for ((processes, threads), rates) in rates {
                let verb = if put { "put" } else { "get" };
                let what = format!("{verb} {name}, {processes} processes of {threads} threads");
                rows.push(Row::new("small", what, median(rates), "1/s"));
            }
        }
    }
    Ok(rows)
}

impl workers::Work for Work {
    const WORK_NAME: &'static str = "small";

    fn work(&self, store: &Path, worker: u64, ready: impl FnOnce() -> std::io::Result<()>) -> Result<Vec<f64>> {
        work(&Store::open(store)?, worker, self, ready)
    }
}

/// Returns the rate of one process.
fn work(store: &Store, worker: u64, work: &Work, ready: impl FnOnce() -> std::io::Result<()>) -> Result<Vec<f64>> {
    let bytes = random_bytes(work.length, worker);
    ready()?;
    let begin = Instant::now();
    let counts: Vec<Result<usize>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..work.threads)
            .map(|thread| {
                let bytes = &bytes;
                scope.spawn(move || -> Result<usize> {
                    let mut count = 0;
                    while begin.elapsed() < Duration::from_secs(1) {
                        let i = (count * 4 + worker as usize * 2 + thread) % KEY_COUNT;
                        if work.put {
                            put(store, i, bytes)?
                        } else {
                            get(store, i, work.length)?
                        }
                        count += 1;
                    }
                    Ok(count)
                })
            })
            .collect();
        threads.into_iter().filter_map(|t| t.join().ok()).collect()
    });
    let total: usize = counts.into_iter().sum::<Result<usize>>()?;
    Ok(vec![total as f64 / begin.elapsed().as_secs_f64()])
}

fn slice(mut run: impl FnMut(usize) -> Result<()>) -> Result<Times> {
    let (begin, mut times) = (Instant::now(), Vec::new());
    while begin.elapsed() < SLICE_DURATION || times.len() < KEY_COUNT {
        let start = Instant::now();
        run(times.len() % KEY_COUNT)?;
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(Times::new(times))
}

fn key(i: usize) -> String {
    format!("object-{i:06}")
}

fn put(store: &Store, i: usize, bytes: &[u8]) -> Result<()> {
    store.put_bytes(key(i).as_bytes(), bytes, &PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() })?;
    Ok(())
}

fn get(store: &Store, i: usize, length: usize) -> Result<()> {
    anyhow::ensure!(store.get(key(i).as_bytes())?.len() == length);
    Ok(())
}

/// Replaces a file atomically, as a put does: a new file is renamed over the old one.
fn put_file(folder: &Path, i: usize, bytes: &[u8]) -> Result<()> {
    let new = folder.join("new");
    std::fs::write(&new, bytes)?;
    Ok(std::fs::rename(new, folder.join(key(i)))?)
}

struct Sqlite(Connection);

impl Sqlite {
    fn open(path: &Path) -> Result<Sqlite> {
        let connection = Connection::open(path)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; CREATE TABLE objects (key TEXT PRIMARY KEY, bytes BLOB) WITHOUT ROWID",
        )?;
        Ok(Sqlite(connection))
    }

    fn put(&self, i: usize, bytes: &[u8]) -> Result<()> {
        self.0.prepare_cached("INSERT OR REPLACE INTO objects VALUES (?1, ?2)")?.execute((key(i), bytes))?;
        Ok(())
    }

    fn get(&self, i: usize, length: usize) -> Result<()> {
        let mut statement = self.0.prepare_cached("SELECT bytes FROM objects WHERE key = ?1")?;
        let bytes: Vec<u8> = statement.query_row([key(i)], |row| row.get(0))?;
        anyhow::ensure!(bytes.len() == length);
        Ok(())
    }
}
