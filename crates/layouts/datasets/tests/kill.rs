//! kill -9: real processes write one dataset through different views and die at random moments and at fail points.
//! Afterwards every write is complete or absent, and all replicas agree. `TERRACE_KILLS` sets the number of kills,
//! `TERRACE_SEED` repeats a run.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use terrace::Store;
use terrace_datasets::{Dataset, Datasets, Declared};
use terrace_testkit::Random;

const FAIL_POINTS: [&str; 5] =
    ["batch:written", "batch:committed", "dataset:settled", "commit:logged", "mover:committed"];

const ROW_COUNT: usize = 4000;
const BASE_DECLARATION: &str = "
dataset {
    var data [4000]struct { a, b int32; c int64 }
}
view rows { var data = data }
view fields { var a [] { a } = data; var b [] { b } = data; var c [] { c } = data }
view b big { var b [] { b } = data }
view ca blocked(16) { var ca [] { c, a } = data }
replica rows { view rows }
replica fields { view fields; codec \"zstd\" }
replica late { view b; consistency async 20ms }
replica closed complete { view ca; consistency on-close }
";
const EXTRA_REPLICA: &str = "replica extra complete { view b }\n";

/// The values of a, b and c.
type Values = Vec<[i64; 3]>;

/// A write through a view: rows of one writer's half.
#[derive(Debug)]
struct Operation {
    view: &'static str,
    first: usize,
    count: usize,
    seed: u64,
}

impl Operation {
    fn of(who: u64, seed: u64) -> Operation {
        let mut random = Random::new(seed);
        let view = ["rows", "a", "b", "c"][random.below(4) as usize];
        let half = ROW_COUNT / 2;
        let first = random.below(half as u64) as usize;
        let most = [10, 300, half as u64][random.below(3) as usize];
        let count = 1 + random.below(most.min((half - first) as u64)) as usize;
        Operation { view, first: first + who as usize * half, count, seed }
    }

    /// Returns the next value.
    fn value(&self, row: usize, field: usize) -> i64 {
        i64::from((self.seed as u32).wrapping_mul(2_654_435_761).wrapping_add((row * 3 + field) as u32) as i32)
    }

    fn apply(&self, values: &mut Values) {
        for (row, values) in values.iter_mut().enumerate().skip(self.first).take(self.count) {
            for (field, name) in ["a", "b", "c"].into_iter().enumerate() {
                if self.view == "rows" || self.view == name {
                    values[field] = self.value(row, field);
                }
            }
        }
    }

    fn run(&self, dataset: &Dataset) -> terrace_datasets::Result<()> {
        let rows = self.first..self.first + self.count;
        let four = |field| rows.clone().map(move |row| self.value(row, field) as i32);
        let (view, offset, bytes): (&str, usize, Vec<u8>) = match self.view {
            "rows" => ("rows", self.first * 16, rows.clone().flat_map(|row| self.row(row)).collect()),
            "a" => ("fields", self.first * 4, four(0).flat_map(i32::to_le_bytes).collect()),
            "b" => ("b", self.first * 4, four(1).flat_map(i32::to_be_bytes).collect()),
            _ => {
                let bytes = rows.clone().flat_map(|row| self.value(row, 2).to_le_bytes()).collect();
                ("fields", ROW_COUNT * 8 + self.first * 8, bytes)
            }
        };
        let view = dataset.view(view)?;
        view.write_at(offset as u64, &bytes)?;
        if self.seed.is_multiple_of(7) { view.close() } else { Ok(()) }
    }

    fn row(&self, row: usize) -> Vec<u8> {
        let (a, b) = (self.value(row, 0) as i32, self.value(row, 1) as i32);
        [&a.to_le_bytes()[..], &b.to_le_bytes(), &self.value(row, 2).to_le_bytes()].concat()
    }
}

fn columns(values: &Values) -> Vec<u8> {
    let four = |field: usize| values.iter().flat_map(move |row| (row[field] as i32).to_le_bytes());
    four(0).chain(four(1)).chain(values.iter().flat_map(|row| row[2].to_le_bytes())).collect()
}

/// Returns the content of the replicas' files for these values.
fn files(values: &Values) -> [(&'static str, Vec<u8>); 4] {
    let rows = values.iter().flat_map(|row| {
        [&(row[0] as i32).to_le_bytes()[..], &(row[1] as i32).to_le_bytes(), &row[2].to_le_bytes()].concat()
    });
    let late = values.iter().flat_map(|row| (row[1] as i32).to_be_bytes());
    let blocks = values.chunks(16).flat_map(|block| {
        let c = block.iter().flat_map(|row| row[2].to_le_bytes());
        c.chain(block.iter().flat_map(|row| (row[0] as i32).to_le_bytes())).collect::<Vec<u8>>()
    });
    let rest = values.iter().flat_map(|row| (row[1] as i32).to_le_bytes());
    [
        ("rows", rows.collect()),
        ("fields", columns(values)),
        ("late", late.collect()),
        ("closed", blocks.chain(rest).collect()),
    ]
}

/// Not a test: the program of the killed processes.
#[test]
fn writer() {
    let Ok(text) = std::env::var("TERRACE_WRITER") else { return };
    let mut words = text.splitn(3, ' ');
    let mut number = || words.next().unwrap().parse::<u64>().unwrap();
    let (who, first) = (number(), number());
    let dir = Path::new(words.next().unwrap());
    let mut journal = OpenOptions::new().create(true).append(true).open(dir.join(format!("journal-{who}"))).unwrap();
    let store = Store::open(&dir.join("store")).unwrap();
    let dataset = Datasets::new(&store).open("d").unwrap();
    for seed in first.. {
        let operation = Operation::of(who, seed);
        journal.write_all(format!("{seed} begins\n").as_bytes()).unwrap();
        operation.run(&dataset).unwrap();
        journal.write_all(format!("{seed} ends\n").as_bytes()).unwrap();
        match (who, seed % 40) {
            (0, 10) => drop(dataset.change(&Declared::parse(&format!("{BASE_DECLARATION}{EXTRA_REPLICA}")).unwrap())),
            (0, 20) => drop(dataset.change(&Declared::parse(BASE_DECLARATION).unwrap())),
            (0, 30) => {
                dataset.settle().unwrap();
                let name = ["late", "fields", "closed"][(seed / 40 % 3) as usize];
                store.remove(format!("datasets/d/{name}").as_bytes()).unwrap();
            }
            (1, 15) => dataset.settle().unwrap(),
            _ => {}
        }
    }
}

fn spawn(dir: &Path, who: u64, first: u64, fail_point: Option<String>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "writer", "--nocapture"]).stdout(Stdio::null());
    command.stderr(File::create(dir.join(format!("stderr-{who}"))).unwrap());
    command.env("TERRACE_WRITER", format!("{who} {first} {}", dir.display()));
    if let Some(point) = fail_point {
        command.env("TERRACE_FAIL_POINT", point);
    }
    command.spawn().unwrap()
}

