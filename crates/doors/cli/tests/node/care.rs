//! The work of the node on the data while no other process runs.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use terrace_testkit::wait_until;

use crate::daemon::Daemon;
use crate::place::{Place, noise, ran};

/// The tiers of each extent's replicas that are there.
fn replicas(place: &Place, key: &str) -> Vec<Vec<String>> {
    let (location, _) = place.json(["locate", key]);
    let is_there = |replica: &&Value| replica["state"] == "present";
    let tier = |replica: &Value| replica["tier"].as_str().unwrap().to_owned();
    let of = |extent: &Value| extent["replicas"].as_array().unwrap().iter().filter(is_there).map(tier).collect();
    location["extents"].as_array().unwrap().iter().map(of).collect()
}

/// Removes what is in a folder.
fn empty(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => fs::remove_dir_all(entry.path()).unwrap(),
            false => fs::remove_file(entry.path()).unwrap(),
        }
    }
}

#[test]
fn it_finds_and_replaces_replicas_that_were_removed() {
    let place = Place::new();
    let file = place.write("a", noise(3_000_000, 1));
    place.good(["put", "a", "a", "--ack", "replicated"]);
    empty(&place.path("tiers/disk/segments"));
    assert_eq!(place.run(["scrub"]).code, 1, "the replicas on the disk are gone");
    let node = Daemon::start(&place, &["--scrub-every", "1s"]);
    wait_until("the last scrub found all replicas again", || {
        node.metric("terrace_scrub_checked_replicas") == Some(6.0)
            && node.metric("terrace_scrub_bad_replicas") == Some(0.0)
            && node.metric("terrace_owed_replicas") == Some(0.0)
    });
    node.stop();
    assert_eq!(place.json(["scrub"]).0["bad"], 0);
    // The disk alone has all bytes again.
    empty(&place.path("tiers/ram"));
    assert_eq!(place.run(["check", file.to_str().unwrap(), "a"]).code, 0);
}

#[test]
fn it_fills_a_memory_tier_again_that_was_emptied() {
    let place = Place::new();
    place.write("a", noise(2_000_000, 2));
    place.good(["put", "a", "a", "--ack", "replicated"]);
    let node = Daemon::start(&place, &["--scrub-every", "0s"]);
    empty(&place.path("tiers/ram"));
    wait_until("the node sees it and makes the replicas again", || {
        let segments = fs::read_dir(place.path("tiers/ram/segments")).map_or(0, Iterator::count);
        segments > 0 && node.metric("terrace_owed_replicas") == Some(0.0)
    });
    node.stop();
    assert_eq!(replicas(&place, "a"), [["ram", "disk"], ["ram", "disk"]]);
    assert_eq!(place.json(["scrub"]).0["bad"], 0);
}

