//! Declarations from the metadata of other formats, including real files if `TERRACE_DATA` names a folder of them.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use terrace_testkit::{Random, real_files};
use terrace_views::Diagnostics;
use terrace_views::import::{Error, Format, import};
use terrace_views::language::parse;
use terrace_views::layout::{Layout, of_view};
use terrace_views::model::{Model, Sizes};

fn imported(name: &str, bytes: impl AsRef<[u8]>, format: Option<Format>) -> Result<String, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    import(&path, format, 100).map(|imported| imported.declaration)
}

/// Returns the layout of the only view of a declaration.
fn layout(text: &str) -> Layout {
    let mut diagnostics = Diagnostics::default();
    let parsed = parse(text, 0, &mut diagnostics);
    let model = Model::of(&parsed.file, &mut diagnostics);
    assert!(!diagnostics.failed(), "{:?}\n{text}", diagnostics.sorted());
    of_view(&model.views[0], &model.dataset, &Sizes::new()).unwrap()
}

/// Returns offsets and types of the parts of a view, by path.
fn parts(text: &str) -> Vec<(String, u64, String)> {
    layout(text).leaves.into_iter().map(|p| (p.path, p.offset, p.primitive.to_string())).collect()
}

fn part(path: &str, offset: u64, kind: &str) -> (String, u64, String) {
    (path.to_owned(), offset, kind.to_owned())
}

#[test]
fn dtypes() {
    let text =
        imported("points.dtype", "[('id', '<i8'), ('position', '<f4', (3,)), ('', '|V4'), ('ok', '?')]", None).unwrap();
    assert_eq!(parts(&text)[..2], [part("points.id", 0, "int64"), part("points.position", 8, "float32")]);
    assert_eq!(layout(&text).files, [100 * 25]);
    let spread = "{'names': ['b', 'a'], 'formats': ['<f8', 'u1'], 'offsets': [8, 0], 'itemsize': 24}";
    let text = imported("x.dtype", spread, None).unwrap();
    assert_eq!(
        parts(&text),
        [
            part("x.a", 0, "uint8"),
            part("x._padding1", 1, "uint8"),
            part("x.b", 8, "float64"),
            part("x._padding16", 16, "uint8")
        ]
    );
    assert!(imported("x.dtype", "dtype('>f8')", None).unwrap().contains("view file packed big"));
    assert!(matches!(imported("x.dtype", "[('a', '<f8'), ('b', '>f8')]", None), Err(Error::Unsupported(_))));
    assert!(matches!(imported("x.dtype", "'O'", None), Err(Error::Unsupported(_))));
}

#[test]
fn numpy_files_are_views_byte_for_byte() {
    let header = "{'descr': '>f4', 'fortran_order': True, 'shape': (3, 5), }";
    let bytes = [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes(), &[0; 60]].concat();
    let text = imported("a.npy", &bytes, None).unwrap();
    assert!(text.contains("packed big rowminor"), "{text}");
    assert_eq!(layout(&text).files, [bytes.len() as u64]);
}

#[test]
fn values_of_numpy_files_are_stored_as_plain_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    let header = "{'descr': '>f4', 'fortran_order': True, 'shape': (3, 5), }";
    fs::write(&path, [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes()].concat())
        .unwrap();
    let imported = import(&path, None, 1).unwrap();
    assert_eq!((imported.format, &*imported.sources), (Format::Numpy, &[("a".to_owned(), String::new())][..]));
    let stored = imported.stored().unwrap();
    assert!(stored.contains("view file packed big {") && stored.contains("replica main {"), "{stored}");
    assert_eq!(layout(&stored).files, [3 * 5 * 4]);
    fs::write(&path, "dtype('f4')").unwrap();
    assert_eq!(import(&path, Some(Format::Numpy), 1).unwrap().sources, []);
}

