//! Replicas that are HDF5 files: after writes through any view and after damage, they equal the files that `export`
//! writes, and h5py reads them. TERRACE_PYTHON names a Python with h5py, if the project's own is not installed.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use terrace::Store;
use terrace_datasets::{Dataset, Datasets, Declared, Format};
use terrace_testkit::python_with;

const ROW_COUNT: usize = 5000;
const VIEWS_DECLARATION: &str = "
dataset {
    var points [5000]struct { x, y float32; id int32 }
    var grid [30, 50]float64
}
view rows { var points = points; var grid = grid }
view fields packed { var x [] { x } = points; var grid = grid }
view ids packed big { var id [] { id } = points }
view everything packed { var points = points; var grid = grid }
replica rows { view rows }
";
const FIELDS_REPLICA: &str = "replica fields \"fields.h5\" { view fields; backend hdf5 }\n";
const IDS_REPLICA: &str = "replica ids \"fields.h5\" { view ids; backend hdf5; consistency async 10ms }\n";
const GROUPS_REPLICA: &str =
    "replica groups \"groups.h5\" complete { view fields; view ids; backend hdf5; codec \"zstd\" }\n";

const H5PY_CHECK: &str = "
import h5py, numpy, sys
with h5py.File(sys.argv[1] + '/groups.h5') as f:
    assert sorted(f) == ['fields', 'ids', 'points.y'], sorted(f)
    assert (f['fields/x']['x'] == numpy.arange(5000) + 2.5).all()
    assert f['ids/id'].dtype['id'] == numpy.dtype('>i4') and (f['ids/id']['id'] == 7 - numpy.arange(5000)).all()
    assert (f['points.y'][:] == numpy.arange(5000) / 4).all()
    assert f['fields/grid'].shape == (30, 50) and f['fields/grid'][29, 49] == 0
with h5py.File(sys.argv[1] + '/fields.h5') as f:
    assert sorted(f) == ['grid', 'x'] and f['x'][4999]['x'] == 5001.5
";

fn declared(replicas: &str) -> Declared {
    Declared::parse(&format!("{VIEWS_DECLARATION}{replicas}")).unwrap()
}

/// Checks that the replica's file equals the exported view.
fn same_as_export(store: &Store, dataset: &Dataset, view: &str, folder: &Path) {
    dataset.settle().unwrap();
    let exported = folder.join("exported.h5");
    dataset.view(view).unwrap().export(Format::Hdf5, &exported).unwrap();
    let stored = store.get(b"datasets/d/fields.h5").unwrap();
    assert!(stored == fs::read(&exported).unwrap(), "the replica is not as {view} is exported");
    fs::remove_file(exported).unwrap();
}

fn points(x: f32, id: i32) -> Vec<u8> {
    let row = |i: usize| [(i as f32 + x).to_le_bytes(), (i as f32 / 4.0).to_le_bytes(), (id - i as i32).to_le_bytes()];
    (0..ROW_COUNT).flat_map(|i| row(i).concat()).collect()
}

#[test]
fn writes_through_any_view_reach_the_hdf5_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    let dataset =
        Datasets::new(&store).add("d", &format!("{VIEWS_DECLARATION}{FIELDS_REPLICA}{GROUPS_REPLICA}")).unwrap();
    same_as_export(&store, &dataset, "fields", dir.path());
    let (rows, fields, ids) =
        (dataset.view("rows").unwrap(), dataset.view("fields").unwrap(), dataset.view("ids").unwrap());
    rows.write_at(0, &points(1.5, 7)).unwrap();
    same_as_export(&store, &dataset, "fields", dir.path());
    let x: Vec<u8> = (0..ROW_COUNT).flat_map(|i| (i as f32 + 2.5).to_le_bytes()).collect();
    fields.write_at(0, &x).unwrap();
    same_as_export(&store, &dataset, "fields", dir.path());
    let mut last = [0; 4];
    ids.read_at(4 * (ROW_COUNT as u64 - 1), &mut last).unwrap();
    assert_eq!(i32::from_be_bytes(last), 8 - ROW_COUNT as i32);
    for file in ["fields.h5", "groups.h5"] {
        fs::write(dir.path().join(file), store.get(format!("datasets/d/{file}").as_bytes()).unwrap()).unwrap();
    }
    let Some(python) = python_with("h5py reads datasets", "h5py", "h5py") else { return };
    let ran =
        Command::new(&python).args(["-c".as_ref(), H5PY_CHECK.as_ref(), dir.path().as_os_str()]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn the_head_is_rebuilt_with_the_data() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    let datasets = Datasets::new(&store);
    let dataset = datasets.add("d", &format!("{VIEWS_DECLARATION}{FIELDS_REPLICA}")).unwrap();
    dataset.view("rows").unwrap().write_at(0, &points(1.5, 7)).unwrap();
    let before = store.get(b"datasets/d/fields.h5").unwrap();
    // The file is deleted, replaced by a shorter object, and declared again with other names.
    store.remove(b"datasets/d/fields.h5").unwrap();
    same_as_export(&store, &dataset, "fields", dir.path());
    assert!(store.get(b"datasets/d/fields.h5").unwrap() == before);
    store.put_bytes(b"datasets/d/fields.h5", b"no HDF5", &Default::default()).unwrap();
    same_as_export(&store, &dataset, "fields", dir.path());
    assert!(store.get(b"datasets/d/fields.h5").unwrap() == before);
    let renamed = declared(FIELDS_REPLICA).text.replace("var x [] { x } = points", "var other [] { x } = points");
    dataset.change(&Declared::parse(&renamed).unwrap()).unwrap();
    same_as_export(&store, &dataset, "fields", dir.path());
    assert!(store.get(b"datasets/d/fields.h5").unwrap() != before, "it has the new name");
    dataset.change(&declared(IDS_REPLICA)).unwrap();
    dataset.view("rows").unwrap().write_at(0, &points(3.5, 9)).unwrap();
    same_as_export(&store, &dataset, "ids", dir.path());
}
