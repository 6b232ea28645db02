//! `terrace job start` and `end`: what a job reads comes into the store, and what it made goes where it stays.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use terrace_testkit::{SmallDisk, wait_until};

use crate::place::{Place, Ran, noise, ran};

pub const BIG_BYTES: usize = 12_000_000;

const SLOW_PLACE_KEYS: [&str; 4] = ["a", "big", "c", "d"];

/// A store that needs a second to read the big object, and other objects.
fn slow() -> Place {
    slow_with("12MB/s", &SLOW_PLACE_KEYS)
}

/// A store that is read at this rate, with these objects, which a list names. The one of the name `big` takes long.
pub fn slow_with(rate: &str, names: &[&str]) -> Place {
    let throttle = format!("throttle = {{ read = '{rate}' }}");
    let place = Place::with(&throttle, &throttle);
    for name in names {
        let bytes = if *name == "big" { noise(BIG_BYTES, 1) } else { name.as_bytes().to_vec() };
        place.write(format!("made/{name}"), bytes);
    }
    place.good(["put", "made", ""]);
    place.write("list", names.join("\n") + "\n");
    place
}

/// Key, outcome and reason of each object.
pub fn outcomes(report: &Value) -> Vec<(String, String, String)> {
    let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let objects = report["objects"].as_array().unwrap().iter();
    objects.map(|object| (text(object, "key"), text(object, "outcome"), text(object, "reason"))).collect()
}

/// Keys and outcomes.
pub fn short(report: &Value) -> Vec<(String, String)> {
    outcomes(report).into_iter().map(|(key, outcome, _)| (key, outcome)).collect()
}

pub fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(key, outcome)| ((*key).to_owned(), (*outcome).to_owned())).collect()
}

/// All files below a folder.
pub fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        match entry.path().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path().display().to_string()),
        }
    }
    found.sort();
    found
}

