//! Reads are noted, and replicas are proposed by which they fetch fewer bytes.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
#[path = "../../views/tests/support/mod.rs"]
mod support;

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::process::Command;
use std::time::{Duration, Instant};

use support::{Random, oracle};
use terrace::Store;
use terrace_datasets::{Advice, Dataset, Datasets, Declared, Proposal, Verdict};
use terrace_views::model::{Model, Sizes};

const RECORD_COUNT: u64 = 20_000;
const RECORDS_DECLARATION: &str = "
dataset { var data [20000]struct { a, b, c, d float32; e, f, g, h int32 } }
view rows { var data = data }
view a { var a [] { a } = data }
view c { var c [] { c } = data }
replica rows { view rows }
";
const RECORD_BYTES: u64 = 32;
/// The store fetches chunks of this size.
const CHUNK_BYTES: u64 = 64 << 10;

fn records(store: &Store) -> Dataset {
    let dataset = Datasets::new(store).add("d", RECORDS_DECLARATION).unwrap();
    let numbers = (0..RECORD_COUNT * RECORD_BYTES / 4).flat_map(|number| (number as u32).to_le_bytes());
    dataset.view("rows").unwrap().write_at(0, &numbers.collect::<Vec<u8>>()).unwrap();
    dataset
}

fn read(dataset: &Dataset, view: &str, offset: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    assert_eq!(dataset.view(view).unwrap().read_at(offset, &mut bytes).unwrap() as u64, length);
    bytes
}

/// Opens a store again, in which nothing counts as read.
fn reopened(store: Store) -> Store {
    let dir = store.dir().to_owned();
    drop(store);
    std::fs::remove_file(dir.join("hotness")).unwrap();
    Store::open(&dir).unwrap()
}

/// Returns the bytes that were fetched since the store was opened again at or below a key, as the engine counts them. It leaves out parts that were
/// hardly read.
fn fetched(store: &Store, key: &str) -> f64 {
    let ranges = store.hot(key.as_bytes(), usize::MAX).unwrap();
    ranges.iter().map(|range| range.score * range.length as f64).sum()
}

fn best(advice: &Advice) -> Option<&Proposal> {
    advice.proposals.iter().find(|proposal| proposal.is_worth())
}

#[test]
fn columns_of_records_are_stored_by_field_and_then_fetch_fewer_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    drop(records(&store));
    let store = reopened(store);
    let dataset = Datasets::new(&store).open("d").unwrap();
    let column = RECORD_COUNT * 4;
    let right = [read(&dataset, "a", 0, column), read(&dataset, "c", 0, column)];
    let once = fetched(&store, "datasets/d");
    for _ in 0..300 {
        read(&dataset, "a", 0, column);
        read(&dataset, "c", 0, column);
    }
    let advice = dataset.advise().unwrap();
    assert_eq!(advice.accesses.len(), 2, "{advice:?}");
    for access in &advice.accesses {
        assert!((access.times - 301.0).abs() < 0.1, "{access:?}");
        assert_eq!((access.bytes, access.fetched_bytes), (column, RECORD_COUNT * RECORD_BYTES));
        assert_eq!((access.fields.len(), &access.fields[0].indices[..]), (1, &[(0, RECORD_COUNT)][..]));
    }
    assert!(best(&advice).is_some(), "{advice:?}");
    // The best one depends on measured times.
    let by_field = advice.proposals.iter().find(|proposal| proposal.name == "by_field_data_a_data_c");
    let best = by_field.unwrap_or_else(|| panic!("{advice:?}"));
    assert_eq!(best.layout, "data.a, data.c: each field by itself");
    assert_eq!(best.fetched_bytes.0, RECORD_COUNT * RECORD_BYTES);
    // Where the second field begins, one chunk has bytes of both.
    assert!((column..column + 2 * CHUNK_BYTES).contains(&best.fetched_bytes.1), "{best:?}");

    dataset.add_proposed(best).unwrap();
    let names: Vec<String> = dataset.replicas().unwrap().into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["rows", "by_field_data_a_data_c"]);
    drop(dataset);
    let store = reopened(store);
    let dataset = Datasets::new(&store).open("d").unwrap();
    assert_eq!(right, [read(&dataset, "a", 0, column), read(&dataset, "c", 0, column)]);
    let again = fetched(&store, "datasets/d");
    assert!(again < once / 6.0, "{again} bytes instead of {once}");
    let advice = dataset.advise().unwrap();
    assert!(advice.proposals.is_empty() && advice.accesses.len() == 2, "{advice:?}");
}