/// Where no other failure domain has room, an eviction leaves an object with fewer replicas than it is to have. Nothing told.
#[test]
fn it_evicts_what_is_above_the_high_watermark_and_tells_what_has_one_copy_then() {
    let place = Place::with("capacity = '64MiB'", "");
    for n in 0..8 {
        let name = format!("files/{n}");
        place.write(&name, noise(1 << 20, n));
        place.good(["put", name.as_str(), name.as_str(), "--ack", "replicated"]);
    }
    let on_ram = || (0..8).filter(|n| replicas(&place, &format!("files/{n}"))[0].contains(&"ram".to_owned())).count();
    assert_eq!(on_ram(), 8);
    // From now on only four of them fit, with their headers.
    let path = place.path("store/terrace.toml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("64MiB"), "{text}");
    fs::write(&path, text.replace("64MiB", "5MiB")).unwrap();
    let node = Daemon::start(&place, &["--scrub-every", "0s"]);
    wait_until("enough is evicted", || on_ram() <= 4);
    node.stop();
    let one_copy = || {
        let (health, code) = place.json(["health"]);
        let has = |code| health["findings"].as_array().unwrap().iter().any(|finding| finding["code"] == code);
        assert!(has("ONE_COPY") && code == 1, "{health}");
    };
    // It was "safe" until a scrub had found it.
    one_copy();
    place.good(["check", "files", "files"]);
    let (scrubbed, code) = place.json(["scrub"]);
    assert_eq!((&scrubbed["bad"], code), (&0.into(), 0), "a scrub finds no damage: {scrubbed}");
    assert!(scrubbed["one_copy"].as_u64().is_some_and(|count| count >= 4), "{scrubbed}");
    one_copy();
    // With room again, a repair makes the others.
    fs::write(&path, text).unwrap();
    place.good(["repair"]);
    place.good(["sync"]);
    place.good(["scrub"]);
    assert_eq!(place.good(["health", "--wait", "safe"]), "safe\n");
    assert_eq!(on_ram(), 8);
}

/// While the node keeps the store open, no other process is ever alone with it, so nobody gave back what killed ones left.
#[test]
fn it_gives_back_what_killed_processes_left() {
    let place = Place::new();
    place.write("a", noise(40 << 20, 3));
    let node = Daemon::start_with(&place, &["--scrub-every", "0s"], &[("TERRACE_NODE_TIDY_SECONDS", "1")]);
    let used = || node.metric("terrace_tier_used_bytes{tier=\"ram\"}").unwrap();
    let before = used();
    let killed = ran_until_killed(&place, &["put", "a", "a", "--replicas", "1"], "put:written");
    assert!(killed, "the put ended before the fail point");
    wait_until("its frames are given back", || used() <= before + f64::from(4 << 20));
    // The node serves as before.
    place.write("b", b"b");
    place.good(["put", "b", "b"]);
    wait_until("the node sees the object", || node.metric("terrace_objects") == Some(1.0));
    node.stop();
    place.good(["check", "b", "b"]);
}

/// Whether the fail point killed the command.
fn ran_until_killed(place: &Place, arguments: &[&str], point: &str) -> bool {
    let output = place.command(arguments).env("TERRACE_FAIL_POINT", point).output().unwrap();
    ran(output).code == -1
}

/// With another process that has the store open, a mount lets the kernel cache nothing, and appends are written at once. A node
/// that is always open made both slower for good.
#[test]
fn other_processes_work_as_if_they_were_alone() {
    let place = Place::new();
    let node = Daemon::start_with(&place, &["--scrub-every", "1s"], &[("TERRACE_NODE_TIDY_SECONDS", "1")]);
    let store = terrace::Store::open(&place.path("store")).unwrap();
    // The node may just have opened the store again.
    wait_until("the node works in the background only", || store.is_alone());
    wait_until("what it tells is trusted", || !store.trust().left().is_zero());
    let other = place.command(["serve", "9p", "--listen", "127.0.0.1:0"]).stdout(Stdio::null()).spawn();
    let mut other = other.unwrap();
    wait_until("another process is noticed", || !store.is_alone());
    other.kill().unwrap();
    other.wait().unwrap();
    wait_until("its end is noticed", || store.is_alone());
    store.put_bytes(b"a", b"some bytes", &terrace::PutOptions::default()).unwrap();
    wait_until("the node sees the object", || node.metric("terrace_objects") == Some(1.0));
    drop(store);
    node.stop();
}

#[test]
fn its_scrubs_are_remembered_over_a_restart() {
    let place = Place::new();
    place.write("a", noise(100_000, 4));
    place.good(["put", "a", "a", "--ack", "replicated"]);
    let node = Daemon::start(&place, &["--scrub-every", "1h"]);
    let mut finished = None;
    wait_until("the first scrub has ended", || {
        finished = node.metric("terrace_scrub_finished_seconds");
        finished.is_some()
    });
    node.kill();
    let node = Daemon::start(&place, &["--scrub-every", "1h"]);
    assert_eq!(node.metric("terrace_scrub_finished_seconds"), finished);
    assert_eq!(node.metric("terrace_scrub_checked_replicas"), Some(2.0));
    node.stop();
    let (health, _) = place.json(["health"]);
    assert_eq!(health["last_scrub"]["finished"].as_f64(), finished, "{health}");
}