#[test]
fn inputs_come_in_and_only_results_go_out() {
    let place = Place::new();
    place.write("origin/mesh/a.h5", noise(3_000_000, 1));
    place.write("origin/mesh/b.h5", noise(200_000, 2));
    place.write("origin/steps.txt", "10\n");
    place.write("origin/not listed", "x");
    place.write("list", "./mesh/\n\nsteps.txt\n");
    let start = ["job", "start", "--origin", "origin", "--stage", "list"];
    assert_eq!(place.json(start), (json!({"staged": 3, "unchanged": 0, "failed": 0, "bytes": 3_200_003}), 0));
    assert_eq!(place.keys(""), ["mesh/a.h5", "mesh/b.h5", "steps.txt"]);
    assert!(place.good(["cat", "steps.txt"]) == "10\n");
    // The job changes an input, and makes two files.
    place.good(["sync"]);
    place.write("made/steps.txt", "11\n");
    place.write("made/out/late", "late");
    place.good(["put", "made/steps.txt", "steps.txt"]);
    place.good(["put", "made/out", "out"]);
    place.write("made/out/later", noise(1_000_000, 3));
    fs::set_permissions(place.path("made/out/later"), fs::Permissions::from_mode(0o640)).unwrap();
    place.good(["put", "made/out/later", "out/later"]);
    let end = ["job", "end", "--to", "results", "--deadline", "10m", "--report", "end.json"];
    let (report, code) = place.json(end);
    let made = [("out/later", "copied"), ("out/late", "copied"), ("steps.txt", "copied")];
    assert_eq!((short(&report), code), (pairs(&made), 0), "those that changed last come first");
    assert_eq!((&report["safe"], &report["inputs"]), (&json!(true), &json!(2)));
    assert_eq!(serde_json::from_slice::<Value>(&place.read("end.json")).unwrap(), report);
    assert!(place.read("results/out/later") == noise(1_000_000, 3) && place.read("results/steps.txt") == b"11\n");
    assert_eq!(place.path("results/out/later").metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(files(&place.path("results")).len(), 3);
    // The inputs are compared again, and staged again only where they differ.
    let (again, code) = place.json(start);
    assert_eq!((&again["staged"], &again["unchanged"], code), (&json!(1), &json!(2), 0));
    assert_eq!(place.good(["cat", "steps.txt"]), "10\n");
}

/// The part of a result had the name of another one: one took the other's place at the destination, and the exit code was 0.
#[test]
fn a_result_with_the_name_of_a_part_takes_no_other_ones_place() {
    let place = Place::new();
    place.write("made/r", "A");
    place.write("made/.r.terrace-part", "B");
    place.good(["put", "made", ""]);
    let (report, code) = place.json(["job", "end", "--to", "results"]);
    let mut outcomes = short(&report);
    outcomes.sort();
    assert_eq!((outcomes, code), (pairs(&[(".r.terrace-part", "failed"), ("r", "copied")]), 1), "{report}");
    assert_eq!((files(&place.path("results")).len(), place.read("results/r")), (1, b"A".to_vec()));
    // One that an interrupted end has left is no input.
    place.write("results/.k.terrace-part", "C");
    assert_eq!(place.json(["job", "start", "--origin", "results"]).0["failed"], 0);
    assert_eq!(place.keys(""), [".r.terrace-part", "r"]);
}

/// Such a file counted as present, and its mode stayed wrong.
/// The process that copies is another one than the one that prints.
#[test]
fn an_outcome_that_cannot_be_written_is_an_error() {
    let place = Place::new();
    place.write("made", "bytes");
    place.good(["put", "made", "result"]);
    let mut end = place.command(["job", "end", "--to", "results"]);
    let ended = end.stdout(fs::File::options().write(true).open("/dev/full").unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && said.contains("the outcome could not be written"), "{said}");
    assert_eq!(fs::read(place.path("results/result")).unwrap(), b"bytes");
}

#[test]
fn a_result_that_is_there_gets_its_mode_and_time() {
    let place = Place::new();
    place.write("made/a", "a");
    fs::create_dir(place.path("made/empty")).unwrap();
    let set = |path: &str, mode| fs::set_permissions(place.path(path), fs::Permissions::from_mode(mode)).unwrap();
    let mode = |path: &str| place.path(path).metadata().unwrap().permissions().mode() & 0o777;
    set("made/a", 0o750);
    set("made/empty", 0o700);
    place.good(["put", "made", ""]);
    let end = ["job", "end", "--to", "results"];
    place.good(end);
    set("results/a", 0o666);
    set("results/empty", 0o777);
    fs::File::options().write(true).open(place.path("results/a")).unwrap().set_modified(SystemTime::now()).unwrap();
    let (report, code) = place.json(end);
    assert_eq!((short(&report), code), (pairs(&[("empty", "present"), ("a", "present")]), 0));
    assert_eq!((mode("results/a"), mode("results/empty")), (0o750, 0o700));
    let time = |path: &str| place.path(path).metadata().unwrap().modified().unwrap();
    assert_eq!(time("results/a"), time("made/a"));
}

#[test]
fn a_repeated_end_copies_what_is_missing_or_differs() {
    let place = Place::new();
    for (name, bytes) in [("a", noise(100_000, 1)), ("b", noise(100_000, 2)), ("c/d", noise(100_000, 3))] {
        place.write(Path::new("made").join(name), bytes);
    }
    symlink("a", place.path("made/link")).unwrap();
    fs::create_dir(place.path("made/empty")).unwrap();
    place.good(["put", "made", ""]);
    place.write("list", "a\nb\nc\nlink\nempty\n");
    let end = ["job", "end", "--to", "results", "--save", "list"];
    let all = |outcome| pairs(&["a", "b", "c/d", "link", "empty"].map(|key| (key, outcome)));
    assert_eq!(short(&place.json(end).0), all("copied"));
    assert_eq!(short(&place.json(end).0), all("present"));
    assert_eq!(fs::read_link(place.path("results/link")).unwrap(), Path::new("a"));
    assert!(place.path("results/empty").is_dir());
    // A bit of one is wrong at the destination, and another one is missing there.
    let mut bytes = place.read("results/a");
    bytes[77_777] ^= 1;
    place.write("results/a", bytes);
    fs::remove_file(place.path("results/c/d")).unwrap();
    let (report, code) = place.json(end);
    let mended = [("c/d", "copied"), ("a", "copied"), ("b", "present"), ("link", "present"), ("empty", "present")];
    assert_eq!((short(&report), code), (pairs(&mended), 0), "the missing one comes first");
    assert!(place.read("results/a") == noise(100_000, 1) && place.read("results/c/d") == noise(100_000, 3));
    // A key that is not stored is no success.
    place.write("list", "a\nnothing\n");
    let (report, code) = place.json(end);
    assert_eq!((short(&report), code), (pairs(&[("a", "present"), ("nothing", "failed")]), 1));
}

#[test]
fn objects_that_cannot_be_copied_are_named_with_the_reason() {
    let place = Place::new();
    place.write("made/a", "a");
    place.write("made/b/c", "c");
    place.good(["put", "made", ""]);
    place.bad(["job", "end", "--to", "tiers/disk/results"], &["the store keeps its own files in"]);
    // A target by another name, such as that of a bind mount: only its marker tells.
    fs::create_dir(place.path("bound")).unwrap();
    fs::copy(place.path("tiers/disk/terrace-target"), place.path("bound/terrace-target")).unwrap();
    place.bad(["job", "end", "--to", "bound/results"], &["a store keeps its own files in"]);
    // Another user's link could lead anywhere.
    fs::create_dir_all(place.path("results")).unwrap();
    fs::create_dir(place.path("elsewhere")).unwrap();
    symlink(place.path("elsewhere"), place.path("results/b")).unwrap();
    symlink(place.path("elsewhere/a"), place.path("results/a")).unwrap();
    let Ran { code, err, .. } = place.run(["job", "end", "--to", "results", "--report", "end.json"]);
    assert!(code == 1 && err.contains("b/c: ") && err.contains("results/b is a symbolic link"), "{err}");
    assert!(place.read("results/a") == b"a" && files(&place.path("elsewhere")).is_empty());
    // An equal file behind a link is no result either.
    place.write("elsewhere/c", "c");
    assert_eq!(place.run(["job", "end", "--to", "results"]).code, 1);
    let report: Value = serde_json::from_slice(&place.read("end.json")).unwrap();
    assert_eq!((&report["copied"], &report["failed"], &report["safe"]), (&json!(1), &json!(1), &json!(false)));
}

/// A report replaced the object that had just been compared, devices, and the store's configuration.
#[test]
fn a_report_replaces_nothing_but_reports() {
    let place = Place::new();
    place.write("made/end.json", "a result");
    place.good(["put", "made", ""]);
    fs::create_dir(place.path("results")).unwrap();
    symlink(place.path("results"), place.path("link")).unwrap();
    place.write("list", "end.json\n");
    symlink(place.path("list"), place.path("same-list")).unwrap();
    assert!(Command::new("mkfifo").arg(place.path("pipe")).status().unwrap().success());
    let other = Place::new();
    let others = |name| other.path(name).display().to_string();
    let refused = [
        ("results/end.json", "the report would replace"),
        ("link/end.json", "the place of an object"),
        ("list", "which names the objects"),
        ("same-list", "which names the objects"),
        ("pipe", "it is no regular file"),
        ("results", "it is no regular file"),
        ("store/terrace.toml", "the store keeps its own files in"),
        ("tiers/disk/report", "the store keeps its own files in"),
        (&others("store/terrace.toml"), "a store keeps its own files in"),
        (&others("tiers/disk/report"), "a store keeps its own files in"),
    ];
    for (report, words) in refused {
        place.bad(["job", "end", "--to", "results", "--save", "list", "--report", report], &[words]);
    }
    assert_eq!(place.read("list"), b"end.json\n");
    for command in [["start", "--origin"], ["end", "--to"]] {
        place.bad(["job", command[0], command[1], &others("store")], &["a store keeps its own files in"]);
    }
    place.good(["job", "end", "--to", "results", "--report", "results/report.json"]);
    place.good(["job", "end", "--to", "results", "--report", "link/report.json"]);
    assert_eq!(place.read("results/end.json"), b"a result");
}

#[test]
fn a_full_destination_takes_what_fits() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount("a full destination", &place.path("small"), "size=1m") else { return };
    place.write("made/large", noise(2_000_000, 1));
    place.write("made/small", noise(300_000, 2));
    place.good(["put", "made", ""]);
    place.write("list", "large\nsmall\n");
    let to = disk.path().join("results");
    let (report, code) = place.json(["job", "end", "--to", to.to_str().unwrap(), "--save", "list"]);
    assert_eq!((short(&report), code), (pairs(&[("large", "failed"), ("small", "copied")]), 1));
    assert!(outcomes(&report)[0].2.contains("are free there"), "{report}");
    assert_eq!(files(&to).len(), 1);
}

