//! Datasets in a golden store of an older version, which every later version must read. `make golden` writes missing
//! archives.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use terrace::Store;
use terrace_datasets::{Dataset, Datasets, Format};
use terrace_testkit::golden::{archive, is_wanted, pack, unpack};
use terrace_views::model::Attribute;

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
    // The head is of this version as well, so the place of the bytes behind it is known.
    dataset.view("fields").unwrap().export(Format::Hdf5, &dir.path().join("now.h5")).unwrap();
    assert!(store.get(b"datasets/d/now").unwrap() == fs::read(dir.path().join("now.h5")).unwrap());
    dataset.settle().unwrap();
    assert!(store.get(b"datasets/d/later").unwrap() == fields() && owed().is_none_or(|ranges| ranges.is_empty()));
}

const DESCRIBED_TEXT: &str = "
dataset {
    attribute title = \"golden\"
    var data [300]struct { a int32; b float32 }
    attribute data.a flags = char [\"on\", \"off\"]
    attribute data.b range = float32 [[0.5, inf], [-1.5, nan]]
    fill data.a = -7
}
view rows { var data = data }
replica rows { view rows }
replica plotted { view rows; backend hdf5 }
";

/// The first 100 elements are written.
fn described_rows() -> Vec<u8> {
    (0..300).flat_map(|i| [if i < 100 { i } else { -7i32 }.to_le_bytes(), [0; 4]].concat()).collect()
}

#[test]
fn a_golden_dataset_has_its_attributes_and_fill_values() {
    let archive = archive(env!("CARGO_MANIFEST_DIR"), "dataset-attributes");
    if is_wanted(&archive) {
        let dir = tempfile::tempdir().unwrap();
        let store = common::store(dir.path());
        let dataset = Datasets::new(&store).add("d", DESCRIBED_TEXT).unwrap();
        dataset.view("rows").unwrap().write_at(0, &described_rows()[..800]).unwrap();
        store.sync().unwrap();
        pack(dir.path(), &archive);
    }
    let dir = tempfile::tempdir().unwrap();
    unpack(&archive, dir.path());
    let home = dir.path().join("store");
    fs::write(home.join("terrace.toml"), common::config(dir.path()).to_toml()).unwrap();
    let store = Store::open(&home).unwrap();
    let dataset = Datasets::new(&store).open("d").unwrap();
    let values = |attributes: &[Attribute]| attributes.iter().map(|one| one.value.to_string()).collect::<Vec<_>>();
    assert_eq!(values(&dataset.attributes().unwrap()), ["\"golden\""]);
    let described = dataset.view("rows").unwrap().describe().unwrap().unwrap().remove(0);
    let of_members: Vec<String> = described.members.iter().flat_map(|(_, own)| values(own)).collect();
    assert_eq!(of_members, ["char [\"on\", \"off\"]", "float32 [[0.5, inf], [-1.5, nan]]"]);
    let mut out = vec![0xee; 2400];
    dataset.view("rows").unwrap().read_at(0, &mut out).unwrap();
    assert!(out == described_rows() && store.get(b"datasets/d/rows").unwrap() == described_rows());
    let file = store.get(b"datasets/d/plotted").unwrap();
    assert!(file.starts_with(b"\x89HDF") && file.ends_with(&described_rows()));
    assert!(dataset.replicas().unwrap().iter().all(|(.., lacks)| !lacks));
}

/// The values of variable size are in a file each, and their number is in the first.
const VARYING_TEXT: &str = "
dataset { var n uint32; var a, b [n]int32 }
view n { var n = n }
view a { var a = a }
view b { var b = b }
view all { var n = n; var a = a; var b = b }
replica all { view all }
replica later { view all; consistency async 100000s }
";

fn varying_rows(seed: i32) -> Vec<u8> {
    (0..200).flat_map(|i| (i * 7 + seed).to_le_bytes()).collect()
}

#[test]
fn a_golden_dataset_of_several_files_is_read_and_repaired() {
    let archive = archive(env!("CARGO_MANIFEST_DIR"), "dataset-files");
    if is_wanted(&archive) {
        let dir = tempfile::tempdir().unwrap();
        let store = common::store(dir.path());
        let dataset = Datasets::new(&store).add("d", VARYING_TEXT).unwrap();
        for (view, bytes) in [("n", 200u32.to_le_bytes().to_vec()), ("a", varying_rows(1)), ("b", varying_rows(2))] {
            dataset.view(view).unwrap().write_at(0, &bytes).unwrap();
        }
        store.sync().unwrap();
        pack(dir.path(), &archive);
    }
    let dir = tempfile::tempdir().unwrap();
    unpack(&archive, dir.path());
    let home = dir.path().join("store");
    fs::write(home.join("terrace.toml"), common::config(dir.path()).to_toml()).unwrap();
    let store = Store::open(&home).unwrap();
    let dataset = Datasets::new(&store).open("d").unwrap();
    let read = |view: &str| {
        let mut out = vec![0xee; 800];
        assert_eq!(dataset.view(view).unwrap().read_at(0, &mut out).unwrap(), out.len());
        out
    };
    let check = || {
        assert!(read("a") == varying_rows(1) && read("b") == varying_rows(2));
        assert!(store.get(b"datasets/d/all/1").unwrap() == varying_rows(2));
    };
    check();
    dataset.settle().unwrap();
    assert!(store.get(b"datasets/d/later/1").unwrap() == varying_rows(2));
    // The first file of the other replica has the same number of elements.
    for file in [&b"datasets/d/all/0"[..], b"datasets/d/all/1"] {
        store.remove(file).unwrap();
    }
    dataset.repair(false).unwrap();
    check();
}
