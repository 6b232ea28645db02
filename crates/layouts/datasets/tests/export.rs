//! h5py and zarr read exports. TERRACE_PYTHON names a Python that has them, if the project's own is not installed.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Command;

use terrace::{Config, Store};
use terrace_datasets::{Datasets, Error, Format};
use terrace_testkit::python_with;

const EXPORTED_DECLARATION: &str = "
dataset {
    var steps int32
    var points [700]struct {
        position [3]float64
        id uint16
        name string6
        alive bool
        wave complex64
    }
    var grid [30, 50]float32
    attribute title = \"exported\"
    attribute grid units = \"K\"
    attribute grid _FillValue = float32 [-1.0]
}
view all {
    var steps = steps
    var points = points
    var grid [y, x] = grid[y, x]
}
view columns big rowminor tiled(7) {
    var id [] { id } = points
    var grid = grid
    var x [i] = points[i].position[0]
}
view rows aligned {
    var points [] { id, position, alive } = points
    var grid [y, x] = grid[y, x]
}
replica main complete { view all }
replica rows { view rows }
";

const H5PY_CHECK: &str = "
import h5py, numpy, sys
with h5py.File(sys.argv[1] + '/all.h5') as f:
    # The dimensions of grid have no values.
    assert sorted(f) == ['grid', 'points', 'steps', 'x', 'y']
    assert [dim[0].name for dim in f['grid'].dims] == ['/y', '/x'] and f['x'].shape == (50,)
    assert dict(f.attrs) == {'title': 'exported'} and f['grid'].attrs['units'] == 'K'
    assert f['grid'].attrs['_FillValue'] == numpy.array([-1], 'f4')
    assert f['steps'][()] == 1234
    p = f['points']
    assert p.shape == (700,) and p['position'].shape == (700, 3)
    assert (p['id'] == numpy.arange(700)).all() and p['position'][10][2] == 10.5
    assert p['alive'][1] == 1 and p['alive'][2] == 0
    assert p['wave'].dtype == numpy.complex64 and p['wave'][7] == 7 - 1j
    assert p['name']['length'][5] == 3 and bytes(p['name']['text'][5])[:3] == b'abc'
    assert f['grid'].shape == (30, 50) and f['grid'][29, 49] == 29 * 50 + 49
with h5py.File(sys.argv[1] + '/columns.h5') as f:
    assert f['id'].dtype['id'] == numpy.dtype('>u2') and f['id'][699]['id'] == 699
    assert f['grid'][12, 34] == 12 * 50 + 34 and (f['x'][:] == numpy.arange(700)).all()
";

const ZARR_CHECK: &str = "
import zarr, numpy, sys
g = zarr.open_group(sys.argv[1] + '/all.zarr', mode='r')
assert g['steps'][()] == 1234
assert (g['points/id'][:] == numpy.arange(700)).all() and g['points/position'][10, 2] == 10.5
assert g['points/wave'][7] == 7 - 1j and not g['points/alive'][2]
assert g['grid'].shape == (30, 50) and g['grid'][29, 49] == 29 * 50 + 49
assert bytes(g['points/name'][5])[2:5] == b'abc'
names = lambda array: array.metadata.dimension_names
assert names(g['grid']) == ('y', 'x') and names(g['steps']) in (None, ()) and names(g['points/id']) is None
";

const REFERENCES_CHECK: &str = "
import json, numpy, sys
refs = json.load(open(sys.argv[1] + '/rows.json'))['refs']
def load(name):
    meta = json.loads(refs[name + '/.zarray'])
    def fix(t):
        return [(f[0], fix(f[1])) + tuple(map(tuple, f[2:])) for f in t] if isinstance(t, list) else t
    dtype = numpy.dtype(fix(meta['dtype']))
    chunks = [v for k, v in sorted(refs.items()) if k.startswith(name + '/') and '/.z' not in k]
    raw = b''.join(numpy.fromfile(p, 'u1', n, offset=o).tobytes() for p, o, n in chunks)
    return numpy.frombuffer(raw, dtype).reshape(meta['shape'])
assert (load('points')['id'] == numpy.arange(700)).all() and load('points')['position'][10][2] == 10.5
assert load('grid')[29, 49] == 29 * 50 + 49
assert json.loads(refs['grid/.zattrs']) == {'units': 'K', '_ARRAY_DIMENSIONS': ['y', 'x']} and 'points/.zattrs' not in refs
assert json.loads(refs['.zattrs']) == {'title': 'exported'} and json.loads(refs['grid/.zarray'])['fill_value'] == -1
try:
    import fsspec, zarr