fn fill(disk: &SmallDisk) {
    let mut file = fs::File::create(disk.path().join("fill")).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
}

/// Nothing was copied: the reports of the tests had room.
#[test]
fn results_are_copied_though_there_is_no_room_for_a_report() {
    let place = many(300);
    let Some(disk) = SmallDisk::mount("a report without room", &place.path("small"), "size=1m") else { return };
    place.write("small/end.json", "an earlier report");
    fill(&disk);
    let Ran { code, err, out } = place.run(["job", "end", "--to", "results", "--report", "small/end.json"]);
    assert!(code == 1 && err.contains("there is no report ") && err.contains("free some space there"), "{err}");
    assert!(out.starts_with("300 objects copied to results"), "{out}");
    assert!(files(&place.path("results")).iter().all(|path| is_made(&place, Path::new(path))));
    assert_eq!(files(disk.path()).len(), 1, "an earlier report would pass for this one's");
    // It can be neither replaced nor removed.
    fs::remove_file(place.path("small/fill")).unwrap();
    place.write("small/end.json", "an earlier report");
    let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(disk.path()).status().unwrap();
    assert!(remounted.success());
    let Ran { code, err, .. } = place.run(["job", "end", "--to", "results", "--report", "small/end.json"]);
    assert!(code == 1 && err.contains("small/end.json is not current: "), "{err}");
    // So it is where its folder is missing.
    let Ran { code, err, out } = place.run(["job", "end", "--to", "results", "--report", "missing/end.json"]);
    assert!(code == 1 && err.contains("there is no report ") && out.contains("300 there before"), "{out} {err}");
}

