//! Two processes: one changes the declaration, and the other, which has the dataset open, follows it at its next write.
//!
//! Once, the other process wrote new replicas but placed them by the rules that held when it opened the store: on any
//! tier and in any encoding.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use terrace::report::ReplicaState;
use terrace::{Encoding, Store};
use terrace_datasets::{Datasets, Declared};

const ROW_COUNT: usize = 50_000;
const VIEWS_DECLARATION: &str = "
dataset { var data [50000]struct { a, b int32 } }
view rows { var data = data }
view fields { var a [] { a } = data; var b [] { b } = data }
replica rows { view rows }
";
const DENSE_REPLICA: &str = "replica dense { view fields; tier disk; codec \"shuffle4+zstd\" }\n";
const QUICK_REPLICA: &str = "replica dense { view fields; tier ram; codec \"none\" }\n";

/// The other process, which writes all rows on each request.
struct Writer(Child);

impl Writer {
    fn new(dir: &Path) -> Writer {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "writer", "--nocapture"]).env("TEST_DIR", dir);
        Writer(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn write(&mut self, value: i32) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{value}").unwrap();
        let done = format!("wrote {value}");
        let mut lines = BufReader::new(self.0.stdout.as_mut().unwrap()).lines();
        lines.find(|line| line.as_ref().is_ok_and(|line| line.ends_with(&done))).unwrap().unwrap();
    }

    fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

#[test]
fn writer() {
    let Ok(dir) = std::env::var("TEST_DIR") else { return };
    let store = Store::open(&Path::new(&dir).join("store")).unwrap();
    let view = Datasets::new(&store).open("d").unwrap().view("rows").unwrap();
    for line in std::io::stdin().lines() {
        let value: i32 = line.unwrap().parse().unwrap();
        view.write_at(0, &rows(value)).unwrap();
        println!("wrote {value}");
    }
}

fn rows(value: i32) -> Vec<u8> {
    (0..2 * ROW_COUNT as i32).flat_map(|number| (number / 100 * value).to_le_bytes()).collect()
}

/// Returns the tiers and encodings of a replica, in the words of its rule.
fn stored(store: &Store, key: &[u8]) -> Vec<(String, String)> {
    let extents = store.locate(key).unwrap().extents;
    let there = extents.iter().flat_map(|extent| &extent.replicas).filter(|one| one.state == ReplicaState::Present);
    let mut all: Vec<_> = there.map(|one| (one.tier.clone(), one.encoding.clone())).collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn rules_that_were_not_set_before_a_crash_are_set_on_opening() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    drop(Datasets::new(&store).add("d", &format!("{VIEWS_DECLARATION}{DENSE_REPLICA}")).unwrap());
    let rules = || std::fs::read_to_string(dir.path().join("store/terrace.toml")).unwrap();
    let declared = rules();
    store.set_rules("datasets/d", Vec::new()).unwrap();
    assert!(declared.contains("shuffle4+zstd") && !rules().contains("shuffle4+zstd"));
    Datasets::new(&store).open("d").unwrap();
    assert_eq!(rules(), declared);
}

#[test]
fn an_open_dataset_follows_changes_of_its_declaration() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    let datasets = Datasets::new(&store);
    let dataset = datasets.add("d", VIEWS_DECLARATION).unwrap();
    let mut writer = Writer::new(dir.path());
    writer.write(1);
    for (value, replica, tier, encoding) in
        [(2, DENSE_REPLICA, "disk", "shuffle4+zstd"), (3, QUICK_REPLICA, "ram", "none")]
    {
        dataset.change(&Declared::parse(&format!("{VIEWS_DECLARATION}{replica}")).unwrap()).unwrap();
        writer.write(value);
        let encoding = encoding.parse::<Encoding>().unwrap().to_string();
        let places = stored(&store, b"datasets/d/dense");
        assert_eq!(places, [(tier.to_owned(), encoding)], "after {replica}");
        let fields = store.get(b"datasets/d/dense").unwrap();
        let all = rows(value);
        let a: Vec<u8> = all.chunks(8).flat_map(|row| row[..4].to_vec()).collect();
        assert_eq!(fields[..4 * ROW_COUNT], a);
    }
    dataset.change(&Declared::parse(VIEWS_DECLARATION).unwrap()).unwrap();
    writer.write(4);
    assert!(store.stat(b"datasets/d/dense").is_err(), "it is gone for both");
    writer.end();
}
