//! The guide tells the truth: its commands print what it shows.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::Place;
use terrace_testkit::guide::Guide;
use terrace_testkit::{Missing, skip};

#[test]
fn the_guide_to_programs_works_as_it_says() {
    let built = std::env::current_exe().unwrap();
    let built = built.parent().unwrap();
    if !built.join("../terrace").exists() {
        return skip(
            "the guide to programs",
            &Missing::new("terrace", "the command is not built: `cargo build --bins`"),
        );
    }
    let place = Place::new();
    // As `make install` puts them. The command finds the library beside itself.
    let programs = place.dir.path().join("bin");
    fs::create_dir(&programs).unwrap();
    fs::copy(built.join("../terrace"), programs.join("terrace")).unwrap();
    fs::copy(built.join("libterrace_preload.so"), programs.join("libterrace_preload.so")).unwrap();
    let below = |path: &str| place.dir.path().join(path).display().to_string();
    let replaced = [("/usr/local/lib", below("bin")), ("/data/store", below("store"))];
    let ran = Guide {
        name: "programs.md",
        folder: place.dir.path(),
        programs: &programs,
        replaced: &replaced,
        before: &|_| {},
    }
    .run();
    assert!(ran > 5);
}
