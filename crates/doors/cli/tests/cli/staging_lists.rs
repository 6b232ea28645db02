//! `terrace job start` and `end`: names that a list has twice, and reports of commands that fail early.

use std::fs;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};
use terrace_testkit::wait_until;

use crate::place::{Place, Ran, ran};
use crate::staging::{end_by, files, outcomes};

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
    // The reason is the destination's, also in a new report. It was that the command ended before.
    place.bad(["job", "end", "--to", "unmounted/results", "--report", "new.json"], &["unmounted/results"]);
    for name in ["end.json", "new.json"] {
        let report = serde_json::from_slice(&place.read(name)).unwrap();
        let [(_, outcome, reason)] = &outcomes(&report)[..] else { panic!("{report}") };
        assert!(outcome == "left" && reason.contains("unmounted/results") && reason.contains("; "), "{report}");
    }
    place.good(["job", "end", "--to", "new", "--report", "new/end.json"]);
}

/// A note said that it was skipped, and the exit code was 0.
#[test]
fn an_unfinished_file_that_a_list_names_is_an_input_that_is_missing() {
    let place = Place::new();
    place.write("origin/.x.terrace-part", "part");
    place.write("origin/.f.terrace-part/in", "part");
    place.write("origin/y", "y");
    place.write("list", ".x.terrace-part\n.f.terrace-part/in\n.f.terrace-part\ny\n");
    let Ran { code, err, out } = place.run(["job", "start", "--origin", "origin", "--stage", "list"]);
    assert_eq!((out.as_str(), code), ("1 input staged (1 B), 0 unchanged, 3 failed\n", 1), "{err}");
    assert_eq!(err.matches("it has the name of an unfinished file of Terrace's").count(), 3, "{err}");
    // One that no list names was left by an interrupted command.
    let Ran { code, err, .. } = place.run(["job", "start", "--origin", "origin"]);
    assert!(code == 0 && err.matches("skipped, since an interrupted command has left it").count() == 2, "{err}");
    assert_eq!(place.keys(""), ["y"]);
}

/// Links and folders with such names, and what was in these, were copied, and were in the way of the next results.
#[test]
fn no_result_has_the_name_of_an_unfinished_one() {
    let place = Place::new();
    let names = [".f.terrace-part", ".empty.terrace-part", ".in.terrace-part/a", ".link.terrace-part"];
    place.write("made/.f.terrace-part", "f");
    fs::create_dir(place.path("made/.empty.terrace-part")).unwrap();
    place.write("made/.in.terrace-part/a", "a");
    symlink("y", place.path("made/.link.terrace-part")).unwrap();
    place.write("made/y", "y");
    place.good(["put", "made", ""]);
    place.write("list", names.join("\n") + "\ny\n");
    for command in [vec![], vec!["--save", "list"]] {
        let (report, code) = place.json([&["job", "end", "--to", "results"], command.as_slice()].concat());
        let failed = outcomes(&report).into_iter().filter(|(_, outcome, _)| outcome == "failed");
        assert!(code == 1 && failed.clone().all(|(_, _, reason)| reason.contains("give it another name")), "{report}");
        assert_eq!(failed.count(), names.len(), "{report}");
        assert_eq!(files(&place.path("results")), [place.path("results/y").display().to_string()]);
    }
}

/// The parts of an end that was killed came in as inputs.
#[cfg(feature = "services-fs")]
#[test]
fn unfinished_blobs_are_no_inputs() {
    let place = Place::new();
    place.write("origin/.terrace-part/x", "part");
    place.write("origin/y", "y");
    let origin = format!("fs://{}", place.path("origin").display());
    assert_eq!(place.run(["job", "start", "--origin", &origin]).code, 0);
    assert_eq!(place.keys(""), ["y"]);
    place.write("list", ".terrace-part/x\n");
    place.bad(["job", "start", "--origin", &origin, "--stage", "list"], &["it has the name of an unfinished file"]);
}

/// Begins the end of a job whose list is a pipe into which nobody has written.
fn end_with_pipe(place: &Place, deadline: &str) -> Child {
    place.write("made", "a");
    place.good(["put", "made", "a"]);
    assert!(Command::new("mkfifo").arg(place.path("list")).status().unwrap().success());
    end_of_list(place, deadline)
}

/// Begins the end of a job with a list and a deadline.
fn end_of_list(place: &Place, deadline: &str) -> Child {
    let end = ["job", "end", "--to", "results", "--save", "list", "--report", "end.json", "--deadline", deadline];
    place.command(end).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Checks that the end of the job has failed, and has made nothing but a report with this reason.
fn check_late(place: &Place, Ran { code, err, .. }: Ran, reason: &str) {
    assert!(code == 1 && err.contains(&format!("list was not read to its end: {reason}")), "{code} {err}");
    let report: Value = serde_json::from_slice(&place.read("end.json")).unwrap();
    assert_eq!((&report["safe"], outcomes(&report).len()), (&json!(false), 0), "{report}");
    assert!(report["reason"].as_str().unwrap().contains(reason), "{report}");
    assert!(!place.path("results").exists());
}

/// Neither did anything while the command waited for its list.
#[test]
fn an_end_whose_list_does_not_come_ends_at_its_deadline_and_by_sigterm() {
    let place = Place::new();
    let mut end = end_with_pipe(&place, "1s");
    wait_until("its deadline has passed", || end.try_wait().unwrap().is_some());
    check_late(&place, ran(end.wait_with_output().unwrap()), "the deadline has passed");
    let place = Place::new();
    let mut end = end_with_pipe(&place, "10m");
    // A pipe without a reader cannot be opened in this way.
    let mut open = fs::File::options();
    let open = open.write(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let mut writer = None;
    wait_until("it reads its list", || {
        writer = open.open(place.path("list")).ok();
        writer.is_some()
    });
    assert!(end.try_wait().unwrap().is_none());
    check_late(&place, end_by(end, Signal::TERM), "SIGTERM has come");
    // While it is open, the list has no end.
    drop(writer);
    // One that comes is read.
    let end = end_of_list(&place, "10m");
    fs::write(place.path("list"), "a\n").unwrap();
    let Ran { code, err, .. } = ran(end.wait_with_output().unwrap());
    assert!(code == 0 && place.read("results/a") == b"a", "{err}");
}
