//! docs/adding.md names files and what stands in them. A newcomer who does not find them is lost.

use std::fs;
use std::path::Path;

#[test]
fn every_file_and_item_that_the_walks_name_is_there() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let page = fs::read_to_string(root.join("docs/adding.md")).expect("reads the page");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | `"));
    let mut count = 0;
    for (file, rest) in rows {
        let (item, _) = rest.split_once("` | ").expect("a row has an item");
        let text = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(item), "{file} has no {item:?}");
        count += 1;
    }
    assert_eq!(count, 25, "rows of the walks");
}
