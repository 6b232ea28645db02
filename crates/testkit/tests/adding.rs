//! docs/adding.md names files and what stands in them, and lists the methods of traits. A newcomer who does not find them is lost.

#![allow(clippy::panic)]

use std::fs;
use std::path::Path;

/// Reads a file by its path below the project's root.
fn read(file: &str) -> String {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The signatures of functions that a text declares, one a line, without bodies.
fn signatures(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix("fn ")?.split_once(';'))
        .map(|(signature, _)| signature)
}

#[test]
fn every_file_and_item_that_the_walks_name_is_there() {
    let page = read("docs/adding.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | `"));
    let mut count = 0;
    for (file, rest) in rows {
        let (item, _) = rest.split_once("` | ").expect("a row has an item");
        assert!(read(file).contains(item), "{file} has no {item:?}");
        count += 1;
    }
    assert_eq!(count, 38, "rows of the walks");
}

#[test]
fn the_skeletons_have_the_methods_of_the_code() {
    let page = read("docs/adding.md");
    let traits = ["kind.rs", "lib.rs"].map(|file| read(&format!("crates/storage/tier/src/{file}"))).concat();
    let shown: Vec<&str> = signatures(&page).collect();
    for signature in &shown {
        assert!(traits.contains(&format!("fn {signature}")), "there is no {signature:?}");
    }
    for required in signatures(&traits) {
        assert!(shown.contains(&required), "the page lacks {required:?}");
    }
    assert!(shown.len() > 15, "only {} methods", shown.len());
}
