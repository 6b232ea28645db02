//! Elements that were never written read as their fill values, through any view and in exports.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use terrace_datasets::{Dataset, Datasets, Declared, Error, Format};

const DECLARATION_TEXT: &str = "
dataset {
    attribute title = \"filled\"
    var points [1000]struct { a int16; b float64; c [3]float32 }
    var grid [30, 50]float32
    attribute grid units = \"K\"
    attribute grid _FillValue = float32 -999.0
    fill grid = -999.0
    fill points.a = -7
    fill points.c = nan
}
view rows { var points = points; var grid = grid }
view turned big { var grid [x, y] = grid[y, x]; var a [i] { a } = points[i] }
view tiles tiled(7, 8) { var grid = grid }
replica rows { view rows }
replica turned { view turned; consistency async 10ms }
replica tiles { view tiles }
replica plotted \"grid.h5\" complete { view turned; backend hdf5 }
";

fn read(dataset: &Dataset, view: &str) -> Vec<u8> {
    let view = dataset.view(view).unwrap();
    let mut out = vec![0xee; view.length().unwrap() as usize];
    assert_eq!(view.read_at(0, &mut out).unwrap(), out.len());
    out
}

/// The rows of a dataset in which nothing but one element was written.
fn rows(written: Option<usize>) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..1000 {
        out.extend((-7i16).to_le_bytes());
        out.extend(0f64.to_le_bytes());
        (0..3).for_each(|_| out.extend(f32::NAN.to_le_bytes()));
    }
    out.resize(out.len().next_multiple_of(4), 0);
    (0..1500).for_each(|i| out.extend(if written == Some(i) { 5f32 } else { -999f32 }.to_le_bytes()));
    out
}

#[test]
fn unwritten_elements_are_fill_values_in_every_replica() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    let dataset = Datasets::new(&store).add("d", DECLARATION_TEXT).unwrap();
    assert!(read(&dataset, "rows") == rows(None));
    // Element (2, 3) is in row 3 of the turned view, whose rows have 30 elements.
    dataset.view("turned").unwrap().write_at(4 * (3 * 30 + 2), &5f32.to_be_bytes()).unwrap();
    assert!(read(&dataset, "rows") == rows(Some(2 * 50 + 3)));
    dataset.settle().unwrap();
    for kept in ["rows", "turned", "tiles", "grid.h5"] {
        for gone in ["rows", "turned", "tiles", "grid.h5"].into_iter().filter(|gone| *gone != kept && *gone != "rows") {
            store.remove(format!("datasets/d/{gone}").as_bytes()).unwrap();
        }
        assert!(read(&dataset, "rows") == rows(Some(2 * 50 + 3)), "from {kept}");
        let turned = read(&dataset, "turned");
        assert_eq!(turned[..4], (-999f32).to_be_bytes());
        assert_eq!(turned[4 * 1500..4 * 1500 + 2], (-7i16).to_be_bytes());
        dataset.repair(false).unwrap();
    }
    store.remove(b"datasets/d/rows").unwrap();
    assert!(read(&dataset, "rows") == rows(Some(2 * 50 + 3)), "from the complete one");
}

#[test]
fn arrays_grow_by_fill_values() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    // The second array moves when it grows, and so do tiles.
    let text = "
        dataset { var n int32; var a [n]int16; var b [3, n]int16; fill a = 3; fill b = 4 }
        view all { var n = n; var a = a; var b = b }
        view tiles tiled(2, 4) { var b = b }
        replica all { view all }
        replica tiles { view all; view tiles }
    ";
    let dataset = Datasets::new(&store).add("d", text).unwrap();
    let all = dataset.view("all").unwrap();
    let numbers = || -> Vec<i16> {
        read(&dataset, "all")[4..].chunks(2).map(|two| i16::from_le_bytes([two[0], two[1]])).collect()
    };
    let grow = |n: i32| all.write_at(0, &n.to_le_bytes()).unwrap();
    grow(3);
    assert_eq!(numbers(), [[3; 3].to_vec(), [4; 9].to_vec()].concat());
    all.write_at(4, &[9, 0]).unwrap();
    all.write_at(4 + 6 + 6, &[8, 0]).unwrap();
    for (n, without) in [(5, "tiles"), (9, "all")] {
        grow(n);
        let mut right = [vec![3; n as usize], vec![4; 3 * n as usize]].concat();
        (right[0], right[2 * n as usize]) = (9, 8);
        assert_eq!(numbers(), right);
        let files: Vec<String> =
            dataset.replicas().unwrap().into_iter().filter(|one| one.0 == without).flat_map(|one| one.1).collect();
        files.iter().for_each(|file| store.remove(file.as_bytes()).unwrap());
        assert_eq!(numbers(), right, "without {without}");
        dataset.repair(false).unwrap();
    }
    // What is cut off is gone.
    grow(1);
    grow(2);
    assert_eq!(numbers(), [9, 3, 4, 4, 8, 4, 4, 4]);
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn zarr_leaves_out_chunks_of_fill_values_and_has_the_attributes() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    let dataset = Datasets::new(&store).add("d", DECLARATION_TEXT).unwrap();
    let to = dir.path().join("d.zarr");
    dataset.view("rows").unwrap().export(Format::Zarr, &to).unwrap();
    assert_eq!(json(&to.join("zarr.json"))["attributes"], serde_json::json!({"title": "filled"}));
    let grid = json(&to.join("grid/zarr.json"));
    // xarray reads the bytes of a float of 64 bits.
    assert_eq!(grid["attributes"], serde_json::json!({"units": "K", "_FillValue": "AAAAAAA4j8A="}));
    assert_eq!((&grid["fill_value"], to.join("grid/c").exists()), (&serde_json::json!(-999.0), false));
    assert_eq!(json(&to.join("points/c/zarr.json"))["fill_value"], serde_json::json!("NaN"));
    // Zeros are no fill values here.
    dataset.view("rows").unwrap().write_at(rows(None).len() as u64 - 6000, &[0; 6000]).unwrap();
    let to = dir.path().join("zeros.zarr");
    dataset.view("rows").unwrap().export(Format::Zarr, &to).unwrap();
    assert!(fs::read(to.join("grid/c/0/0")).unwrap() == [0; 6000]);
}

#[test]
fn attributes_can_be_edited_and_fill_values_cannot() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    let dataset = Datasets::new(&store).add("d", DECLARATION_TEXT).unwrap();
    dataset.view("rows").unwrap().write_at(0, &[1; 100]).unwrap();
    let before = read(&dataset, "rows");
    // The HDF5 file is made again, because its head changes, and no replica may be behind then.
    dataset.settle().unwrap();
    let edited = DECLARATION_TEXT.replace("\"filled\"", "\"edited\"").replace("units = \"K\"", "units = \"C\"");
    dataset.change(&Declared::parse(&edited).unwrap()).unwrap();
    assert_eq!(dataset.attributes().unwrap()[0].value.to_string(), "\"edited\"");
    assert!(dataset.declaration().unwrap().contains("attribute grid units = \"C\""));
    assert!(read(&dataset, "rows") == before);
    // The file's head has the new attributes.
    let file = store.get(b"datasets/d/grid.h5").unwrap();
    assert!(file.windows(6).any(|six| six == b"edited") && !file.windows(6).any(|six| six == b"filled"));
    let other = Declared::parse(&edited.replace("fill grid = -999.0", "fill grid = -998.0")).unwrap();
    assert!(matches!(dataset.change(&other), Err(Error::Refused(_))));
}