/// It said that the bytes could not be written, not that the report that is there is wrong.
#[test]
fn a_report_for_which_there_is_no_room_anymore_is_not_current() {
    let place = slow();
    let Some(disk) = SmallDisk::mount("a report on a full disk", &place.path("small"), "size=1m") else { return };
    let end = ["job", "end", "--to", "results", "--save", "list", "--report", "small/end.json"];
    let child = place.command(end).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it is in progress", || place.path("results/.big.terrace-part").exists());
    fill(&disk);
    let Ran { code, err, out } = ran(child.wait_with_output().unwrap());
    assert!(code == 1 && err.contains("small/end.json is not current: "), "{err}");
    assert!(out.starts_with("4 objects copied to results"), "{out}");
    let report: Value = serde_json::from_slice(&place.read("small/end.json")).unwrap();
    assert_eq!((&report["safe"], &report["left"]), (&json!(false), &json!(4)));
}

#[test]
fn the_deadline_gives_up_the_object_in_progress() {
    let place = slow_with("1MB/s", &["a", "big", "c"]);
    let (report, code) = place.json(["job", "end", "--to", "results", "--save", "list", "--deadline", "4s"]);
    let expected = [("a", "copied"), ("big", "left"), ("c", "left")];
    assert_eq!((short(&report), code), (pairs(&expected), 1));
    let reasons = outcomes(&report).into_iter().skip(1).map(|(_, _, reason)| reason);
    assert!(
        reasons.clone().all(|reason| reason.ends_with("the deadline has passed; run the command again")),
        "{report}"
    );
    assert_eq!(files(&place.path("results")), [place.path("results/a").display().to_string()]);
}

/// Starts the end of a slow job, and returns once the big object, whose part has this name, is in progress.
fn end_with_part(place: &Place, to: &str, part: &str, least_bytes: u64) -> Child {
    let arguments = ["job", "end", "--to", to, "--save", "list", "--report", "end.json"];
    let mut child = place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let part = place.path(part);
    wait_until("it is in progress", || {
        assert!(child.try_wait().unwrap().is_none(), "it ended before anybody saw it in progress");
        part.metadata().is_ok_and(|found| found.len() >= least_bytes)
    });
    child
}

/// The same, with a directory as the destination.
fn end_in_progress(place: &Place) -> Child {
    let child = end_with_part(place, "results", "results/.big.terrace-part", 1_000_000);
    let part = place.path("results/.big.terrace-part");
    assert_eq!(part.metadata().unwrap().permissions().mode() & 0o777, 0o600, "the object may be private");
    child
}

