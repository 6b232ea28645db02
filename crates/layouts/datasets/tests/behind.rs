//! Replicas that lag behind or are unreadable for a while: no write is reverted, and no stored byte is lost.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use terrace::Store;
use terrace_datasets::{Dataset, Datasets, Error};

const ROW_COUNT: usize = 30_000;
const ROWS_DECLARATION: &str = "
dataset { var data [30000]struct { a, b, c int32 } }
view rows { var data = data }
view fields { var a [] { a } = data; var b [] { b } = data; var c [] { c } = data }
replica rows { view rows }
replica fields { view fields; consistency async 1000s }
";

fn dataset(dir: &Path, text: &str) -> (Store, Dataset) {
    let store = common::store(dir);
    let dataset = Datasets::new(&store).add("d", text).unwrap();
    (store, dataset)
}

/// Makes rows whose numbers all equal `value`.
fn rows(value: i32, count: usize) -> Vec<u8> {
    value.to_le_bytes().repeat(3 * count)
}

fn read(dataset: &Dataset, view: &str, at: usize, length: usize) -> Result<Vec<u8>, Error> {
    let mut out = vec![0xee; length];
    let read = dataset.view(view)?.read_at(at as u64, &mut out)?;
    assert_eq!(read, length);
    Ok(out)
}

/// Returns the places of an object's bytes.
fn places(store: &Store, key: &str) -> Vec<(PathBuf, u64, u64)> {
    let extents = store.locate(key.as_bytes()).unwrap().extents;
    let replicas = extents.into_iter().flat_map(|extent| extent.replicas);
    replicas.filter_map(|replica| Some((replica.file?, replica.position?, replica.stored))).collect()
}

/// Makes the bytes of an object unreadable. Returns their places and values.
fn break_bytes(store: &Store, key: &str) -> Vec<((PathBuf, u64, u64), Vec<u8>)> {
    store.sync().unwrap();
    let mut before = Vec::new();
    for place in places(store, key) {
        let file = OpenOptions::new().read(true).write(true).open(&place.0).unwrap();
        let mut bytes = vec![0; place.2 as usize];
        file.read_exact_at(&mut bytes, place.1).unwrap();
        before.push((place, bytes));
    }
    for (place, bytes) in &before {
        let file = OpenOptions::new().write(true).open(&place.0).unwrap();
        file.write_all_at(&vec![0x55; bytes.len()], place.1).unwrap();
    }
    before
}

/// Makes the bytes readable again, if the object is still there.
fn mend_bytes(store: &Store, key: &str, before: Vec<((PathBuf, u64, u64), Vec<u8>)>) {
    let now = places(store, key);
    for (place, bytes) in before.into_iter().filter(|(place, _)| now.contains(place)) {
        OpenOptions::new().write(true).open(&place.0).unwrap().write_all_at(&bytes, place.1).unwrap();
    }
}

fn lost<T>(found: Result<T, Error>) -> bool {
    matches!(found, Err(Error::Lost { .. }))
}

/// Makes elements 100..200 newer in `rows` than in the other replica.
fn ahead(dataset: &Dataset) {
    let view = dataset.view("rows").unwrap();
    view.write_at(0, &rows(1, ROW_COUNT)).unwrap();
    dataset.settle().unwrap();
    view.write_at(1200, &rows(2, 100)).unwrap();
}

#[test]
fn a_replica_that_is_behind_does_not_replace_an_unreadable_one() {
    let dir = tempfile::tempdir().unwrap();
    let (store, dataset) = dataset(dir.path(), ROWS_DECLARATION);
    ahead(&dataset);
    let before = break_bytes(&store, "datasets/d/rows");
    assert!(lost(read(&dataset, "rows", 1200, 1200)), "what was written is taken back");
    assert!(lost(read(&dataset, "fields", 0, 12 * ROW_COUNT)));
    // The other replica's bytes are still readable.
    assert!(read(&dataset, "rows", 2400, 12 * ROW_COUNT - 2400).unwrap() == rows(1, ROW_COUNT - 200));
    dataset.settle().unwrap();
    assert!(lost(read(&dataset, "rows", 1200, 1200)));
    mend_bytes(&store, "datasets/d/rows", before);
    let right = [rows(1, 100), rows(2, 100), rows(1, ROW_COUNT - 200)].concat();
    assert!(read(&dataset, "rows", 0, 12 * ROW_COUNT).unwrap() == right);
    dataset.settle().unwrap();
    assert!(store.get(b"datasets/d/rows").unwrap() == right);
    let columns = store.get(b"datasets/d/fields").unwrap();
    assert!((0..3).all(|column| columns[4 * (column * ROW_COUNT + 100)..][..400] == 2i32.to_le_bytes().repeat(100)));
}