#[test]
fn zarr() {
    let two = r#"{"zarr_format": 2, "shape": [100, 70], "chunks": [10, 20], "dtype": ">i2", "order": "F", "compressor": null}"#;
    let text = imported("m.zarray", two, None).unwrap();
    assert!(text.contains("big rowminor tiled(10, 20)"), "{text}");
    assert_eq!(layout(&text).files, [100 * 80 * 2]);
    let three = r#"{"zarr_format": 3, "node_type": "array", "shape": [64], "data_type": "complex64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [64]}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}"#;
    assert_eq!(parts(&imported("zarr.json", three, None).unwrap()), [part("data", 0, "complex64")]);
}

#[test]
fn a_zarr_group_has_a_view_for_each_array() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let array = |shape: &str, chunk: &str, endian: &str| {
        format!(
            r#"{{"zarr_format": 3, "node_type": "array", "shape": {shape}, "data_type": "float32",
            "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": {chunk}}}}},
            "codecs": [{{"name": "bytes", "configuration": {{"endian": "{endian}"}}}}]}}"#
        )
    };
    write("zarr.json", r#"{"zarr_format": 3, "node_type": "group"}"#);
    write("E/zarr.json", r#"{"zarr_format": 3, "node_type": "group"}"#);
    write("E/x/zarr.json", &array("[8, 6]", "[4, 2]", "little"));
    write(
        "E_x/zarr.json",
        &array("[5]", "[5]", "big").replace("\"node_type\"", "\"dimension_names\": [\"E_x\"], \"node_type\""),
    );
    write("text/zarr.json", r#"{"zarr_format": 3, "node_type": "array", "shape": [2], "data_type": "string"}"#);
    write("old/.zgroup", r#"{"zarr_format": 2}"#);
    write("old/y/.zarray", r#"{"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "<i2", "order": "C"}"#);
    write("old/y/.zattrs", r#"{"_ARRAY_DIMENSIONS": ["time of day"], "units": "K"}"#);
    write("notes/readme", "not of Zarr");
    let found = import(folder.path(), None, 0).unwrap();
    for line in ["var E_x [8, 6]float32", "var E_x_2 [5]float32", "var old_y [3]int16"] {
        assert!(found.declaration.contains(line), "{line} in {}", found.declaration);
    }
    for view in ["view E_x packed tiled(4, 2) {", "view E_x_2 packed big {", "view old_y packed {"] {
        assert!(found.declaration.contains(view), "{view} in {}", found.declaration);
    }
    for line in ["var E_x = E_x", "var E_x_2 [E_x] = E_x_2[E_x]", "var old_y [time_of_day] = old_y[time_of_day]"] {
        assert!(found.declaration.contains(line), "{line} in {}", found.declaration);
    }
    let alone = import(&folder.path().join("old/y"), None, 0).unwrap().declaration;
    assert!(alone.contains("var y [time_of_day] = y[time_of_day]"), "{alone}");
    assert_eq!(found.left_out.len(), 1);
    assert!(found.left_out[0].starts_with("/text: "), "{:?}", found.left_out);
    let paths = [("E_x", "E/x"), ("E_x_2", "E_x"), ("old_y", "old/y")];
    assert_eq!(found.sources, paths.map(|(variable, path)| (variable.to_owned(), path.to_owned())));
    let stored = found.stored().unwrap();
    for part in ["view little_endian packed {", "view big_endian packed big {", "    view big_endian\n}"] {
        assert!(stored.contains(part), "{part} in {stored}");
    }
    write("only/zarr.json", r#"{"zarr_format": 3, "node_type": "group"}"#);
    assert!(matches!(import(&folder.path().join("only"), None, 0), Err(Error::Unsupported(_))));
}

#[test]
fn c_structs_match_the_layout_of_compilers() {
    let text = "#define DIMENSIONS 3 /* of space */\n#include <stdint.h>\n\
        struct inner { char tag; double weight; };\n\
        typedef struct particle {\n  float dx, dy[DIMENSIONS]; // place\n  int32_t cell;\n  unsigned char c;\n  struct inner in[2];\n  short s;\n} particle_t;\n\
        int main(void) { return 0; }";
    let text = imported("p.h", text, None).unwrap();
    let offsets: Vec<u64> = parts(&text).iter().map(|(_, offset, _)| *offset).collect();
    assert_eq!(offsets, [0, 4, 16, 20, 24, 32, 56]);
    assert_eq!(layout(&text).files, [100 * 64]);
    assert!(matches!(imported("p.h", "struct a { int *p; };", None), Err(Error::Unsupported(_))));
    assert!(matches!(imported("p.h", "struct a { int p : 3; };", None), Err(Error::Unsupported(_))));
}

/// A classic file: a fixed variable of 3 shorts, and two record variables, a byte and a double.
#[test]
fn classic_netcdf_files_are_views_byte_for_byte() {
    let name = |name: &str| {
        [&(name.len() as u32).to_be_bytes()[..], name.as_bytes(), &vec![0; name.len().next_multiple_of(4) - name.len()]]
            .concat()
    };
    let number = |n: u32| n.to_be_bytes().to_vec();
    let variable = |called: &str, dimension: u32, kind: u32, size: u32, begin: u32| {
        [name(called), number(1), number(dimension), number(0), number(0), number(kind), number(size), number(begin)]
            .concat()
    };
    let file = [
        b"CDF\x01".to_vec(),
        number(5),
        number(10),
        number(2),
        name("t"),
        number(0),
        name("x"),
        number(3),
        number(0),
        number(0),
        number(11),
        number(3),
        variable("fixed", 1, 3, 8, 200),
        variable("flag", 0, 1, 4, 208),
        variable("time", 0, 6, 8, 212),
    ]
    .concat();
    let text = imported("a.nc", &file, None).unwrap();
    let layout = layout(&text);
    assert_eq!(layout.files, [208 + 5 * 12]);
    let time = layout.leaves.iter().find(|leaf| leaf.path == "record.time").unwrap();
    assert!(time.offset == 212 && time.big && time.loops[0].digits[0].stride == 12, "{text}");
    for line in ["var fixed [x] = fixed[x]", "var record [t] = record[t]", "var _header = _header"] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

/// `hdf5/make.py` wrote these files, in the oldest form of the format and in the newest.
#[test]
fn hdf5_files_are_imported_by_content() {
    for name in ["old.h5", "new.h5"] {
        let imported = import(&hdf5(name), None, 1).unwrap();
        for line in [
            "var fields_E_x [5, 7]float64",
            "var fields_E_y [5, 7]float32",
            "var fields_B_2 [3]complex128",
            "var fields_B [3]float16",
            "var counts [2, 3, 4]int64",
            "var flags [9]bool",
            "var words [4][10]uint8",
            "var scalar int8",
            "var raw [2][6]uint8",
            "var colours [3]uint16",
            "var chunked [100, 100]int32",
        ] {
            assert!(imported.declaration.contains(line), "{line} of {name}:\n{}", imported.declaration);
        }
        for (variable, path) in [("fields_E_x", "/fields/E/x"), ("scalar", "/scalar")] {
            assert!(imported.sources.contains(&(variable.to_owned(), path.to_owned())), "{:?}", imported.sources);
        }
        let mut diagnostics = Diagnostics::default();
        let parsed = parse(&imported.declaration, 0, &mut diagnostics);
        let model = Model::of(&parsed.file, &mut diagnostics);
        let views: Vec<Layout> =
            model.views.iter().map(|view| of_view(view, &model.dataset, &Sizes::new()).unwrap()).collect();
        let [little, big] = &views[..] else { panic!("{}", imported.declaration) };
        let leaf = |view: &Layout, path: &str| view.leaves.iter().find(|leaf| leaf.path == path).cloned().unwrap();
        assert!(leaf(big, "counts").big && leaf(big, "fields_E_y").big && big.leaves.len() == 2);
        assert!(!leaf(little, "fields_E_x").big);
        let charge = leaf(little, "particles.charge");
        assert_eq!(charge.offset - leaf(little, "particles.id").offset, 16);
        assert_eq!(charge.loops[0].digits[0].stride, 18);
        let spread = leaf(little, "spread.b");
        assert_eq!(spread.offset - leaf(little, "spread.a").offset, 8);
        assert_eq!(spread.loops[0].digits[0].stride, 24);
        // One word for each omission.
        let mut left: Vec<&str> = imported.left_out.iter().filter_map(|why| why.split([':', ' ']).next()).collect();
        left.sort();
        let hard = ["/fields/up", "/growing", "/links", "/mixed", "/more_counts", "/none", "/ragged", "/texts"];
        assert_eq!(left, hard, "{:?}", imported.left_out);
    }
}

fn hdf5(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hdf5").join(name)
}

/// `CASES` sets the number of damaged files.
#[test]
fn damaged_hdf5_files_never_panic() {
    let cases = std::env::var("CASES").map_or(800, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.h5");
    let mut random = Random::new(11);
    let mut next = move |below: usize| random.below(below as u64) as usize;
    let (mut good, mut refused) = (0, 0);
    for name in ["old.h5", "new.h5"] {
        let whole = fs::read(hdf5(name)).unwrap();
        for case in 0..cases {
            let mut bytes = whole.clone();
            match case % 4 {
                0 => bytes.truncate(next(whole.len())),
                1 => (0..1 + next(8)).for_each(|_| bytes[next(whole.len())] ^= 1 << next(8)),
                2 => {
                    let at = next(whole.len() - 8);
                    bytes[at..at + 8].fill([0, 0xff][next(2)]);
                }
                _ => {
                    let (from, to, length) = (next(whole.len() - 64), next(whole.len() - 64), next(64));
                    bytes.copy_within(from..from + length, to);
                }
            }
            fs::write(&path, &bytes).unwrap();
            match import(&path, Some(Format::Hdf5), 1) {
                Ok(imported) => {
                    imported.stored().unwrap();
                    good += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    println!("{good} damaged files could be imported all the same, {refused} were refused");
}

#[test]
fn real_hdf5_files() {
    let Some(data) = real_files("real_hdf5_files") else { return };
    for (name, lines) in [
        ("h5/openpmd_femm_3d.h5", &["x [47, 47, 47]float64", "z [47, 47, 47]float64"][..]),
        ("h5/openpmd_pic_2d_it255.h5", &["E_x [51, 201]float64"]),
        ("h5/elegant_50k_particles_8var.h5", &["columns_dt [50000]float64", "columns_particleID [50000]int32"]),
        (
            "h5/rfgun_fields.h5",
            &["electricField_r [61, 1, 521]complex128", "magneticField_theta [61, 1, 521]complex128"],
        ),
        ("h5/e3sm_map_f_case_16p.h5", &["var D3_lengths [62352]int32", "var D3_raw_offsets [62352]int32"]),
        (
            "nc/A1B_north_america.nc",
            &[
                "var air_temperature [240, 37, 49]float32",
                "var time [240]float64",
                "var air_temperature [time, latitude, longitude] = air_temperature[time, latitude, longitude]",
                "var time [time] = time[time]",
            ],
        ),
        ("nc/cloud_top_height.nc", &["var HT [300, 500]int16", "var x [500]int16"]),
        ("nc/issue672.nc", &["var azi_angle_trip [3264, 82, 1]int16"]),
        ("nc/nemo_grid_T_201501.nc", &["var nav_lat [330, 360]float32"]),
        (
            "nc/orca2_votemper.nc",
            &["var votemper [148, 180]float32", "var votemper [dim0, dim1] = votemper[dim0, dim1]"],
        ),
        ("nc/ostia_monthly.nc", &["var surface_temperature [54, 18, 432]float32"]),
    ] {
        let imported = import(&data.join(name), None, 1).unwrap();
        println!(
            "{name}: {} variables, left out: {:?}",
            imported.declaration.matches("float").count(),
            imported.left_out
        );
        for line in lines {
            assert!(imported.declaration.contains(line), "{line} of {name}:\n{}", imported.declaration);
        }
    }
}

#[test]
fn real_numpy_files() {
    let Some(data) = real_files("real_numpy_files") else { return };
    let files = fs::read_dir(data.join("npy")).unwrap().map(|entry| entry.unwrap().path());
    for path in files.filter(|path| path.extension() == Some("npy".as_ref())) {
        let text = import(&path, None, 1).unwrap().declaration;
        assert_eq!(layout(&text).files, [fs::metadata(&path).unwrap().len()], "{}", path.display());
    }
}

#[test]
fn random_c_structs_match_the_compiler_or_are_refused() {
    let size = |text: &str| layout(&imported("p.h", text, None).unwrap()).files[0] / 100;
    assert_eq!(size("struct a { char c; double packed_size; };"), 16);
    assert_eq!(size("struct a { char c; double d; } __attribute__((__packed__));"), 9);
    assert_eq!(size("struct __attribute__((deprecated(\"why, so\"), packed)) a { char c; double d; };"), 9);
    assert_eq!(size("struct b { char c; int i; } __attribute__((packed)); struct a { char c; int i; };"), 8);
    assert_eq!(
        size("#pragma pack(push, 1)\nstruct b { char c; int i; };\n#pragma pack(pop)\nstruct a { char c; int i; };"),
        8
    );
    assert_eq!(size("#pragma pack(push, 1)\nstruct a { char c; int i; };\n#pragma pack(pop)\n"), 5);
    assert_eq!(size("typedef struct a { char c; int i; } a, *a_ptr; struct b { a x; };"), 8);
    for (text, what) in [
        ("#pragma pack(2)\nstruct a { char c; int i; };", "pack(2)"),
        ("#pragma pack(push, 4)\nstruct a { char c; double d; };", "pack(4)"),
        ("#pragma pack(push, name, 1)\nstruct a { char c; double d; };", "pack(push, name, 1)"),
        ("struct a { char c; _Alignas(32) int i; };", "Alignas"),
        ("struct a { char c; int i __attribute__((aligned(16))); };", "aligned"),
        ("struct a { char c; int i; } __attribute__((aligned(64)));", "aligned"),
        ("struct a { char c; int i __attribute__((packed)); };", "packed by itself"),
        (
            "struct a { char c; int i; }; struct b { char c; struct a x; } __attribute__((packed));",
            "only one is packed",
        ),
        ("typedef struct s { int i; } s, *s_ptr; struct b { s_ptr p; };", "s_ptr is a pointer"),
        ("typedef struct { int i; } row[4]; struct b { row r; };", "row is an array"),
        ("typedef struct { int i; } (*call)(int, long); struct b { call c; };", "call is a pointer"),
    ] {
        match imported("p.h", text, None) {
            Err(Error::Unsupported(why)) => assert!(why.contains(what), "{text}: {why}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_files_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), head in 0..6usize) {
        let heads: [&[u8]; 6] = [b"\x93NUMPY\x01\x00\x40\x00{'descr':", b"CDF\x01", b"CDF\x05", b"{\"shape\":[", b"struct a {", b"[('"];
        let file = [heads[head], &bytes].concat();
        for format in [Format::Numpy, Format::Zarr, Format::C, Format::Netcdf, Format::Hdf5] {
            let _ = imported("x", &file, Some(format));
        }
    }
}

#[test]
fn unknown_formats_are_reported() {
    assert!(matches!(imported("x", "?", None), Err(Error::Unknown)));
    assert!(matches!(import(Path::new("/nowhere"), None, 1), Err(Error::Io(_))));
}