#[test]
fn records_that_are_read_as_a_whole_stay_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    let dataset = records(&store);
    for turn in 0..100 {
        read(&dataset, "rows", 0, RECORD_COUNT * RECORD_BYTES);
        read(&dataset, "rows", turn * 7919 % RECORD_COUNT * RECORD_BYTES, RECORD_BYTES);
    }
    let advice = dataset.advise().unwrap();
    assert!(advice.proposals.is_empty(), "{advice:?}");
    let times: Vec<f64> = advice.accesses.iter().map(|access| access.times.round()).collect();
    assert_eq!(times, [100.0, 100.0]);
}

/// The first replica of the choice stored each field by itself, and a read of one record fetched a chunk for each of its fields, though another
/// replica had the record in one piece.
#[test]
fn each_read_uses_the_replica_that_fetches_the_fewest_bytes_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    let text = "dataset { var m [3000, 500]float64 }
        view by_row { var m = m }
        view by_column { var m [j, i] = m[i, j] }
        replica row { view by_row }
        replica column { view by_column }";
    let dataset = Datasets::new(&store).add("d", text).unwrap();
    let numbers: Vec<u8> = (0..1_500_000u64).flat_map(|number| (number as f64).to_le_bytes()).collect();
    dataset.view("by_row").unwrap().write_at(0, &numbers).unwrap();
    drop(dataset);
    let mut store = reopened(store);
    for (view, own, other, length) in [("by_row", "row", "column", 500 * 8), ("by_column", "column", "row", 3000 * 8)] {
        let dataset = Datasets::new(&store).open("d").unwrap();
        // Not in their order.
        (0..200).for_each(|number| drop(read(&dataset, view, number * 7 % 499 * length, length)));
        let used = [own, other].map(|replica| fetched(&store, &format!("datasets/d/{replica}")));
        assert!(used[0] > 0.9 * (200 * length) as f64 && used[1] == 0.0, "{view} fetched {used:?} bytes");
        drop(dataset);
        store = reopened(store);
    }
}

#[test]
fn columns_of_a_matrix_are_stored_by_column() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    let text = "dataset { var m [250, 10000]float32 }\nview m { var m = m }\nreplica m { view m }";
    let dataset = Datasets::new(&store).add("d", text).unwrap();
    let (row, part) = (10_000 * 4, 100 * 4);
    // A hundred columns, as their part of each row, four times at different places.
    let columns = |dataset: &Dataset, place: u64| {
        (0..250).for_each(|number| drop(read(dataset, "m", number * row + place * part, part)));
    };
    (0..4).for_each(|place| columns(&dataset, place));
    let advice = dataset.advise().unwrap();
    let access = &advice.accesses[0];
    assert_eq!((access.times.round(), access.bytes), (4.0, 250 * part), "{advice:?}");
    assert_eq!(access.fields[0].indices, [(0, 250), (300, 400)]);
    let by_column = advice.proposals.iter().find(|proposal| proposal.layout == "m: the first index fastest");
    let by_column = by_column.unwrap_or_else(|| panic!("{advice:?}"));
    assert!(by_column.fetched_bytes.1 <= CHUNK_BYTES * 5 && by_column.fetched_bytes.0 > 7_000_000, "{by_column:?}");
    let tiles = advice.proposals.iter().find(|proposal| proposal.layout.contains("in tiles of")).unwrap();
    assert!(tiles.fetched_bytes.1 < tiles.fetched_bytes.0 / 10, "{tiles:?}");
    // The parts are known to follow each other, so that they are read from the columns.
    dataset.add_proposed(by_column).unwrap();
    drop(dataset);
    let store = reopened(store);
    let dataset = Datasets::new(&store).open("d").unwrap();
    (0..4).for_each(|place| columns(&dataset, place));
    let used = ["by_column_m", "m"].map(|replica| fetched(&store, &format!("datasets/d/{replica}")));
    // The engine does not count all of many short reads.
    assert!(used[0] > 0.0 && used[1] < (4 * 5 * part) as f64, "{used:?}");
}