#[test]
fn a_replica_that_is_behind_does_not_restore_deleted_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (store, dataset) = dataset(dir.path(), ROWS_DECLARATION);
    ahead(&dataset);
    store.remove(b"datasets/d/rows").unwrap();
    for _ in 0..2 {
        assert!(lost(read(&dataset, "rows", 1200, 1200)), "what was written is taken back");
        assert!(read(&dataset, "rows", 2400, 12 * ROW_COUNT - 2400).unwrap() == rows(1, ROW_COUNT - 200));
        assert_eq!(dataset.repair(false).unwrap().lost, 2);
    }
    // Overwritten bytes are readable again.
    dataset.view("rows").unwrap().write_at(1200, &rows(3, 100)).unwrap();
    let right = [rows(1, 100), rows(3, 100), rows(1, ROW_COUNT - 200)].concat();
    assert!(read(&dataset, "rows", 0, 12 * ROW_COUNT).unwrap() == right);
    assert_eq!(dataset.repair(false).unwrap().lost, 0);
    assert!(store.get(b"datasets/d/rows").unwrap() == right);
}

#[test]
fn bytes_of_a_single_replica_return_when_it_is_readable_again() {
    const ONE_REPLICA: &str = "
        dataset { var n uint32; var data [n]struct { a, b, c int32 } }
        view n { var n = n }
        view rows { var data = data }
        replica n { view n }
        replica rows { view rows }
    ";
    let dir = tempfile::tempdir().unwrap();
    let (store, dataset) = dataset(dir.path(), ONE_REPLICA);
    let (n, view) = (dataset.view("n").unwrap(), dataset.view("rows").unwrap());
    n.write_at(0, &30_000u32.to_le_bytes()).unwrap();
    view.write_at(0, &rows(1, ROW_COUNT)).unwrap();
    let before = break_bytes(&store, "datasets/d/rows/0");
    assert!(!before.is_empty() && lost(read(&dataset, "rows", 0, 12 * ROW_COUNT)));
    assert_eq!(dataset.repair(false).unwrap().lost, 1);
    mend_bytes(&store, "datasets/d/rows/0", before);
    assert!(read(&dataset, "rows", 0, 12 * ROW_COUNT).unwrap() == rows(1, ROW_COUNT));
    n.write_at(0, &20_000u32.to_le_bytes()).unwrap();
    assert!(read(&dataset, "rows", 0, 12 * 20_000).unwrap() == rows(1, 20_000));
}

#[test]
fn an_accepted_loss_reads_as_zeros() {
    let dir = tempfile::tempdir().unwrap();
    let text = ROWS_DECLARATION.split("replica fields").next().unwrap();
    let (store, dataset) = dataset(dir.path(), text);
    dataset.view("rows").unwrap().write_at(0, &rows(1, ROW_COUNT)).unwrap();
    break_bytes(&store, "datasets/d/rows");
    assert!(lost(read(&dataset, "fields", 0, 12 * ROW_COUNT)));
    assert_eq!(dataset.repair(true).unwrap().lost, 1);
    assert!(read(&dataset, "rows", 0, 12 * ROW_COUNT).unwrap() == rows(0, ROW_COUNT));
}

#[test]
fn shortening_an_array_keeps_bytes_that_one_replica_lacks() {
    const TWO_REPLICAS: &str = "
        dataset { var n uint32; var data [100, n]int32 }
        view n { var n = n }
        view all { var data = data }
        view other big { var data = data }
        replica n { view n }
        replica all { view all }
        replica other { view other; consistency async 1000s }
    ";
    let dir = tempfile::tempdir().unwrap();
    let (store, dataset) = dataset(dir.path(), TWO_REPLICAS);
    let (n, all) = (dataset.view("n").unwrap(), dataset.view("all").unwrap());
    n.write_at(0, &1000u32.to_le_bytes()).unwrap();
    all.write_at(0, &[1; 400_000]).unwrap();
    dataset.settle().unwrap();
    all.write_at(4000 * 50, &[2; 4000]).unwrap();
    n.write_at(0, &500u32.to_le_bytes()).unwrap();
    let (name, keys, _) = dataset.replicas().unwrap().remove(1);
    assert_eq!(name, "all");
    for key in keys {
        store.remove(key.as_bytes()).unwrap();
    }
    assert!(lost(read(&dataset, "all", 2000 * 50, 2000)), "what was written is taken back");
    for row in (0..50).chain(51..100) {
        assert!(read(&dataset, "all", 2000 * row, 2000).unwrap() == vec![1; 2000]);
    }
}

/// A close that failed forgot that bytes were written, so the next one left the replicas as they were, and returned no error.
#[test]
fn a_close_after_one_that_failed_updates_the_replicas() {
    let dir = tempfile::tempdir().unwrap();
    let (store, dataset) = dataset(dir.path(), &ROWS_DECLARATION.replace("async 1000s", "on-close"));
    let view = dataset.view("rows").unwrap();
    view.write_at(0, &rows(7, ROW_COUNT)).unwrap();
    let (declaration, aside) = (b"datasets/d/.declaration", b"aside");
    store.rename(declaration, aside).unwrap();
    assert!(view.close().is_err());
    store.rename(aside, declaration).unwrap();
    let are_current = || dataset.replicas().unwrap().iter().all(|(_, _, lacks_bytes)| !lacks_bytes);
    assert!(!are_current());
    view.close().unwrap();
    assert!(are_current());
}
