//! `terrace job start`: inputs that come in, and those that cannot.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use terrace_testkit::{SmallDisk, wait_until};

use crate::place::{Place, Ran, noise, ran};
use crate::staging::{BIG_BYTES, files, is_made, outcomes, pairs, short};

/// They passed for results, and replaced newer files at the destination.
#[test]
fn inputs_whose_staging_was_ended_are_no_results() {
    let place = Place::with("throttle = { write = '12MB/s' }", "throttle = { write = '12MB/s' }");
    for number in 0..6 {
        place.write(format!("origin/{number}"), noise(BIG_BYTES / 4, number));
        place.write(format!("results/{number}"), "newer");
    }
    let start = ["job", "start", "--origin", "origin"];
    let mut child = place.command(start).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("an input is in the store", || !place.keys("").is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    place.write("made/out", "out");
    place.good(["put", "made", ""]);
    let (report, code) = place.json(["job", "end", "--to", "results"]);
    let failed = outcomes(&report).into_iter().filter(|(_, outcome, _)| outcome == "failed");
    assert!(code == 1 && failed.clone().count() > 0, "{report}");
    assert!(failed.clone().all(|(_, _, reason)| reason.contains("run that command again")), "{report}");
    assert!((0..6).all(|number| place.read(format!("results/{number}")) == b"newer"), "no input is copied");
    assert_eq!(place.read("results/out"), b"out", "a result is");
    // The command ends this time.
    assert_eq!(place.json(start).1, 0);
    let (report, code) = place.json(["job", "end", "--to", "results"]);
    assert_eq!((short(&report), &report["inputs"], code), (pairs(&[("out", "present")]), &json!(6), 0));
}

/// Starts to stage one file, and returns once it is in the store, and is compared for seconds.
fn start_slowly(place: &Place) -> Child {
    let bytes = noise(BIG_BYTES / 4, 1);
    place.write("origin/changed", bytes);
    place.write("origin/at rest", "a");
    let start = place.command(["job", "start", "--origin", "origin"]);
    let child = { start }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it is in the store", || place.keys("").len() == 2);
    child
}

/// Changes the last byte of the file that is staged.
fn change_input(place: &Place) {
    let mut bytes = place.read("origin/changed");
    *bytes.last_mut().unwrap() ^= 1;
    place.write("origin/changed", bytes);
}

/// It passed for a result, which stays, so `run it again` was never true. The tests changed inputs between two commands only.
#[test]
fn an_input_that_changes_while_it_is_staged_is_staged_by_the_next_command() {
    for is_killed in [false, true] {
        let place = Place::with("throttle = { read = '1MB/s' }", "throttle = { read = '1MB/s' }");
        let mut child = start_slowly(&place);
        change_input(&place);
        if is_killed {
            child.kill().unwrap();
        }
        let Ran { code, err, .. } = ran(child.wait_with_output().unwrap());
        assert!(code != 0 && err.contains("staging changed: ") != is_killed, "{err}");
        let staged = json!({"staged": 1, "unchanged": 1, "failed": 0, "bytes": BIG_BYTES / 4});
        assert_eq!(place.json(["job", "start", "--origin", "origin"]), (staged, 0), "{is_killed}");
        assert!(place.good(["check", "origin", ""]).contains("2 "));
        let (report, code) = place.json(["job", "end", "--to", "results"]);
        assert_eq!((&report["inputs"], &report["copied"], code), (&json!(2), &json!(0), 0), "{report}");
    }
}

/// The same name may be a result's, which the job wrote although `job start` was killed.
#[test]
fn a_result_in_the_place_of_an_input_whose_staging_was_ended_stays() {
    let place = Place::with("throttle = { read = '1MB/s' }", "throttle = { read = '1MB/s' }");
    let mut child = start_slowly(&place);
    child.kill().unwrap();
    child.wait().unwrap();
    change_input(&place);
    let result = fs::File::options().write(true).open(place.write("result", "a result")).unwrap();
    // Written in the tick of the clock in which somebody has changed the input.
    result.set_modified(place.path("origin/changed").metadata().unwrap().modified().unwrap()).unwrap();
    place.good(["put", "result", "changed"]);
    for _ in 0..2 {
        place.bad(["job", "start", "--origin", "origin"], &["the store has another object of this name"]);
        assert_eq!(place.good(["cat", "changed"]), "a result");
    }
}

/// A record for which there was no room let all inputs pass for results.
#[test]
fn inputs_that_fill_the_store_are_no_results() {
    let place = Place::empty();
    let Some(disk) = SmallDisk::mount("inputs that fill the store", &place.path("small"), "size=24m") else { return };
    let target = disk.path().join("disk").display().to_string();
    place.write("terrace.toml", format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{target}']\n"));
    place.good(["init", "--config", "terrace.toml"]);
    for number in 0..30 {
        place.write(format!("origin/{number}"), noise(1_000_000, number));
    }
    let ran = place.run(["job", "start", "--origin", "origin"]);
    assert!(ran.code == 1 && ran.out.contains(" staged ("), "{} {}", ran.out, ran.err);
    let (report, code) = place.json(["job", "end", "--to", "results"]);
    assert_eq!((&report["copied"], files(&place.path("results")).len()), (&json!(0), 0), "{report} {code}");
}

/// Nobody was told.
#[test]
fn an_input_that_the_job_changed_and_that_is_staged_again_is_named() {
    let place = Place::new();
    place.write("origin/state", "before");
    let start = ["job", "start", "--origin", "origin"];
    place.good(start);
    place.write("state", "after");
    place.good(["put", "state", "state"]);
    let ran = place.run(start);
    assert!(ran.code == 0 && ran.err.contains("state: replaced, though the job had changed it"), "{}", ran.err);
    assert!(!place.run(start).err.contains("replaced"));
}

/// It was replaced without a word.
#[test]
fn an_object_that_no_command_has_staged_is_not_replaced_by_an_input() {
    let place = Place::new();
    for name in ["equal", "other", "shorter"] {
        place.write(format!("origin/{name}"), "12345");
    }
    fs::create_dir(place.path("origin/folder")).unwrap();
    for (name, bytes) in [("equal", "12345"), ("other", "abcde"), ("shorter", "abc"), ("folder", "a file")] {
        place.write(format!("made/{name}"), bytes);
    }
    place.good(["put", "made", ""]);
    let start = ["job", "start", "--origin", "origin"];
    let ran = place.run(start);
    assert_eq!((ran.out.as_str(), ran.code), ("0 inputs staged (0 B), 1 unchanged, 3 failed\n", 1), "{}", ran.err);
    for name in ["other", "shorter", "folder"] {
        let words = format!("staging {name}: the store has another object of this name, which no `terrace job start`");
        assert!(ran.err.contains(&words) && ran.err.contains("remove it by `terrace rm`"), "{}", ran.err);
        assert_eq!(place.good(["cat", name]).as_bytes(), place.read(format!("made/{name}")));
    }
    // It is a result, also if the job goes on to write it.
    place.write("other", "later");
    place.good(["put", "other", "other"]);
    let (report, code) = place.json(["job", "end", "--to", "results"]);
    assert_eq!((&report["copied"], &report["inputs"], code), (&json!(3), &json!(1), 0), "{report}");
    assert_eq!(place.read("results/other"), b"later");
    // Removed, it gives way.
    ["other", "shorter", "folder"].iter().for_each(|name| drop(place.good(["rm", name])));
    assert_eq!(place.json(start), (json!({"staged": 3, "unchanged": 1, "failed": 0, "bytes": 10}), 0));
}

/// Nothing was staged.
#[test]
fn inputs_beside_one_that_cannot_be_read_come_in() {
    let place = Place::new();
    place.write("origin/open", "a");
    place.write(format!("origin/{}", vec!["x".repeat(200); 10].join("/")), "its name is too long");
    let ran = place.run(["job", "start", "--origin", "origin"]);
    assert_eq!((ran.out.as_str(), ran.code), ("1 input staged (1 B), 0 unchanged, 1 failed\n", 1), "{}", ran.err);
    assert_eq!(place.keys(""), ["open"]);
}

/// Each was said to have changed meanwhile.
#[test]
fn symbolic_links_in_a_folder_come_in_as_links() {
    let place = Place::new();
    place.write("origin/d/a", "a");
    for (link, to) in [("link", "a"), ("dangling", "nowhere")] {
        symlink(to, place.path("origin/d").join(link)).unwrap();
    }
    let start = ["job", "start", "--origin", "origin"];
    assert_eq!(place.json(start).1, 0);
    assert_eq!((&place.json(start).0["staged"], place.json(start).1), (&json!(0), 0));
    place.good(["get", "d", "out"]);
    assert_eq!(fs::read_link(place.path("out/link")).unwrap(), Path::new("a"));
    assert_eq!(fs::read_link(place.path("out/dangling")).unwrap(), Path::new("nowhere"));
}

/// One that was named itself was followed, even out of the origin.
#[test]
fn symbolic_links_that_are_named_come_in_as_links() {
    let place = Place::new();
    place.write("secret/key", "secret");
    place.write("origin/real/a", "a");
    symlink("real", place.path("origin/link")).unwrap();
    symlink(place.path("secret/key"), place.path("origin/out")).unwrap();
    symlink(place.path("secret"), place.path("origin/folder")).unwrap();
    place.write("list", "link\nout\nfolder\nreal\n");
    let start = ["job", "start", "--origin", "origin", "--stage", "list"];
    assert_eq!((&place.json(start).0["staged"], place.json(start).1), (&json!(4), 0));
    place.good(["get", "", "got"]);
    assert_eq!(fs::read_link(place.path("got/link")).unwrap(), Path::new("real"));
    assert_eq!(fs::read_link(place.path("got/out")).unwrap(), place.path("secret/key"));
    assert_eq!(place.keys(""), ["folder", "link", "out", "real/a"]);
    for behind in ["folder/key", "link/a"] {
        place.write("list", behind);
        let link = behind.split('/').next().unwrap();
        let words = format!("origin/{link} is a symbolic link, and is not followed");
        place.bad(start, &[&words]);
    }
}

/// A pipe kept `job start` waiting for ever.
#[test]
fn an_input_that_may_have_no_end_is_refused() {
    let place = Place::new();
    place.write("origin/a", "a");
    assert!(Command::new("mkfifo").arg(place.path("origin/pipe")).status().unwrap().success());
    place.write("list", "pipe\na\n");
    place.bad(["job", "start", "--origin", "origin", "--stage", "list"], &["origin/pipe: it is no file, directory or"]);
    assert_eq!(place.good(["cat", "a"]), "a");
}

/// A note said that it was skipped, and the exit code was 0.
#[test]
fn a_pipe_or_socket_in_a_folder_is_an_input_that_is_missing() {
    let place = Place::new();
    place.write("origin/in/a", "a");
    place.write("origin/in/z", "z");
    assert!(Command::new("mkfifo").arg(place.path("origin/in/pipe")).status().unwrap().success());
    let _socket = UnixListener::bind(place.path("origin/in/socket")).unwrap();
    place.write("list", "in\n");
    let (all, listed) =
        (["job", "start", "--origin", "origin"], ["job", "start", "--origin", "origin", "--stage", "list"]);
    let ran = place.run(listed);
    for name in ["pipe", "socket"] {
        let words = format!("reading origin/in/{name}: it is a pipe, a socket or a device");
        assert!(ran.code == 1 && ran.err.contains(&words), "{}", ran.err);
    }
    assert_eq!(place.keys(""), ["in/a", "in/z"]);
    let again = |start: &[&str]| place.json(start.iter().copied());
    assert_eq!(again(&listed), (json!({"staged": 0, "unchanged": 2, "failed": 2, "bytes": 0}), 1));
    assert_eq!(again(&all).1, 1, "without a list, all are named");
    // What is beside them can be named.
    place.write("list", "in/a\nin/z\n");
    assert_eq!(again(&listed).1, 0);
}

#[test]
fn an_origin_in_a_tier_is_refused() {
    let place = Place::new();
    place.write("made", "a");
    place.good(["put", "made", "a"]);
    for origin in ["tiers/disk", "tiers/disk/segments", "store"] {
        place.bad(["job", "start", "--origin", origin], &["the store keeps its own files in"]);
    }
    fs::create_dir_all(place.path("bound/below")).unwrap();
    fs::copy(place.path("tiers/disk/terrace-target"), place.path("bound/terrace-target")).unwrap();
    place.bad(["job", "start", "--origin", "bound/below"], &["a store keeps its own files in"]);
}

#[test]
fn an_input_that_is_not_there_is_named_and_the_others_come_in() {
    let place = Place::new();
    place.write("origin/a", "a");
    place.write("list", "missing\na\n");
    let ran = place.run(["job", "start", "--origin", "origin", "--stage", "list"]);
    assert!(ran.code == 1 && ran.err.contains("origin/missing"), "{}", ran.err);
    assert_eq!(ran.out, "1 input staged (1 B), 0 unchanged, 1 failed\n");
    assert_eq!(place.keys(""), ["a"]);
    place.write("list", "a\n../b\n");
    place.bad(["job", "start", "--origin", "origin", "--stage", "list"], &["list: line 2"]);
    // Such a line kept all others out: it was the second one here, behind an input that was there.
    place.write("origin/b", "b");
    place.write("origin/d/c", "c");
    place.write("list", "../b\nd//\nb\n");
    let ran = place.run(["job", "start", "--origin", "origin", "--stage", "list"]);
    assert_eq!((ran.out.as_str(), ran.code), ("2 inputs staged (2 B), 0 unchanged, 1 failed\n", 1), "{}", ran.err);
    assert_eq!(place.keys(""), ["a", "b", "d/c"]);
    let (report, code) = place.json(["job", "end", "--to", "results", "--save", "list"]);
    let failed = outcomes(&report).into_iter().find(|(_, outcome, _)| outcome == "failed").unwrap();
    assert!(failed.0 == "../b" && failed.2.contains("list: line 1: "), "{report}");
    assert_eq!((&report["copied"], code), (&json!(2), 1), "{report}");
    place.bad(["job", "start", "--origin", "nowhere"], &["nowhere"]);
    place.bad(["job", "start", "--origin", "list"], &["list is no directory"]);
}

/// Inputs come in several at a time.
#[test]
fn of_many_inputs_each_comes_in_and_those_that_are_wrong_are_named() {
    let place = Place::new();
    for number in 0..300 {
        place.write(format!("origin/{}/{number}", number % 7), noise(number as usize % 5000, number));
    }
    let start = ["job", "start", "--origin", "origin"];
    assert_eq!(&place.json(start).0["staged"], &json!(300));
    place.write("origin/2/30", noise(30, 77));
    place.write("list", "2\n3\nmissing\n4/4\n");
    let Ran { code, err, .. } = place.run(["job", "start", "--origin", "origin", "--stage", "list"]);
    assert!(code == 1 && err.contains("origin/missing"), "{err}");
    place.good(["get", "", "got"]);
    assert!(place.read("got/2/30") == noise(30, 77));
    assert!(
        (0..300).filter(|number| *number != 30).all(|n| is_made(&place, &place.path(format!("got/{}/{n}", n % 7))))
    );
    // All are inputs, so there is nothing to copy.
    let (report, code) = place.json(["job", "end", "--to", "results"]);
    assert_eq!((&report["inputs"], &report["copied"], code), (&json!(300), &json!(0), 0));
}

/// It was not staged, and the exit code was 0.
#[test]
fn an_empty_folder_that_a_list_names_is_staged_as_without_a_list() {
    let place = Place::new();
    fs::create_dir_all(place.path("origin/empty")).unwrap();
    place.write("list", "empty\n");
    let start = ["job", "start", "--origin", "origin", "--stage", "list"];
    assert_eq!(place.json(start), (json!({"staged": 1, "unchanged": 0, "failed": 0, "bytes": 0}), 0));
    assert_eq!(place.keys(""), ["empty"]);
    for again in [&start[..], &["job", "start", "--origin", "origin"]] {
        assert_eq!(place.json(again).0["unchanged"], json!(1));
    }
    assert_eq!(place.json(["job", "end", "--to", "results"]).0["inputs"], json!(1));
}