/// It was made again, the rest was copied there, and only the object in progress failed.
#[test]
fn a_destination_that_is_moved_is_not_made_again() {
    let place = slow();
    let end = end_in_progress(&place);
    check_moved(&place, end, false);
    // As with a file system that is unmounted, another directory is at its path.
    fs::remove_dir_all(place.path("results")).unwrap();
    let end = end_in_progress(&place);
    check_moved(&place, end, true);
}

#[cfg(feature = "services-fs")]
#[test]
fn a_directory_of_a_service_that_is_moved_is_not_made_again() {
    let place = slow();
    let to = format!("fs://{}", place.path("results").display());
    // It writes 8 MiB at a time, so the part has bytes for a moment only.
    let end = end_with_part(&place, &to, "results/.terrace-part/big", 0);
    check_moved(&place, end, false);
}

/// Moves the destination of the end of a slow job. Nothing is saved; once the directory is back, the next end does the rest.
fn check_moved(place: &Place, end: Child, is_replaced: bool) {
    fs::rename(place.path("results"), place.path("moved")).unwrap();
    if is_replaced {
        fs::create_dir(place.path("results")).unwrap();
    }
    let Ran { code, err, .. } = ran(end.wait_with_output().unwrap());
    assert!(code == 1 && err.contains("was moved, unmounted or replaced while the command ran"), "{err}");
    assert_eq!((place.path("results").exists(), files(&place.path("results")).len()), (is_replaced, 0));
    let report: Value = serde_json::from_slice(&place.read("end.json")).unwrap();
    assert_eq!((short(&report), &report["safe"]), (pairs(&SLOW_PLACE_KEYS.map(|key| (key, "left"))), &json!(false)));
    let reasons = outcomes(&report).into_iter().map(|(_, _, reason)| reason);
    assert!(reasons.clone().all(|reason| reason.contains("bring it back, and run the command again")), "{report}");
    if is_replaced {
        fs::remove_dir(place.path("results")).unwrap();
    }
    fs::rename(place.path("moved"), place.path("results")).unwrap();
    let (report, code) = place.json(["job", "end", "--to", "results", "--save", "list"]);
    assert_eq!((&report["safe"], code), (&json!(true), 0), "{report}");
    assert!(place.read("results/big") == noise(BIG_BYTES, 1) && place.read("results/d") == b"d");
}

pub fn end_by(child: Child, signal: Signal) -> Ran {
    kill_process(Pid::from_child(&child), signal).unwrap();
    ran(child.wait_with_output().unwrap())
}

/// The exit code was 0.
#[test]
fn a_result_that_is_removed_while_others_are_copied_is_missing() {
    let place = slow();
    let end = end_in_progress(&place);
    fs::remove_file(place.path("results/a")).unwrap();
    let Ran { code, err, .. } = ran(end.wait_with_output().unwrap());
    assert!(code == 1 && err.contains("a: it was there, and somebody has removed or changed it"), "{err}");
    let report: Value = serde_json::from_slice(&place.read("end.json")).unwrap();
    let expected = [("a", "failed"), ("big", "copied"), ("c", "copied"), ("d", "copied")];
    assert_eq!((short(&report), &report["safe"], &report["copied"]), (pairs(&expected), &json!(false), &json!(3)));
    assert_eq!(place.json(["job", "end", "--to", "results", "--save", "list"]).1, 0);
}

/// The exit code was 0: the test for removed results had none that was replaced by one of its length.
#[test]
fn a_result_that_is_replaced_while_others_are_copied_is_missing_unless_it_is_equal() {
    let place = slow();
    for (bytes, expected) in [("b", 1), ("a", 0)] {
        let end = end_in_progress(&place);
        place.write("other", bytes);
        fs::rename(place.path("other"), place.path("results/a")).unwrap();
        let Ran { code, err, .. } = ran(end.wait_with_output().unwrap());
        assert_eq!(
            (code, err.contains("a: it was there, and somebody has removed or changed it")),
            (expected, code == 1),
            "{err}"
        );
        let report: Value = serde_json::from_slice(&place.read("end.json")).unwrap();
        let first = if expected == 1 { "failed" } else { "copied" };
        let outcomes = [("a", first), ("big", "copied"), ("c", "copied"), ("d", "copied")];
        assert_eq!(short(&report), pairs(&outcomes), "{report}");
        assert_eq!(place.read("results/a"), bytes.as_bytes());
        fs::remove_dir_all(place.path("results")).unwrap();
    }
    // One is written in place.
    let end = end_in_progress(&place);
    fs::write(place.path("results/a"), "b").unwrap();
    assert_eq!(ran(end.wait_with_output().unwrap()).code, 1);
}

