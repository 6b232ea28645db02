//! Datasets' views over 9P2000.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::Served;
use common::client::{OPEN_READ, OPEN_READ_WRITE, OPEN_TRUNCATE, OPEN_WRITE};
use terrace_datasets::Datasets;

const POINTS_DECLARATION: &str = "
dataset {
    const N = 100000
    var data [N]struct { a, b, c float32 }
}
view aos { var data = data }
view soa { var a [] { a } = data; var b [] { b } = data; var c [] { c } = data }
view b read-only { var b [] { b } = data }
replica rows { view aos }
replica fields { view soa; consistency on-close }
";
const POINT_COUNT: usize = 100_000;

fn aos() -> Vec<u8> {
    (0..3 * POINT_COUNT).flat_map(|i| (i as f32 / 4.0).to_le_bytes()).collect()
}

fn soa() -> Vec<u8> {
    (0..3).flat_map(|field| (0..POINT_COUNT).flat_map(move |i| ((i * 3 + field) as f32 / 4.0).to_le_bytes())).collect()
}

#[test]
fn writes_through_one_view_appear_in_the_others() {
    let served = Served::new();
    let dataset = Datasets::new(served.files.store()).add("points", POINTS_DECLARATION).unwrap();
    let mut client = served.client();
    assert_eq!(client.names("").unwrap(), [".views", "datasets"]);
    assert_eq!(client.names(".views").unwrap(), ["points"]);
    let told = client.list(".views/points", 8000).unwrap();
    let lengths: Vec<(&str, u64, u32)> = told.iter().map(|one| (one.name.as_str(), one.length, one.mode)).collect();
    assert_eq!(lengths, [("aos", 1_200_000, 0o644), ("soa", 1_200_000, 0o644), ("b", 400_000, 0o444)]);
    let fid = client.open(".views/points/aos", OPEN_WRITE | OPEN_TRUNCATE).unwrap();
    client.write_all(fid, &aos()).unwrap();
    assert!(client.read_all(".views/points/soa").unwrap() == soa());
    client.clunk(fid).unwrap();
    // Replicas that follow on close are up to date.
    assert!(dataset.replicas().unwrap().iter().all(|(_, _, behind)| !behind));
    assert!(client.read_all("datasets/points/fields").unwrap() == soa());
    // Another client, attached to the dataset alone, writes in pieces that cut through elements.
    let mut other = served.client();
    other.attach(50, ".views/points").unwrap();
    let fid = other.walk_from(50, "soa").unwrap();
    other.open_fid(fid, OPEN_READ_WRITE).unwrap();
    other.write(fid, 4 * POINT_COUNT as u64 + 41, &7f32.to_le_bytes()[1..]).unwrap();
    other.sync(fid).unwrap();
    let fid = client.open(".views/points/b", OPEN_READ).unwrap();
    let bytes = client.read(fid, 40, 4).unwrap();
    assert_eq!(bytes[1..], 7f32.to_le_bytes()[1..]);
    let up = other.walk_from(50, "soa/../..").unwrap();
    assert_eq!(other.stat_fid(up).unwrap().name, ".views");
}

#[test]
fn views_have_one_length_and_one_name() {
    let served = Served::new();
    Datasets::new(served.files.store()).add("points", POINTS_DECLARATION).unwrap();
    let mut client = served.client();
    let fid = client.open(".views/points/soa", OPEN_READ_WRITE).unwrap();
    assert_eq!(client.write(fid, 12 * POINT_COUNT as u64 - 4, &[1; 10]).unwrap(), 4);
    assert_eq!(client.write(fid, 12 * POINT_COUNT as u64, &[1; 10]).unwrap_err(), "No space left on device");
    assert_eq!(client.wstat(fid, None, Some(13 * POINT_COUNT as u64), "").unwrap_err(), "File too large");
    client.wstat(fid, None, Some(10), "").unwrap();
    assert_eq!(client.stat_fid(fid).unwrap().length, 12 * POINT_COUNT as u64);
    assert!(client.wstat(fid, None, None, "other").is_err());
    assert!(client.remove(".views/points/aos").is_err());
    assert!(client.create(".views/points", "new", 0o644, OPEN_READ).is_err());
    assert!(client.create("", ".views", 0o644, OPEN_READ).is_err());
    assert_eq!(client.open(".views/points/b", OPEN_WRITE).unwrap_err(), "Read-only file system");
    assert!(client.walk(".views/none").is_err());
    Datasets::new(served.files.store()).remove("points").unwrap();
    assert!(client.read(fid, 0, 4).is_err());
    assert_eq!(client.names("").unwrap(), [""; 0]);
}
