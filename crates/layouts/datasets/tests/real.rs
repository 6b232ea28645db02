//! Real particle dumps of VPIC: arrays of 32-byte structures. TERRACE_DATA names the folder of real files.

#![allow(clippy::unwrap_used)]

mod common;

use terrace::Store;
use terrace_datasets::Datasets;
use terrace_testkit::real_files;

const STEPS_DECLARATION: &str = include_str!("../examples/vpic.dataset");

fn dump() -> Option<Vec<u8>> {
    let data = real_files("particles of VPIC")?;
    Some(std::fs::read(data.join("pic/vpic_harris_i_t264_r0.aos32")).unwrap())
}

/// Returns the expected bytes of one field.
fn field(dump: &[u8], number: usize) -> Vec<u8> {
    dump.chunks(32).flat_map(|particle| particle[4 * number..4 * number + 4].to_vec()).collect()
}

#[test]
fn particles_convert_between_layouts_and_the_best_layout_is_stored() {
    let Some(dump) = dump() else { return };
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    let declaration = STEPS_DECLARATION.replace("const N = 65350", &format!("const N = {}", dump.len() / 32));
    Datasets::new(&store).add("ions", &declaration).unwrap();
    drop(store);
    // Opened again, so that the replicas' rules apply.
    let store = Store::open(&dir.path().join("store")).unwrap();
    let dataset = Datasets::new(&store).open("ions").unwrap();
    dataset.view("particles").unwrap().write_at(0, &dump).unwrap();
    dataset.settle().unwrap();
    store.sync().unwrap();
    let read = |name: &str| {
        let view = dataset.view(name).unwrap();
        let mut bytes = vec![0; view.length().unwrap() as usize];
        view.read_at(0, &mut bytes).unwrap();
        bytes
    };
    let fields: Vec<u8> = (0..8).flat_map(|number| field(&dump, number)).collect();
    assert!(read("fields") == fields);
    for (name, number) in [("x", 0), ("cell", 3), ("ux", 4), ("weight", 7)] {
        assert!(read(name) == field(&dump, number), "{name}");
    }
    let sample: Vec<u8> = dump.chunks(32).step_by(100).flatten().copied().collect();
    assert!(read("sample") == sample);
    let big: Vec<u8> = dump.chunks(4).flat_map(|word| word.iter().rev().copied().collect::<Vec<u8>>()).collect();
    assert!(read("for_power") == big);

    let stored = |key: &str| -> u64 {
        let first =
            |extent: &terrace::report::ExtentLocation| extent.replicas.first().map_or(0, |replica| replica.stored);
        store.locate(key.as_bytes()).unwrap().extents.iter().map(first).sum()
    };
    let (rows, columns) = (stored("datasets/ions/as_written"), stored("datasets/ions/by_field"));
    println!("{} bytes of particles: {rows} as written, {columns} by field", dump.len());
    assert!(rows < dump.len() as u64 && columns < dump.len() as u64);

    // A write through one view appears in all others.
    let momentum = vec![0x11; dump.len() / 8];
    dataset.view("ux").unwrap().write_at(0, &momentum).unwrap();
    let particles = read("particles");
    assert!(field(&particles, 4) == momentum && field(&particles, 5) == field(&dump, 5));

    // Without the written replica, the other one has everything.
    store.remove(b"datasets/ions/as_written").unwrap();
    assert!(read("particles") == particles);
    dataset.repair(false).unwrap();
    assert!(store.get(b"datasets/ions/as_written").unwrap() == particles);
}
