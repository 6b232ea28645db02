//! Declarations of datasets.

use serde_json::json;

use crate::damage::damage;
use crate::place::Place;

const POINTS_DECLARATION: &str = "dataset { var data [1000]struct { a, b, c float32 } }\nview aos { var data = data }\n\
    view b read-only { var b [] { b } = data }\nreplica main { view aos }\n";

#[test]
fn what_is_right_is_checked_formatted_and_explained() {
    let place = Place::empty();
    place.write("points.dataset", POINTS_DECLARATION);
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

/// `check` looked at the language alone, and `add` said only afterwards, and without its place, that there is no such codec.
#[test]
fn a_codec_that_there_is_not_is_said_with_its_place() {
    let place = Place::empty();
    place.write("codec.dataset", POINTS_DECLARATION.replace("view aos }", "view aos\n  codec \"shufle4+zstd\" }"));
    let ran = place.run(["dataset", "check", "codec.dataset"]);
    assert_eq!(ran.code, 1);
    let says = ["codec.dataset:5:3", "there is no codec `shufle4+zstd`", "did you mean `shuffle4+zstd`?"];
    assert!(says.iter().all(|part| ran.err.contains(part)), "{}", ran.err);
    for codec in ["shuffle4+zstd-1", "zstd", "pco-f32", "none"] {
        place.write(
            "codec.dataset",
            POINTS_DECLARATION.replace("view aos }", &format!("view aos; codec \"{codec}\" }}")),
        );
        place.good(["dataset", "check", "codec.dataset"]);
    }
}

/// Only files could be explained, though `show` of a dataset in the store shows the same.
#[test]
fn a_dataset_of_the_store_is_explained_by_its_name() {
    let place = Place::new();
    place.write("points.dataset", POINTS_DECLARATION);
    place.good(["dataset", "add", "points.dataset", "--name", "stored"]);
    let stored = place.good(["dataset", "explain", "stored"]);
    assert_eq!(stored, place.good(["dataset", "explain", "points.dataset"]));
    let only = place.json(["dataset", "explain", "stored", "--only", "b"]).0;
    assert_eq!((only["views"].as_array().unwrap().len(), &only["views"][0]["bytes"]), (1, &json!(4000)));
    place.bad(["dataset", "explain", "stored", "--only", "c"], &["there is no view or replica \"c\""]);
    place.bad(["dataset", "explain", "stored", "--size", "data=7"], &["leave --size out"]);
    place.bad(["dataset", "explain", "none"], &["neither a file nor a dataset \"none\"", "`terrace dataset ls`"]);
    place.bad(["dataset", "explain", "./none.dataset"], &["none.dataset", "see that the path is right"]);
    // A file comes first, as its name is shorter to say of what is not in the store.
    place.write("stored", POINTS_DECLARATION.replace("1000", "10"));
    assert_eq!(place.json(["dataset", "explain", "stored", "--only", "b"]).0["views"][0]["bytes"], 40);
}

/// Exports were written under their own names from the start: after an interruption a part had the name of the whole, and
/// the same command refused to replace it. What is left of a kill is shown here by a part that nobody holds.
#[test]
fn what_a_view_is_made_into_is_whole_or_not_there() {
    let place = Place::new();
    place.write("points.dataset", POINTS_DECLARATION);
    place.write("aos", points());
    place.good(["--quiet", "view", "write", "points.dataset", "aos", "aos"]);
    place.write(".points.h5.terrace-part", vec![7; 100_000]);
    place.write(".points.zarr.terrace-part/data/left", b"by a kill");
    place.good(["view", "export", "points", "aos", "hdf5", "points.h5"]);
    place.good(["view", "export", "points", "aos", "zarr", "points.zarr"]);
    assert!(place.path("points.zarr/data/a/zarr.json").exists() && !place.path("points.zarr/data/left").exists());
    place.bad(["view", "export", "points", "aos", "hdf5", "points.h5"], &["points.h5", "it exists already"]);
    place.bad(["view", "export", "points", "aos", "hdf5", "none/points.h5"], &["none/points.h5", "No such file"]);
    // What is there stays until the new one is whole.
    place.write("b", b"what was there");
    place.write(".b.terrace-part", b"left by a kill");
    place.good(["rm", "datasets/points/main"]);
    place.bad(["view", "read", "points", "b", "-o", "b"], &["cannot be had"]);
    assert_eq!(place.read("b"), b"what was there");
    place.bad(["view", "export", "points", "b", "hdf5", "b.h5"], &["cannot be had"]);
    assert!(!place.path("b.h5").exists());
    let left = std::fs::read_dir(place.path("")).unwrap();
    assert_eq!(left.filter(|entry| entry.as_ref().unwrap().path().to_string_lossy().ends_with("-part")).count(), 0);
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

/// Bytes that differ everywhere.
fn points() -> Vec<u8> {
    (0..3000u32).flat_map(|i| (i as f32).to_le_bytes()).collect()
}

fn second_of_three(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(12).flat_map(|point| point[4..8].to_vec()).collect()
}

#[test]
fn a_dataset_is_added_written_read_changed_repaired_and_removed() {
    let place = Place::new();
    place.write("points.dataset", POINTS_DECLARATION);
    place.write("aos", points());
    assert_eq!(place.good(["dataset", "add", "points.dataset"]), "added points: 2 views and 1 replica\n");
    assert!(place.run(["dataset", "add", "points.dataset"]).err.contains("there is a dataset \"points\" already"));
    place.good(["view", "write", "points", "aos", "aos"]);
    place.good(["view", "read", "points", "b", "-o", "b"]);
    assert!(place.read("b") == second_of_three(&points()));
    assert_eq!(place.good(["view", "read", "points", "b", "-o", "-", "--range", "0-0"]), "");
    assert!(!place.path("-").exists());
    place.good(["view", "read", "points", "aos", "--range", "24-36", "-o", "third"]);
    assert!(place.read("third") == points()[24..36]);
    assert!(place.run(["view", "write", "points", "b", "aos"]).err.contains("read-only"));
    assert!(place.run(["view", "write", "points", "aos", "aos", "--at", "8"]).err.contains("beyond the end"));
    assert!(place.run(["view", "read", "points", "c"]).err.contains("it has aos, b"));

    let more =
        format!("{POINTS_DECLARATION}view big big {{ var data = data }}\nreplica other {{ view big\ntier disk }}\n");
    place.write("more.dataset", &more);
    place.good(["dataset", "edit", "points", "more.dataset"]);
    assert_eq!(place.good(["dataset", "ls"]), "points: aos b big\n");
    let shown = place.good(["dataset", "show", "points"]);
    assert!(shown.contains("replica other is datasets/points/other\n"), "{shown}");
    place.good(["rm", "datasets/points/main"]);
    assert!(place.good(["dataset", "show", "points"]).contains("main is datasets/points/main, and lacks something"));
    place.good(["repair"]);
    assert!(!place.good(["dataset", "show", "points"]).contains("lacks"));
    place.good(["get", "datasets/points/main", "main"]);
    assert!(place.read("main") == points());

    damage(&place, "datasets/points/main", "ram");
    damage(&place, "datasets/points/main", "disk");
    let (found, code) = place.json(["scrub"]);
    assert_eq!((code, &found["lost"], &found["needs_dataset"]), (1, &json!(0), &json!(1)), "{found}");
    let (found, code) = place.json(["repair"]);
    assert_eq!((code, &found["lost"], &found["repaired"]), (0, &json!(0), &found["bad"]), "{found}");
    place.good(["get", "datasets/points/main", "main"]);
    assert!(place.read("main") == points());

    place.write("less.dataset", "dataset { var data [1000]struct { a, b, c float32 } }\nview b { var b [] { b } = data }\nreplica b { view b }\n");
    let refused = place.run(["dataset", "edit", "points", "less.dataset"]);
    assert!(refused.err.contains("cannot be made of those that stay"), "{}", refused.err);
    place.write("wrong.dataset", POINTS_DECLARATION.replace("aos }", "aos\ntier moon }"));
    assert!(place.run(["dataset", "add", "wrong.dataset"]).err.contains("the tier \"moon\", which the store has not"));
    place.good(["dataset", "rm", "points"]);
    assert_eq!(place.good(["dataset", "ls"]), "");
    assert_eq!(place.good(["ls"]), "");
}

#[test]
fn a_view_of_a_file_is_used_at_once_and_a_file_converted_without_a_store() {
    let place = Place::new();
    place.write("points.dataset", POINTS_DECLARATION);
    place.write("aos", points());
    place.good(["--quiet", "view", "write", "points.dataset", "aos", "aos"]);
    place.good(["view", "read", "points.dataset", "b", "-o", "b"]);
    assert!(place.read("b") == second_of_three(&points()));
    let nowhere = Place::empty();
    nowhere.write("points.dataset", POINTS_DECLARATION);
    nowhere.write("in", points());
    nowhere.good(["view", "convert", "points.dataset", "aos", "in", "b", "out"]);
    assert!(nowhere.read("out") == second_of_three(&points()));
    let lacks = nowhere.run(["view", "convert", "points.dataset", "b", "out", "aos", "back"]);
    assert!(lacks.err.contains("the view \"b\" has not all that \"aos\" shows"), "{}", lacks.err);
    nowhere.write("short", &points()[..100]);
    assert_eq!(nowhere.run(["view", "convert", "points.dataset", "aos", "short", "b", "none"]).code, 1);
    assert!(!nowhere.path("none").exists());
}

#[test]
fn a_declaration_that_does_not_fit_is_not_stored_and_a_bad_one_stops_no_other() {
    let place = Place::new();
    let grows = "dataset { var n int32; var d [n]int8 }\nview all { var n = n; var d = d }\nreplica a { view all }\n";
    place.write("grows.dataset", grows);
    place.write("first.dataset", format!("{grows}view first {{ var x = d[0] }}\n"));
    place.write("points.dataset", POINTS_DECLARATION);
    place.write("bytes", [3, 0, 0, 0, 7, 8, 9]);
    place.good(["dataset", "add", "grows.dataset"]);
    place.good(["view", "write", "grows", "all", "bytes"]);
    let refused = place.run(["dataset", "edit", "grows", "first.dataset"]);
    assert!(refused.code == 1 && refused.err.contains("`d` is 0 long"), "{}", refused.err);
    place.good(["view", "read", "grows", "all", "-o", "back"]);
    assert_eq!(place.read("back"), [3, 0, 0, 0, 7, 8, 9]);

    place.write("other/grows.dataset", POINTS_DECLARATION);
    let other = place.run(["view", "read", "other/grows.dataset", "aos"]);
    assert!(other.code == 1 && other.err.contains("has other variables"), "{}", other.err);

    place.good(["dataset", "add", "points.dataset"]);
    place.good(["put", "bytes", "datasets/grows/.declaration"]);
    let listed = place.run(["dataset", "ls"]);
    assert!(listed.code == 1 && listed.out.starts_with("points: ") && listed.err.contains("grows"), "{}", listed.err);
    let repaired = place.run(["repair"]);
    assert!(repaired.code == 0 && repaired.err.contains("the dataset grows is left as it is"), "{}", repaired.err);
    place.good(["view", "read", "points", "aos", "-o", "aos"]);
    place.good(["dataset", "rm", "grows"]);
    assert_eq!(place.good(["dataset", "ls"]), "points: aos b\n");
}

/// The files of a replica are objects, which anybody may remove. `health` called the store safe.
#[test]
fn a_replica_whose_files_are_gone_is_a_finding_of_health() {
    let place = Place::new();
    let declaration = POINTS_DECLARATION.to_owned() + "replica second { view aos }\n";
    place.write("points.dataset", declaration);
    place.write("aos", points());
    place.good(["--quiet", "view", "write", "points.dataset", "aos", "aos"]);
    let findings = || {
        let (health, code) = place.json(["health"]);
        let found = health["findings"].as_array().unwrap().clone();
        let found = found.iter().filter(|one| one["code"] == "DATASET_INCOMPLETE");
        (found.map(|one| one["health"].as_str().unwrap().to_owned()).collect::<Vec<_>>(), code)
    };
    place.good(["sync"]);
    assert_eq!(findings(), (vec![], 0));
    place.good(["rm", "datasets/points/second"]);
    assert_eq!(findings(), (vec!["warning".to_owned()], 1));
    place.good(["dataset", "repair", "points"]);
    place.good(["sync"]);
    assert_eq!(findings(), (vec![], 0));
    place.good(["rm", "datasets/points/second"]);
    place.good(["rm", "datasets/points/main"]);
    assert_eq!(findings(), (vec!["damaged".to_owned()], 1));
}

#[test]
fn what_programs_read_of_a_dataset_leads_to_advice() {
    let place = Place::new();
    place.write("points.dataset", POINTS_DECLARATION.replace("1000", "200000"));
    place.good(["dataset", "add", "points.dataset"]);
    assert_eq!(
        place.good(["advise", "points"]),
        "no reads of points were noted; read its views first, as programs do\n"
    );
    place.bad(["advise", "none"], &["there is no dataset \"none\""]);
    // Each of them is a process of its own.
    (0..3).for_each(|_| drop(place.good(["view", "read", "points", "b", "-o", "b"])));
    let (advice, _) = place.json(["advise", "points"]);
    let access = &advice["accesses"][0];
    assert_eq!((access["times"].as_f64().unwrap().round(), &access["view"]), (3.0, &json!("b")), "{advice}");
    assert_eq!((&access["bytes"], &access["fetched_bytes"]), (&json!(800_000), &json!(2_400_000)));
    assert_eq!(access["fields"], json!([{"path": "data.b", "indices": [[0, 200_000]], "lengths": [200_000]}]));
    assert_eq!(advice["proposals"][0]["fetched_bytes"], json!([2_400_000, 800_000]), "{advice}");
    assert_eq!(advice["added"], json!(null));
    let words = place.good(["advise", "points"]);
    assert!(words.contains("data.b") && words.contains("all 200000") && words.contains("as_b"), "{words}");
    // Whether it pays after three reads depends on the machine.
    place.good(["advise", "points", "--apply"]);
}