#[test]
fn reads_are_remembered_by_other_processes_and_forgotten_with_the_dataset() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    let datasets = Datasets::new(&store);
    drop(records(&store));
    for _ in 0..3 {
        let dataset = Datasets::new(&store).open("d").unwrap();
        (0..5).for_each(|_| drop(read(&dataset, "a", 0, 4000)));
    }
    let noted = |datasets: &Datasets| datasets.open("d").unwrap().advise().unwrap().accesses;
    assert_eq!(noted(&datasets).iter().map(|access| access.times.round()).collect::<Vec<_>>(), [15.0]);
    let file = dir.path().join("store/datasets/d.reads");
    assert!(std::fs::metadata(&file).unwrap().len() < 1000);
    // What cannot be kept fails nothing.
    std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file.parent().unwrap(), "no folder").unwrap();
    read(&datasets.open("d").unwrap(), "a", 0, 4000);
    std::fs::remove_file(file.parent().unwrap()).unwrap();
    read(&datasets.open("d").unwrap(), "a", 0, 4000);
    std::fs::write(&file, "damaged").unwrap();
    assert!(noted(&datasets).len() <= 1);
    datasets.remove("d").unwrap();
    assert!(!file.exists());
    records(&store);
    assert!(noted(&datasets).is_empty());
}

#[test]
fn a_replica_for_which_no_tier_has_room_is_not_worth_it() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "[store]\nreplicas = {{ default = 1 }}\n[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\ncapacity = '6MiB'\n",
        dir.path().join("disk").display()
    );
    let store = Store::init(&dir.path().join("store"), &terrace::Config::parse(&text, "test").unwrap()).unwrap();
    let dataset = Datasets::new(&store)
        .add("d", "dataset { var data [400000]struct { a, b, c, d uint32 } }\nview rows { var data = data }\nview ab { var ab [] { a, b } = data }\nreplica rows { view rows; codec \"none\" }")
        .unwrap();
    let mut random = Random::new(1);
    let noise: Vec<u8> = (0..400_000 * 16 / 8).flat_map(|_| random.next().to_le_bytes()).take(5 << 20).collect();
    dataset.view("rows").unwrap().write_at(0, &noise).unwrap();
    (0..5).for_each(|_| drop(read(&dataset, "ab", 0, 400_000 * 8)));
    let advice = dataset.advise().unwrap();
    assert!(!advice.proposals.is_empty(), "{advice:?}");
    assert!(advice.proposals.iter().all(|proposal| proposal.verdict == Verdict::NoRoom), "{advice:?}");
}

/// Returns the chunks of a replica's files that have the elements which bytes of a view show.
fn chunks(model: &Model, view: &str, replica: usize, bytes: Range<usize>) -> BTreeSet<(usize, u64)> {
    let sizes = Sizes::new();
    let shown = oracle::view(model.view(view).unwrap(), model, &sizes);
    let shown: HashSet<oracle::Origin> = shown[bytes].iter().flatten().copied().collect();
    let mut chunks = BTreeSet::new();
    for (file, image) in oracle::replica(&model.replicas[replica], model, &sizes).iter().enumerate() {
        let own = image.iter().enumerate().filter(|(_, origin)| origin.is_some_and(|origin| shown.contains(&origin)));
        chunks.extend(own.map(|(at, _)| (file, at as u64 / CHUNK_BYTES)));
    }
    chunks
}

