//! docs/adding.md names files and what stands in them. A newcomer who does not find them is lost.

#![allow(clippy::panic)]

use std::fs;
use std::path::Path;

/// Reads a file by its path below the project's root.
fn read(file: &str) -> String {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// A guide that no test runs may say what is not so.
#[test]
fn every_guide_is_named_by_a_test() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut tests = String::new();
    let mut folders = vec![root.join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("reads a folder") {
            let path = entry.expect("reads a folder").path();
            let is_test = path.components().any(|part| part.as_os_str() == "tests");
            let is_source = path.extension().is_some_and(|name| name == "rs" || name == "py");
            match path.is_dir() {
                true => folders.push(path),
                false if is_test && is_source => tests += &fs::read_to_string(path).expect("reads a test"),
                false => {}
            }
        }
    }
    // It describes promises, and has no commands.
    let without_commands = ["files.md"];
    for entry in fs::read_dir(root.join("docs/guide")).expect("reads the guides") {
        let name = entry.expect("reads the guides").file_name().into_string().expect("a name");
        let is_named = tests.contains(&format!("\"{name}\""));
        assert!(is_named || without_commands.contains(&name.as_str()), "no test runs docs/guide/{name}");
    }
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
    assert_eq!(count, 37, "rows of the recipes");
}
