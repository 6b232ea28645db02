//! Being ended in the middle: nothing is half there, and the next run does the rest.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::place::{Place, noise, ran};

const BIG_BYTES: usize = 12_000_000;

/// A store that takes a second for the big file, and files around it.
fn slow() -> Place {
    let place = Place::with("throttle = { read = '12MB/s', write = '12MB/s' }", "throttle = { read = '12MB/s' }");
    place.write("tree/a", b"a");
    place.write("tree/big", noise(BIG_BYTES, 1));
    place.write("tree/c", b"c");
    place
}

fn start(place: &Place, arguments: &[&str]) -> Child {
    place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn wait_for(what: impl Fn() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(20), "it has not come so far");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The longest file in a folder.
fn longest(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).max().unwrap_or(0)
}

/// Ends the child by a signal. Callers check that it left its work undone.
fn end(child: Child, signal: Signal, code: i32) {
    send(&child, signal);
    let ran = ran(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.contains("stopped; ")), (code, code > 0), "{}", ran.err);
}

#[test]
fn a_put_that_is_stopped_leaves_whole_objects_only() {
    let place = slow();
    let segments = place.path("tiers/ram/segments");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::KILL, -1)] {
        let before = longest(&segments);
        let child = start(&place, &["put", "tree", "d"]);
        wait_for(|| longest(&segments) > before + 3_000_000);
        end(child, signal, code);
        assert!(!place.keys("").contains(&"d/big".to_owned()));
    }
    // The short files beside it are put at the same time.
    let there = place.keys("").len() as u64;
    let (rest, _) = place.json(["put", "tree", "d"]);
    assert_eq!((rest["written"].as_u64(), rest["unchanged"].as_u64()), (Some(3 - there), Some(there)));
    place.good(["check", "tree", "d"]);
    place.good(["scrub"]);
}

#[test]
fn a_get_that_is_stopped_leaves_whole_files_only() {
    let place = slow();
    place.good(["put", "tree", "d"]);
    let out = place.path("out");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::KILL, -1)] {
        let child = start(&place, &["get", "d", "out"]);
        wait_for(|| longest(&out) > 3_000_000);
        end(child, signal, code);
        let names = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let (whole, parts): (Vec<_>, Vec<_>) = names.partition(|name| ["a", "c"].contains(&name.as_str()));
        for name in &whole {
            assert!(place.read(format!("out/{name}")) == place.read(format!("tree/{name}")), "{name}");
        }
        // A file beside its place is left by `kill -9` only.
        assert!(parts.iter().all(|name| code < 0 && name.starts_with(".terrace-")), "{parts:?}");
    }
    let (rest, _) = place.json(["get", "d", "out"]);
    assert_eq!(rest["failed"].as_u64(), Some(0));
    assert!(place.read("out/big") == place.read("tree/big"));
}

#[test]
fn a_stopped_get_leaves_the_file_that_was_there() {
    let place = slow();
    place.good(["put", "tree/big", "big"]);
    place.write("out/big", b"old");
    let child = start(&place, &["get", "big", "out/big"]);
    wait_for(|| longest(&place.path("out")) > 3_000_000);
    end(child, Signal::INT, 130);
    assert_eq!(place.read("out/big"), b"old");
}