/// Returns the bytes of these chunks.
fn bytes_of(chunks: &BTreeSet<(usize, u64)>, model: &Model, replica: usize) -> u64 {
    let images = oracle::replica(&model.replicas[replica], model, &Sizes::new());
    let length = |(file, chunk): &(usize, u64)| (images[*file].len() as u64 - chunk * CHUNK_BYTES).min(CHUNK_BYTES);
    chunks.iter().map(length).sum()
}

/// Random arrays and requests: the bytes now, and with each proposal, are those of the oracle, which looks at each byte by itself.
#[test]
fn estimated_bytes_equal_the_oracle() {
    let mut proposed = 0;
    for seed in 0..12 {
        let mut r = Random::new(seed);
        let (rows, columns) = (30 + r.below(100), 30 + r.below(100));
        let fields: String = (0..1 + r.below(3)).map(|n| format!("f{n} {}; ", r.of(&["int16", "float64"]))).collect();
        let (order, stored) =
            (r.of(&["i, j", "j, i"]), r.of(&["", " rowminor", " tiled(8, 16)", " blocked(32)", " big"]));
        let text = format!(
            "dataset {{ var m [{rows}, {columns}]struct {{ {fields} }} }}
            view all{stored} {{ var m = m }}
            view some {{ var f [{order}] {{ f0 }} = m[i, j] }}
            replica main {{ view all }}"
        );
        let dir = tempfile::tempdir().unwrap();
        let store = common::store(dir.path());
        let dataset = Datasets::new(&store).add("d", &text).unwrap();
        let length = dataset.view("some").unwrap().length().unwrap();
        let start = r.below(length);
        let count = 1 + r.below(length - start);
        (0..50).for_each(|_| drop(read(&dataset, "some", start, count)));
        let advice = dataset.advise().unwrap();
        let bytes = start as usize..(start + count) as usize;
        let model = |text: &str| Declared::parse(text).unwrap().model;
        let old = model(&dataset.declaration().unwrap());
        let now = bytes_of(&chunks(&old, "some", 0, bytes.clone()), &old, 0);
        assert_eq!(advice.accesses[0].fetched_bytes, now, "seed {seed}: {text}");
        for proposal in &advice.proposals {
            let new = model(&format!("{}\n{}", dataset.declaration().unwrap(), proposal.declaration));
            let then = bytes_of(&chunks(&new, "some", 1, bytes.clone()), &new, 1);
            assert_eq!(proposal.fetched_bytes, (now, then), "seed {seed}: {text}{}", proposal.declaration);
            proposed += 1;
        }
    }
    assert!(proposed > 4, "only {proposed} replicas were proposed");
}

/// A child that reads without closing anything, when its parent names a store.
#[test]
fn what_a_killed_process_read_is_lost_at_most_for_a_second() {
    const STORE_VARIABLE: &str = "TERRACE_TEST_STORE";
    const MAX_CHILD_LIFETIME: Duration = Duration::from_secs(150);
    if let Some(folder) = std::env::var_os(STORE_VARIABLE) {
        let store = Store::open(std::path::Path::new(&folder)).unwrap();
        let dataset = Datasets::new(&store).open("d").unwrap();
        // The parent kills it before, unless the test has failed.
        let begun = Instant::now();
        while begun.elapsed() < MAX_CHILD_LIFETIME {
            read(&dataset, "a", 0, 4000);
        }
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    drop(records(&store));
    let own = "what_a_killed_process_read_is_lost_at_most_for_a_second";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", own, "--nocapture"])
        .env(STORE_VARIABLE, dir.path().join("store"))
        .spawn()
        .unwrap();
    let file = dir.path().join("store/datasets/d.reads");
    terrace_testkit::wait_until("the child keeps its reads", || file.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let advice = Datasets::new(&store).open("d").unwrap().advise().unwrap();
    assert!(advice.accesses[0].times >= 1.0, "{advice:?}");
}
