//! Declarations of datasets.

use crate::place::Place;

const POINTS: &str = "dataset { var data [1000]struct { a, b, c float32 } }\nview aos { var data = data }\n\
    view b read-only { var b [] { b } = data }\nreplica main { view aos }\n";

#[test]
fn what_is_right_is_checked_formatted_and_explained() {
    let place = Place::empty();
    place.write("points.dataset", POINTS);
    assert_eq!(
        place.good(["dataset", "check", "points.dataset"]),
        "points.dataset: 2 views and 1 replica, no errors\n"
    );
    assert_eq!(place.run(["dataset", "fmt", "--check", "points.dataset"]).code, 1);
    place.good(["dataset", "fmt", "points.dataset"]);
    place.good(["dataset", "fmt", "--check", "points.dataset"]);
    let said = place.good(["--json", "dataset", "explain", "points.dataset"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["views"][1]["bytes"], 4000);
    assert_eq!(said["views"][1]["descriptors"], 1);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let place = Place::empty();
    place.write("wrong.dataset", "dataset {\n  var a flaot32\n  var b [M]int8\n}\nview v { var a = a }\n");
    let ran = place.run(["dataset", "check", "wrong.dataset"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("wrong.dataset:2:9") && ran.err.contains("did you mean `float32`?"), "{}", ran.err);
    assert!(ran.err.contains("there is no constant or index `M`"), "{}", ran.err);
    let lines = place.run(["--json", "dataset", "check", "wrong.dataset"]).out;
    let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((&first["line"], &first["column"]), (&2.into(), &9.into()));
    let before = place.read("wrong.dataset");
    place.write("half.dataset", "dataset { var }");
    assert_eq!(place.run(["dataset", "fmt", "half.dataset"]).code, 1);
    assert_eq!((place.read("wrong.dataset"), &place.read("half.dataset")[..]), (before, &b"dataset { var }"[..]));
}

#[test]
fn sections_may_be_in_other_files() {
    let place = Place::empty();
    place.write("views/b.dataset", "view b { var b [] { b } = data }\nview \"more.dataset\"\n");
    place.write("views/more.dataset", "view c { var c [] { d } = data }\n");
    place.write("main.dataset", "dataset { var data [10]struct { a, b, c float32 } }\nview \"views/b.dataset\"\n");
    let ran = place.run(["dataset", "check", "main.dataset"]);
    assert!(ran.err.contains("views/more.dataset:1:21"), "{}", ran.err);
    place.write("views/more.dataset", "view c { var c [] { c } = data }\n");
    place.good(["dataset", "check", "main.dataset"]);
}

#[test]
fn a_header_becomes_a_declaration() {
    let place = Place::empty();
    place.write("particle.h", "typedef struct { float x, y; int cell; } particle_t;\n");
    let made = place.good(["dataset", "import", "particle.h", "--count", "7"]);
    place.write("made.dataset", &made);
    let said = place.good(["dataset", "explain", "made.dataset"]);
    assert!(said.starts_with("view file: 84 bytes"), "{said}");
}
