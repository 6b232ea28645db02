//! Errors of the original DRepl release, as reproduced there, and the correct results here.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use terrace::{PutOptions, Store};
use terrace_datasets::{Dataset, Datasets, Error};

const VIEWS_DECLARATION: &str = "
dataset {
    const N = 1000
    type Point struct { a, b, c float32 }
    var data [N]Point
}
view aos { var data = data }
view soa {
    var a [] { a } = data
    var b [] { b } = data
    var c [] { c } = data
}
view b { var b [] { b } = data }
";
const POINT_COUNT: usize = 1000;

fn value(field: usize, element: usize) -> [u8; 4] {
    ((field * 100_000 + element) as f32).to_le_bytes()
}

fn aos() -> Vec<u8> {
    (0..POINT_COUNT).flat_map(|i| (0..3).flat_map(move |field| value(field, i))).collect()
}

fn field(number: usize) -> Vec<u8> {
    (0..POINT_COUNT).flat_map(|i| value(number, i)).collect()
}

fn soa() -> Vec<u8> {
    (0..3).flat_map(field).collect()
}

fn dataset(dir: &Path, replicas: &str) -> (Store, Dataset) {
    let store = common::store(dir);
    let dataset = Datasets::new(&store).add("points", &format!("{VIEWS_DECLARATION}{replicas}")).unwrap();
    (store, dataset)
}

fn read(dataset: &Dataset, view: &str) -> Vec<u8> {
    let view = dataset.view(view).unwrap();
    let mut out = vec![0xee; view.length().unwrap() as usize];
    assert_eq!(view.read_at(0, &mut out).unwrap(), out.len());
    out
}

/// In the original, `soa` shows field a in place of b and c if only `aos` is stored.
#[test]
fn a_view_without_a_replica_shows_each_field_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, dataset) = dataset(dir.path(), "replica main { view aos }");
    dataset.view("aos").unwrap().write_at(0, &aos()).unwrap();
    assert!(read(&dataset, "soa") == soa());
    assert!(read(&dataset, "b") == field(1));
}

/// In the original, writes through such a view put c into a.
#[test]
fn writes_through_a_view_without_a_replica_reach_their_fields() {
    let dir = tempfile::tempdir().unwrap();
    let (store, dataset) = dataset(dir.path(), "replica main { view aos }");
    dataset.view("soa").unwrap().write_at(0, &soa()).unwrap();
    assert!(read(&dataset, "aos") == aos());
    assert!(store.get(b"datasets/points/main").unwrap() == aos());
}

/// In the original, `aos` shows wrong bytes and `b` crashes the server if only `soa` is stored.
#[test]
fn a_structure_of_arrays_can_be_the_only_replica() {
    let dir = tempfile::tempdir().unwrap();
    let (store, dataset) = dataset(dir.path(), "replica main { view soa }");
    dataset.view("aos").unwrap().write_at(0, &aos()).unwrap();
    assert!(read(&dataset, "aos") == aos());
    assert!(read(&dataset, "b") == field(1));
    assert!(store.get(b"datasets/points/main").unwrap() == soa());
}

/// In the original, the files of replicas are emptied whenever the server starts.
#[test]
fn a_reopened_dataset_is_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let (store, dataset) = dataset(dir.path(), "replica main { view aos } replica other complete { view b }");
    dataset.view("soa").unwrap().write_at(0, &soa()).unwrap();
    drop((dataset, store));
    let store = Store::open(&dir.path().join("store")).unwrap();
    let dataset = Datasets::new(&store).open("points").unwrap();
    assert!(read(&dataset, "aos") == aos());
    assert!(read(&dataset, "b") == field(1));
    drop((dataset, store));
    let store = Store::rebuild(&dir.path().join("store")).unwrap();
    assert!(read(&Datasets::new(&store).open("points").unwrap(), "soa") == soa());
}

/// Not an error of the original: the paper requires that any replica can be rebuilt from the others, whatever their
/// layout.
#[test]
fn a_damaged_replica_is_rebuilt_from_another_layout() {
    let dir = tempfile::tempdir().unwrap();
    let (store, dataset) = dataset(dir.path(), "replica rows { view aos } replica fields { view soa }");
    dataset.view("aos").unwrap().write_at(0, &aos()).unwrap();
    for key in [&b"datasets/points/rows"[..], b"datasets/points/fields"] {
        let replica = store.locate(key).unwrap().extents.remove(0).replicas.remove(0);
        let (file, position) = (replica.file.unwrap(), replica.position.unwrap());
        let mut bytes = std::fs::read(&file).unwrap();
        let end = position as usize + replica.stored as usize;
        bytes[position as usize + 100..end].fill(0x55);
        std::fs::write(&file, bytes).unwrap();
        assert!(read(&dataset, "soa") == soa());
        assert!(read(&dataset, "aos") == aos());
        dataset.repair(false).unwrap();
        assert!(store.get(key).unwrap().len() == 12 * POINT_COUNT);
    }
    // Another program replaces the object.
    store.put_bytes(b"datasets/points/rows", b"no rows", &PutOptions::default()).unwrap();
    assert!(read(&dataset, "aos") == aos());
    dataset.repair(false).unwrap();
    assert!(store.get(b"datasets/points/rows").unwrap() == aos());
    // Now it is deleted.
    store.remove(b"datasets/points/rows").unwrap();
    assert!(read(&dataset, "aos") == aos());
    assert_eq!(dataset.repair(false).unwrap().gone, 1);
    assert!(store.get(b"datasets/points/rows").unwrap() == aos());
    // Bytes that no other replica has are lost, and a read reports that instead of returning zeros.
    store.remove(b"datasets/points/fields").unwrap();
    store.remove(b"datasets/points/rows").unwrap();
    assert!(matches!(dataset.view("b").unwrap().read_at(0, &mut [0]), Err(Error::Lost { .. })));
    assert!(matches!(dataset.view("b").unwrap().write_at(0, &[0]), Err(Error::Lost { .. })));
    assert_eq!(dataset.repair(false).unwrap().lost, 2);
    assert!(matches!(dataset.view("b").unwrap().read_at(0, &mut [0]), Err(Error::Lost { .. })));
    dataset.repair(true).unwrap();
    assert!(read(&dataset, "b") == vec![0; 4 * POINT_COUNT]);
}
