//! docs/guide/views.md: its declaration is right, and its commands work in the order in which they stand.

use crate::place::{Place, noise};

#[test]
fn the_guide_to_views_works_as_it_says() {
    let guide = include_str!("../../../../../docs/guide/views.md");
    let block = |kind: &str| {
        let start = guide.find(&format!("```{kind}\n")).unwrap() + kind.len() + 4;
        &guide[start..start + guide[start..].find("```").unwrap()]
    };
    let place = Place::new();
    place.write("particles.dataset", block("dataset"));
    let dump = noise(16_000, 5);
    place.write("dump", &dump);
    for line in block("console").lines() {
        let words: Vec<&str> = line.strip_prefix("terrace ").unwrap().split(' ').collect();
        place.good(words);
    }
    let fields: Vec<u8> =
        (0..4).flat_map(|field| dump.chunks(16).flat_map(move |p| p[4 * field..4 * field + 4].to_vec())).collect();
    assert!(place.read("fields") == fields && place.read("same") == fields);
    let sample: Vec<u8> = dump.chunks(16).step_by(100).flat_map(|p| [p[3], p[2], p[1], p[0]]).collect();
    assert!(place.read("sample") == sample);
    assert!(place.path("particles.zarr/particles/cell/c/0").exists());
}
