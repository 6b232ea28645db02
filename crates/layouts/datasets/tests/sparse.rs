//! Huge datasets that are mostly empty: reads, writes and rebuilds cost as much as the stored bytes, not the whole
//! length.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use terrace_datasets::{Datasets, Declared};

/// More than 2^60 bytes.
const HUGE_DECLARATION: &str = "
dataset {
    const N = 1152921504606846976 / 16
    var data [N]struct { a, b float32; c float64 }
}
view rows { var data = data }
view fields { var a [] { a } = data; var b [] { b } = data; var c [] { c } = data }
view b big { var b [] { b } = data }
view sample { var b [i] { b } = data[i * 1000003] }
replica rows { view rows }
";

/// Returns the bytes that this process has read from files so far.
fn read_so_far() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    line.parse().unwrap()
}

#[test]
fn a_dataset_of_two_to_the_sixty_bytes_costs_only_its_content() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    let dataset = Datasets::new(&store).add("huge", HUGE_DECLARATION).unwrap();
    let (rows, b, fields) =
        (dataset.view("rows").unwrap(), dataset.view("b").unwrap(), dataset.view("fields").unwrap());
    let elements: u64 = (1 << 60) / 16;
    assert_eq!(rows.length().unwrap(), 1 << 60);
    let places = [0, 12_345_678_901, elements / 2 + 7, elements - 1024];
    for (number, place) in places.into_iter().enumerate() {
        let bytes: Vec<u8> = (0..1024u32).flat_map(|i| ((number as u32) << 16 | i).to_be_bytes()).collect();
        b.write_at(place * 4, &bytes).unwrap();
    }
    let mut out = vec![0; 4096];
    for (number, place) in places.into_iter().enumerate() {
        let before = read_so_far();
        assert_eq!(b.read_at(place * 4, &mut out).unwrap(), 4096);
        let cost = read_so_far() - before;
        println!("4 KiB of a view of {} bytes, from 16 KiB of rows: {cost} bytes read", b.length().unwrap());
        assert!(cost < 256 << 10, "{cost} bytes were read for 4 KiB");
        let right: Vec<u8> = (0..1024u32).flat_map(|i| ((number as u32) << 16 | i).to_be_bytes()).collect();
        assert!(out == right);
        // The same elements through another view.
        assert_eq!(fields.read_at(elements * 4 + place * 4, &mut out).unwrap(), 4096);
        assert!(out.chunks(4).zip(right.chunks(4)).all(|(a, b)| a.iter().rev().eq(b)));
    }
    // A read of a hole reads no file.
    let before = read_so_far();
    assert_eq!(fields.read_at(elements * 7, &mut out).unwrap(), 4096);
    assert!(out.iter().all(|byte| *byte == 0));
    let cost = read_so_far() - before;
    assert!(cost < 4096, "{cost} bytes were read for nothing");
    // These elements are far apart.
    let sample = dataset.view("sample").unwrap();
    assert_eq!(sample.read_at(0, &mut out).unwrap(), 4096);
    assert!(out[..4] == [0; 4] && out[4..].iter().all(|byte| *byte == 0));
    sample.write_at(4000, &[7; 8]).unwrap();
    sample.read_at(3996, &mut out[..16]).unwrap();
    assert_eq!(out[..16], [0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0]);

    // A new replica is built from the existing one, and serves when the first is lost.
    let declared = Declared::parse(&format!("{HUGE_DECLARATION}replica fields {{ view fields }}")).unwrap();
    dataset.change(&declared).unwrap();
    let stored: u64 = store.locate(b"datasets/huge/fields").unwrap().extents.iter().map(|extent| extent.length).sum();
    println!("{stored} bytes of the new replica are stored");
    assert!(stored < 32 << 20, "{stored} bytes are stored");
    store.remove(b"datasets/huge/rows").unwrap();
    dataset.repair(false).unwrap();
    store.remove(b"datasets/huge/fields").unwrap();
    for (number, place) in places.into_iter().enumerate() {
        assert_eq!(b.read_at(place * 4, &mut out).unwrap(), 4096);
        assert_eq!(out[..4], ((number as u32) << 16).to_be_bytes());
    }
    assert_eq!(sample.read_at(4000, &mut out[..8]).unwrap(), 8);
    assert_eq!(out[..8], [7; 8]);
}