/// Applies the completed operations of a journal from seed `next` on. Returns the operation that was started and not
/// completed.
fn catch_up(dir: &Path, who: u64, next: &mut u64, values: &mut Values) -> Option<Operation> {
    let journal = fs::read_to_string(dir.join(format!("journal-{who}"))).unwrap_or_default();
    let mut open = None;
    for line in journal.lines() {
        let (seed, what) = line.split_once(' ').unwrap();
        let seed: u64 = seed.parse().unwrap();
        if seed < *next {
            continue;
        }
        if what == "ends" {
            Operation::of(who, seed).apply(values);
            *next = seed + 1;
            open = None;
        } else {
            open = Some(seed);
        }
    }
    if let Some(seed) = open {
        *next = seed + 1;
    }
    open.map(|seed| Operation::of(who, seed))
}

#[test]
fn all_replicas_agree_on_whole_writes_despite_kills() {
    let kills: u64 = std::env::var("TERRACE_KILLS").map_or(60, |n| n.parse().unwrap());
    let seed: u64 = std::env::var("TERRACE_SEED").map_or(1, |n| n.parse().unwrap());
    let mut random = Random::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let store = common::store(dir);
    Datasets::new(&store).add("d", BASE_DECLARATION).unwrap();
    drop(store);
    let mut values: Values = vec![[0; 3]; ROW_COUNT];
    let mut next = [seed << 32; 2];
    let (mut killed, mut unanswered, mut died_at) = (0, 0, std::collections::BTreeMap::<&str, u64>::new());
    while killed < kills {
        let round = killed / 2;
        let name = FAIL_POINTS[(round / 2) as usize % FAIL_POINTS.len()];
        let point = (round % 2 == 1).then(|| format!("{name}@{}", 1 + random.below(20)));
        let mut writers = [spawn(dir, 0, next[0], point.clone()), spawn(dir, 1, next[1], None)];
        std::thread::sleep(Duration::from_millis(80 + random.below(300)));
        let begin = Instant::now();
        while point.is_some() && begin.elapsed() < Duration::from_secs(5) && writers[0].try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        for (who, writer) in writers.iter_mut().enumerate() {
            let status = writer.try_wait().unwrap();
            let says = fs::read_to_string(dir.join(format!("stderr-{who}"))).unwrap();
            assert!(status.is_none_or(|s| s.code().is_none()), "round {round}, writer {who}: {says}");
            writer.kill().unwrap();
            if writer.wait().unwrap().signal() == Some(libc::SIGABRT) {
                *died_at.entry(name).or_default() += 1;
            }
            killed += 1;
        }
        let store = Store::open(&dir.join("store")).unwrap();
        let dataset = Datasets::new(&store).open("d").unwrap();
        let fields = dataset.view("fields").unwrap();
        let mut found = vec![0; ROW_COUNT * 16];
        fields.read_at(0, &mut found).unwrap();
        for who in [0, 1] {
            let open = catch_up(dir, who, &mut next[who as usize], &mut values);
            if let Some(operation) = open {
                let mut after = values.clone();
                operation.apply(&mut after);
                // The writers' halves are disjoint, so each writer's last request is determined separately.
                let (now, then) = (columns(&values), columns(&after));
                let came = (0..now.len()).filter(|i| now[*i] != then[*i]).any(|i| found[i] == then[i]);
                if came {
                    values = after;
                    unanswered += 1;
                }
            }
        }
        assert!(found == columns(&values), "round {round}, seed {seed}: writes are lost or halved");
        dataset.settle().unwrap();
        for (name, right) in files(&values) {
            let file = store.get(format!("datasets/d/{name}").as_bytes()).unwrap();
            assert!(file == right, "round {round}, seed {seed}: replica {name} does not agree");
        }
    }
    println!("{killed} kills, {unanswered} writes without an answer came through, all replicas agree");
    println!("of them at fail points: {died_at:?}; {} writes in all", next[0] + next[1] - 2 * (seed << 32));
}