#[test]
fn an_end_that_is_ended_finishes_its_batch_and_the_next_one_does_the_rest() {
    let place = slow();
    let Ran { code, err, .. } = end_by(end_in_progress(&place), Signal::TERM);
    assert!(code == 1 && err.contains("d: SIGTERM has come; run the command again"), "{err}");
    let report: Value = serde_json::from_slice(&place.read("end.json")).unwrap();
    assert_eq!(short(&report), pairs(&[("a", "copied"), ("big", "copied"), ("c", "copied"), ("d", "left")]));
    assert!(place.read("results/big") == noise(BIG_BYTES, 1) && !place.path("results/d").exists());
    let (report, code) = place.json(["job", "end", "--to", "results", "--save", "list"]);
    let rest = [("d", "copied"), ("a", "present"), ("big", "present"), ("c", "present")];
    assert_eq!((short(&report), code), (pairs(&rest), 0));
}

#[test]
fn an_end_that_is_killed_leaves_whole_files_and_a_report() {
    let place = slow();
    for (signal, code) in [(Signal::INT, 130), (Signal::KILL, -1)] {
        let ran = end_by(end_in_progress(&place), signal);
        assert_eq!(ran.code, code, "{}", ran.err);
        let report: Value = serde_json::from_slice(&place.read("end.json")).unwrap();
        assert_eq!(report["safe"], json!(false), "it says so from the beginning");
        assert!(outcomes(&report)[0].2.ends_with("run it again"), "{report}");
        assert!(place.read("results/a") == b"a" && !place.path("results/big").exists());
        fs::remove_file(place.path("results/a")).unwrap();
    }
    place.good(["job", "end", "--to", "results", "--save", "list"]);
    assert!(place.read("results/big") == noise(BIG_BYTES, 1));
    assert_eq!(files(&place.path("results")).len(), 4, "nothing of the killed command is left");
}

/// A store with many small objects, whose names and bytes are known.
fn many(count: u64) -> Place {
    let place = Place::new();
    for number in 0..count {
        place.write(format!("made/{}/{number}", number % 7), noise(number as usize % 5000, number));
    }
    place.good(["put", "made", ""]);
    place
}

pub fn is_made(place: &Place, path: &Path) -> bool {
    let number: u64 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
    place.read(path) == noise(number as usize % 5000, number)
}

#[test]
fn of_many_results_each_one_that_is_wrong_is_mended() {
    let place = many(300);
    let end = ["job", "end", "--to", "results", "--report", "end.json"];
    let (report, code) = place.json(end);
    assert_eq!((&report["copied"], &report["safe"], code), (&json!(300), &json!(true), 0));
    let copied = files(&place.path("results"));
    assert!(copied.len() == 300 && copied.iter().all(|path| is_made(&place, Path::new(path))));
    // Two differ, one is not there, and a folder is in the way of another.
    place.write("results/2/30", noise(30, 77));
    place.write("results/3/66", "short");
    fs::remove_file(place.path("results/5/40")).unwrap();
    fs::remove_file(place.path("results/6/41")).unwrap();
    fs::create_dir(place.path("results/6/41")).unwrap();
    let (report, code) = place.json(end);
    assert_eq!((&report["copied"], &report["present"], code), (&json!(3), &json!(296), 1), "{report}");
    let failed: Vec<_> = outcomes(&report).into_iter().filter(|(_, outcome, _)| outcome == "failed").collect();
    assert!(failed.len() == 1 && failed[0].0 == "6/41", "{failed:?}");
    fs::remove_dir(place.path("results/6/41")).unwrap();
    assert_eq!(short(&place.json(end).0)[0], ("6/41".to_owned(), "copied".to_owned()));
    assert!(files(&place.path("results")).iter().all(|path| is_made(&place, Path::new(path))));
}