except ImportError:
    sys.exit()
fs = fsspec.filesystem('reference', fo=sys.argv[1] + '/rows.json', asynchronous=True)
g = zarr.open_group(zarr.storage.FsspecStore(fs, read_only=True, path=''), mode='r', zarr_format=2)
assert g['grid'][29, 49] == 29 * 50 + 49
";

/// Runs a script if Python has its modules.
fn run_python(modules: &'static str, script: &str, folder: &Path) {
    let Some(python) = python_with("reading exports", modules, modules) else { return };
    let ran = Command::new(&python).args(["-c".as_ref(), script.as_ref(), folder.as_os_str()]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    println!("{modules} reads it");
}

#[test]
fn other_tools_read_exported_views() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "[[tier]]\nname = 'disk'\nkind = 'directory'\nlayout = 'plain'\ntargets = ['{}/disk']\n",
        dir.path().display()
    );
    let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    let dataset = Datasets::new(&store).add("d", EXPORTED_DECLARATION).unwrap();
    let mut bytes = 1234i32.to_le_bytes().to_vec();
    bytes.resize(8, 0);
    for i in 0..700u16 {
        for k in 0..3 {
            bytes.extend((f64::from(i) + f64::from(k) / 4.0).to_le_bytes());
        }
        bytes.extend(i.to_le_bytes());
        bytes.extend(3i16.to_le_bytes());
        bytes.extend(b"abcdef");
        bytes.push((i % 2) as u8);
        bytes.extend(f32::from(i).to_le_bytes());
        bytes.extend((-1f32).to_le_bytes());
    }
    let all = dataset.view("all").unwrap();
    bytes.resize(all.length().unwrap() as usize - 6000, 0);
    (0..1500).for_each(|i| bytes.extend((i as f32).to_le_bytes()));
    all.write_at(0, &bytes).unwrap();
    store.sync().unwrap();
    let export = |view: &str, format, name: &str| dataset.view(view).unwrap().export(format, &dir.path().join(name));
    export("all", Format::Hdf5, "all.h5").unwrap();
    export("columns", Format::Hdf5, "columns.h5").unwrap();
    export("all", Format::Zarr, "all.zarr").unwrap();
    export("rows", Format::References, "rows.json").unwrap();
    assert!(matches!(export("columns", Format::References, "no.json"), Err(Error::Refused(_))));
    assert!(matches!(export("all", Format::Hdf5, "all.h5"), Err(Error::Refused(_))));
    run_python("h5py", H5PY_CHECK, dir.path());
    run_python("zarr", ZARR_CHECK, dir.path());
    run_python("numpy", REFERENCES_CHECK, dir.path());
}

#[test]
fn chunks_of_zarr_are_small_however_long_rows_are() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    let text = "
        dataset { var grid [2, 3, 700000]float64 }
        view grid { var grid = grid }
        replica grid { view grid }
    ";
    let view = Datasets::new(&store).add("d", text).unwrap().view("grid").unwrap();
    let place = |i: u64, j: u64, k: u64| ((i * 3 + j) * 700_000 + k) * 8;
    for (at, value) in [(place(0, 0, 0), 1.0f64), (place(1, 2, 524_288), 2.0), (place(1, 2, 699_999), 3.0)] {
        view.write_at(at, &value.to_le_bytes()).unwrap();
    }
    let to = dir.path().join("d.zarr");
    view.export(Format::Zarr, &to).unwrap();
    let metadata = std::fs::read_to_string(to.join("grid/zarr.json")).unwrap();
    let words: String = metadata.split_whitespace().collect();
    assert!(words.contains("\"chunk_shape\":[1,1,524288]"), "{metadata}");
    let chunk = |path: &str| {
        let bytes = std::fs::read(to.join("grid/c").join(path)).unwrap();
        bytes.chunks(8).map(|eight| f64::from_le_bytes(eight.try_into().unwrap())).collect::<Vec<f64>>()
    };
    let (first, last) = (chunk("0/0/0"), chunk("1/2/1"));
    assert_eq!((first.len(), first[0]), (524_288, 1.0));
    assert_eq!((last.len(), last[0], last[699_999 - 524_288]), (524_288, 2.0, 3.0));
    assert!(!to.join("grid/c/0/1/0").exists());
}
