//! Datasets in a golden store of an older version, which every later version must read. `make golden` writes missing
//! archives.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use terrace::Store;
use terrace_datasets::{Dataset, Datasets};
use terrace_testkit::golden::{archive, is_wanted, pack, unpack};

const ELEMENT_COUNT: usize = 300;
const DECLARATION_TEXT: &str = "
dataset { var data [300]struct { a, b, c int32 } }
view rows { var data = data }
view fields { var a [] { a } = data; var b [] { b } = data; var c [] { c } = data }
replica rows { view rows }
replica now { view fields; backend hdf5 }
replica later { view fields; consistency async 100000s }
";

/// Element `i` of field `f` is `4 * i + f`.
fn rows() -> Vec<u8> {
    (0..ELEMENT_COUNT).flat_map(|i| (0..3).flat_map(move |f| ((4 * i + f) as i32).to_le_bytes())).collect()
}

fn fields() -> Vec<u8> {
    (0..3).flat_map(|f| (0..ELEMENT_COUNT).flat_map(move |i| ((4 * i + f) as i32).to_le_bytes())).collect()
}

fn read(dataset: &Dataset, view: &str) -> Vec<u8> {
    let mut out = vec![0xee; rows().len()];
    assert_eq!(dataset.view(view).unwrap().read_at(0, &mut out).unwrap(), out.len());
    out
}

fn write(dir: &Path, archive: &Path) {
    let store = common::store(dir);
    let dataset = Datasets::new(&store).add("d", DECLARATION_TEXT).unwrap();
    dataset.view("rows").unwrap().write_at(0, &rows()).unwrap();
    store.sync().unwrap();
    pack(dir, archive);
}

#[test]
fn views_of_a_golden_dataset_show_its_bytes_and_owed_replicas_are_made() {
    let archive = archive(env!("CARGO_MANIFEST_DIR"), "dataset");
    if is_wanted(&archive) {
        write(tempfile::tempdir().unwrap().path(), &archive);
    }
    let dir = tempfile::tempdir().unwrap();
    unpack(&archive, dir.path());
    let home = dir.path().join("store");
    fs::write(home.join("terrace.toml"), common::config(dir.path()).to_toml()).unwrap();
    let store = Store::open(&home).unwrap();
    let owed = || store.stat(b"datasets/d/later").unwrap().attributes.user.get("terrace.owed").cloned();
    assert!(owed().is_some_and(|ranges| !ranges.is_empty()), "a replica follows later");
    let dataset = Datasets::new(&store).open("d").unwrap();
    assert!(read(&dataset, "rows") == rows() && read(&dataset, "fields") == fields());
    assert!(store.get(b"datasets/d/rows").unwrap() == rows());
    assert!(store.get(b"datasets/d/now").unwrap().starts_with(b"\x89HDF"));
    dataset.settle().unwrap();
    assert!(store.get(b"datasets/d/later").unwrap() == fields() && owed().is_none_or(|ranges| ranges.is_empty()));
}