#[test]
fn a_kill_between_many_results_leaves_each_whole_or_absent() {
    let place = many(2000);
    for least in [1, 100, 500] {
        let end = place.command(["job", "end", "--to", "results"]).stderr(Stdio::null()).spawn().unwrap();
        let results = || files(&place.path("results")).into_iter().filter(|path| !path.ends_with(".terrace-part"));
        wait_until("some are there", || results().count() >= least);
        end_by(end, Signal::KILL);
        assert!(results().all(|path| is_made(&place, Path::new(&path))));
    }
    let (report, code) = place.json(["job", "end", "--to", "results"]);
    assert_eq!((&report["safe"], code), (&json!(true), 0));
    let copied = files(&place.path("results"));
    assert!(copied.len() == 2000 && copied.iter().all(|path| is_made(&place, Path::new(path))));
}

/// Those of one batch had one part, and all but one of them failed.
#[test]
fn long_names_that_begin_alike_are_copied_in_one_batch() {
    let place = Place::new();
    let name = |number: u64| format!("{}{number}", "n".repeat(240));
    (0..9).for_each(|number| drop(place.write(Path::new("made").join(name(number)), noise(100, number))));
    place.good(["put", "made", ""]);
    let (report, code) = place.json(["job", "end", "--to", "results"]);
    assert_eq!((&report["copied"], code), (&json!(9), 0), "{report}");
    assert!((0..9).all(|number| place.read(Path::new("results").join(name(number))) == noise(100, number)));
}

#[cfg(feature = "services-fs")]
#[test]
fn a_service_is_an_origin_and_a_destination() {
    let place = Place::new();
    place.write("origin/mesh/a", noise(20_000_000, 1));
    place.write("origin/b", "b");
    place.write("list", "mesh\nb\n");
    let url = |folder: &str| format!("fs://{}", place.path(folder).display());
    let (origin, to) = (url("origin"), url("results"));
    place.bad(["job", "end", "--to", &url("tiers/disk")], &["keeps its own"]);
    // Only the service itself was looked at, not the folders above, and an origin not at all.
    place.bad(["job", "end", "--to", &url("tiers/disk/below/it")], &["keeps its own"]);
    place.bad(["job", "start", "--origin", &url("tiers/disk/segments")], &["the store keeps its own files in"]);
    let start = ["job", "start", "--origin", &origin, "--stage", "list"];
    assert_eq!(place.json(start).0, json!({"staged": 2, "unchanged": 0, "failed": 0, "bytes": 20_000_001}));
    assert_eq!(place.json(start).0["unchanged"], json!(2));
    place.write("made", noise(20_000_000, 2));
    place.good(["put", "made", "out/made"]);
    let end = ["job", "end", "--to", &to];
    assert_eq!(short(&place.json(end).0), pairs(&[("out/made", "copied")]));
    assert!(place.read("results/out/made") == noise(20_000_000, 2));
    assert_eq!(short(&place.json(end).0), pairs(&[("out/made", "present")]));
    let mut bytes = place.read("results/out/made");
    bytes[15_000_000] ^= 1;
    place.write("results/out/made", bytes);
    assert_eq!(short(&place.json(end).0), pairs(&[("out/made", "copied")]));
    assert!(place.read("results/out/made") == noise(20_000_000, 2));
}

/// The part of an object for which there was no room stayed, and small ones did not fit either.
#[cfg(feature = "services-fs")]
#[test]
fn a_full_service_takes_what_fits() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount("a full service", &place.path("small"), "size=1m") else { return };
    place.write("made/large", noise(2_000_000, 1));
    place.write("made/small", noise(900_000, 2));
    place.good(["put", "made", ""]);
    place.write("list", "large\nsmall\n");
    let to = format!("fs://{}", disk.path().join("results").display());
    let (report, code) = place.json(["job", "end", "--to", &to, "--save", "list"]);
    assert_eq!((short(&report), code), (pairs(&[("large", "failed"), ("small", "copied")]), 1));
    let left = files(&disk.path().join("results"));
    assert_eq!(left, [disk.path().join("results/small").display().to_string()]);
}
