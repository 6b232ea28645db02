//! `terrace job start` and `end`: names that a list has twice, and reports of commands that fail early.

use serde_json::{Value, json};

use crate::place::Place;

/// Two threads staged one input, and it could pass for a result.
#[test]
fn an_input_that_a_list_names_twice_is_staged_once() {
    let place = Place::new();
    place.write("origin/mesh/a", "a");
    place.write("origin/mesh/b", "b");
    place.write("list", "mesh/a\nmesh\nmesh/a\n./mesh/\n");
    let start = ["job", "start", "--origin", "origin", "--stage", "list"];
    assert_eq!(place.json(start), (json!({"staged": 2, "unchanged": 0, "failed": 0, "bytes": 2}), 0));
    assert_eq!(place.json(start), (json!({"staged": 0, "unchanged": 2, "failed": 0, "bytes": 0}), 0));
    let (report, code) = place.json(["job", "end", "--to", "results"]);
    assert_eq!((&report["inputs"], &report["copied"], code), (&json!(2), &json!(0), 0));
}

/// The report of an earlier command stayed, which had found all objects safe.
#[test]
fn a_report_tells_of_a_destination_that_cannot_be_opened() {
    let place = Place::new();
    place.write("made", "a");
    place.good(["put", "made", "a"]);
    place.good(["job", "end", "--to", "results", "--report", "end.json"]);
    let is_safe = || serde_json::from_slice::<Value>(&place.read("end.json")).unwrap()["safe"].clone();
    assert_eq!(is_safe(), json!(true));
    place.write("unmounted", "no directory");
    place.bad(["job", "end", "--to", "unmounted/results", "--report", "end.json"], &["unmounted/results"]);
    assert_eq!(is_safe(), json!(false));
    place.good(["job", "end", "--to", "new", "--report", "new/end.json"]);
}
