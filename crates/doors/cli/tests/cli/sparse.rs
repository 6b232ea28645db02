//! Holes: a sparse file of 1 TiB could not be put in any time, and what could came back full.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};

use terrace_testkit::{Missing, skip};

use crate::place::{Place, noise};

fn allocated(place: &Place, name: &str) -> u64 {
    fs::metadata(place.path(name)).unwrap().blocks() * 512
}

#[test]
fn holes_stay_holes() {
    let place = Place::new();
    let bytes = noise(300_000, 1);
    let cases: [(&str, u64, &[u64]); 5] = [
        ("terabyte", 1 << 40, &[0, 1 << 39, (1 << 40) - 300_000]),
        ("tail", 1 << 33, &[4096]),
        ("head", (1 << 33) + 300_000, &[1 << 33]),
        ("all", 1 << 34, &[]),
        ("unaligned", 100_000_001, &[50_000_001, 99_000_000]),
    ];
    for (name, length, at) in cases {
        let file = File::create(place.path(name)).unwrap();
        file.set_len(length).unwrap();
        at.iter().for_each(|&at| file.write_all_at(&bytes, at).unwrap());
        file.sync_all().unwrap();
        if allocated(&place, name) > 2_000_000 {
            return skip("holes_stay_holes", &Missing::new("holes", "this file system has none"));
        }
        place.good(["put", name, name]);
        place.good(["get", name, "out"]);
        let out = File::open(place.path("out")).unwrap();
        out.sync_all().unwrap();
        assert_eq!(out.metadata().unwrap().len(), length, "{name}");
        // What file systems allocate differs by pages at the ends of data.
        let (had, has) = (allocated(&place, name), allocated(&place, "out"));
        assert!(has <= had + 32_768, "{name}: {had} bytes allocated became {has}");
        let mut read = vec![0; bytes.len()];
        for &at in at {
            out.read_exact_at(&mut read, at).unwrap();
            assert!(read == bytes, "{name} at {at}");
        }
        // This read each hole, in the file and in the object, as zeros: a terabyte took an hour.
        place.good(["check", name, name]);
    }
    let differs = |file: &str, key: &str| {
        let (found, code) = place.json(["check", file, key]);
        assert_eq!((found["differ"].as_array().map(Vec::len), code), (Some(1), 1), "{found}");
    };
    // One byte in a hole of the file; a hole in place of the object's last bytes; one byte more, or fewer.
    let file = File::options().write(true).open(place.path("all")).unwrap();
    file.write_all_at(b"x", 1 << 33).unwrap();
    differs("all", "all");
    for length in [1 << 34, (1 << 33) + 1, 1 << 33] {
        file.set_len(1 << 33).unwrap();
        file.set_len(length).unwrap();
        match length == 1 << 34 {
            true => drop(place.good(["check", "all", "all"])),
            false => differs("all", "all"),
        }
    }
    let file = File::options().write(true).open(place.path("unaligned")).unwrap();
    file.set_len(99_000_000).unwrap();
    file.set_len(100_000_001).unwrap();
    differs("unaligned", "unaligned");
    file.write_all_at(&bytes, 99_000_000).unwrap();
    let (status, _) = place.json(["status"]);
    assert!(status["tiers"][1]["used"].as_u64().unwrap() < 4_000_000, "{status}");
    place.good(["check", "unaligned", "unaligned"]);
    assert_eq!(place.json(["locate", "all"]).0["extents"].as_array().map(Vec::len), Some(0));
}

#[test]
fn short_holes_and_written_zeros_are_read_as_they_were() {
    let place = Place::new();
    let path = place.path("file");
    let file = File::create(&path).unwrap();
    for page in 0..200 {
        file.write_all_at(&[page as u8 + 1; 4096], page * 3 * 4096).unwrap();
    }
    file.write_all_at(&[0; 500_000], 3_000_000).unwrap();
    file.write_all_at(b"end", 3_700_003).unwrap();
    place.good(["put", "file", "k"]);
    place.good(["check", "file", "k"]);
    place.good(["get", "k", "out"]);
    assert!(place.read("out") == fs::read(&path).unwrap());
    place.good(["get", "k", "part", "--range", "4000-3600000"]);
    assert!(place.read("part") == fs::read(&path).unwrap()[4000..3_600_000]);
    assert!(place.command(["cat", "k"]).output().unwrap().stdout == fs::read(&path).unwrap());
}
