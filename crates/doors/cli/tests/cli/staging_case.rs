//! Results and objects that go into a folder that ignores case.

use serde_json::json;
use terrace_testkit::CaselessFolder;

use crate::place::{Place, Ran};
use crate::staging::{outcomes, pairs, short};

/// A store with two objects whose names differ in case, and an empty folder that ignores case.
fn place_with(test: &str, first: &str, second: &str) -> Option<(Place, CaselessFolder)> {
    let place = Place::new();
    let folder = CaselessFolder::mount(test, &place.path("backing"), &place.path("caseless"))?;
    for (key, bytes) in [("Run/Result", first), ("Run/result", second), ("Run/other", "other")] {
        place.write("made", bytes);
        place.good(["put", "made", key]);
    }
    place.write("list", "Run/Result\nRun/result\nRun/other\n");
    Some((place, folder))
}

/// The second end exited with 0, though one file was there for both.
#[test]
fn of_results_whose_names_differ_in_case_the_first_stays() {
    for (first, second) in [("AAAA", "bbbb"), ("AAAA", "longer"), ("", "")] {
        let Some((place, folder)) = place_with("results in a folder that ignores case", first, second) else { return };
        let to = folder.path().join("results").display().to_string();
        for first_outcome in ["copied", "present", "present"] {
            let (report, code) = place.json(["job", "end", "--to", &to, "--save", "list"]);
            let mut outcomes_found = short(&report);
            outcomes_found.sort();
            let expected = [("Run/Result", first_outcome), ("Run/other", first_outcome), ("Run/result", "failed")];
            assert_eq!((outcomes_found, code), (pairs(&expected), 1), "{report}");
            let reasons = outcomes(&report).into_iter().find(|(key, ..)| key == "Run/result").unwrap().2;
            assert!(reasons.contains("Run/Result is there, because the destination treats their names"), "{reasons}");
            assert_eq!(place.read(folder.path().join("results/Run/RESULT")), first.as_bytes());
        }
        place.good(["mv", "Run/result", "Run/renamed"]);
        place.write("list", "Run\n");
        let (report, code) = place.json(["job", "end", "--to", &to, "--save", "list"]);
        assert_eq!((&report["safe"], code), (&json!(true), 0), "{report}");
    }
}

/// The exit code was 0.
#[test]
fn objects_whose_names_differ_in_case_are_not_all_got() {
    let Some((place, folder)) = place_with("get into a folder that ignores case", "AAAA", "bbbb") else { return };
    let to = folder.path().join("out").display().to_string();
    for _ in 0..2 {
        let Ran { code, err, out } = place.run(["get", "Run", &to]);
        assert!(code == 1 && err.contains("Run/Result and Run/result are one file, because"), "{code} {out} {err}");
    }
    place.good(["mv", "Run/result", "Run/renamed"]);
    place.run(["get", "Run", &to]);
    place.good(["get", "Run", &to]);
}
