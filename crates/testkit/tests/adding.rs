//! docs/adding.md names files and what stands in them. A newcomer who does not find them is lost.

#![allow(clippy::panic)]

use std::fs;
use std::path::Path;

/// Reads a file by its path below the project's root.
fn read(file: &str) -> String {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[test]
fn every_file_and_item_that_the_recipes_name_is_there() {
    let page = read("docs/adding.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | `"));
    let mut count = 0;
    for (file, rest) in rows {
        let (item, _) = rest.split_once("` | ").expect("a row has an item");
        assert!(read(file).contains(item), "{file} has no {item:?}");
        count += 1;
    }
    assert_eq!(count, 35, "rows of the recipes");
}
