//! The interface for scripts: JSON, exit codes, silence.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::place::{Place, noise, ran};

fn names(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn has(value: &Value, fields: &[&str]) {
    for field in fields {
        assert!(value.get(field).is_some(), "{field} is not in {:?}", names(value));
    }
}

#[test]
fn locate_tells_where_each_replica_is() {
    let place = Place::new();
    place.write("a", noise(1_500_000, 1));
    place.good(["put", "a", "d/a"]);
    let (found, code) = place.json(["locate", "d/a"]);
    assert_eq!(code, 0);
    has(&found, &["key", "length", "generation", "extents"]);
    assert_eq!((&found["key"], &found["length"]), (&json!("d/a"), &json!(1_500_000)));
    assert!(found["generation"].as_u64().unwrap() > 0);
    let extents = found["extents"].as_array().unwrap();
    let ranges: Vec<_> =
        extents.iter().map(|e| (e["offset"].as_u64().unwrap(), e["length"].as_u64().unwrap())).collect();
    assert_eq!(ranges, [(0, 1 << 20), (1 << 20, 1_500_000 - (1 << 20))]);
    for extent in extents {
        let replicas = extent["replicas"].as_array().unwrap();
        let tiers: Vec<_> = replicas.iter().map(|r| r["tier"].as_str().unwrap()).collect();
        assert_eq!(tiers, ["ram", "disk"]);
        for replica in replicas {
            has(replica, &["tier", "target", "encoding", "state", "stored", "file", "position"]);
            assert_eq!((&replica["state"], &replica["encoding"]), (&json!("present"), &json!("none")));
            assert_eq!(replica["stored"], extent["length"]);
            let target = place.path("tiers").join(replica["tier"].as_str().unwrap());
            assert_eq!(replica["target"], json!(target));
            let file = fs::read(replica["file"].as_str().unwrap()).unwrap();
            assert_eq!(&file[replica["position"].as_u64().unwrap() as usize..][..4], b"TRRF");
        }
    }
}

#[test]
fn what_is_owed_is_told_of() {
    // The slow tier cannot have all of it at once.
    let place = Place::with("", "throttle = { write = '1MB/s' }");
    place.write("a", noise(3_000_000, 2));
    place.good(["put", "--ack", "placed", "a", "a"]);
    let (found, _) = place.json(["locate", "a"]);
    let owed = found["extents"].as_array().unwrap().iter().flat_map(|e| e["replicas"].as_array().unwrap());
    let owed: Vec<&Value> = owed.filter(|r| r["state"] == "owed").collect();
    assert!(!owed.is_empty() && owed.iter().all(|r| r["tier"] == "disk"), "{found}");
    let (status, _) = place.json(["status"]);
    assert!(status["owed"].as_u64().unwrap() > 0, "{status}");
    assert_eq!(status["owed"], status["tiers"][1]["queue"]);
    place.good(["sync"]);
    assert_eq!(place.json(["status"]).0["owed"], 0);
}

#[test]
fn ls_is_an_array_of_keys_and_lengths() {
    let place = Place::new();
    assert_eq!(place.json(["ls"]), (json!([]), 0));
    for (key, length) in [("runs/b", 20), ("runs/a", 10), ("runs2/c", 30), ("run", 0)] {
        let file = place.write("file", vec![7; length]);
        place.good(["put", file.to_str().unwrap(), key]);
    }
    let (list, _) = place.json(["ls", "runs/"]);
    let entry = |at: usize| (list[at]["key"].as_str().unwrap(), list[at]["length"].as_u64().unwrap());
    assert_eq!((list.as_array().unwrap().len(), entry(0), entry(1)), (2, ("runs/a", 10), ("runs/b", 20)));
    assert_eq!(place.keys("runs"), ["runs/a", "runs/b"]);
    assert_eq!(place.keys(""), ["run", "runs/a", "runs/b", "runs2/c"]);
    assert_eq!(place.keys("none"), [""; 0]);
    assert_eq!(place.good(["ls", "runs"]), "runs/a\nruns/b\n");
    place.bad(["ls", "rums"], &["nothing is stored at or below \"rums\""]);
    let long = place.good(["ls", "-l", "runs/a"]);
    assert!(long.starts_with("-0644           10 20") && long.ends_with(" 2 runs/a\n"), "{long}");
}

#[test]
fn status_tells_of_objects_and_tiers() {
    let place = Place::with("capacity = '1GiB'", "");
    place.write("a", noise(100_000, 3));
    place.good(["put", "a", "a"]);
    let (status, code) = place.json(["status"]);
    assert_eq!((code, &status["objects"], &status["owed"]), (0, &json!(1), &json!(0)));
    let tiers = status["tiers"].as_array().unwrap();
    assert_eq!(tiers.iter().map(|t| t["name"].as_str().unwrap()).collect::<Vec<_>>(), ["ram", "disk"]);
    for tier in tiers {
        has(tier, &["name", "used", "capacity", "queue", "state"]);
        assert!((100_000..300_000).contains(&tier["used"].as_u64().unwrap()), "{tier}");
        assert_eq!((&tier["queue"], &tier["state"]), (&json!(0), &json!("ok")));
    }
    assert_eq!(tiers[0]["capacity"], 1 << 30);
    let words = place.good(["status"]);
    assert!(words.contains("1 object,") && words.contains("1.00 GiB") && !words.contains("unlimited"), "{words}");
}

#[test]
fn scrub_counts_replicas() {
    let place = Place::new();
    place.write("a", noise(2_500_000, 4));
    place.good(["put", "a", "d/a"]);
    let clean = json!({"checked": 6, "bad": 0, "repaired": 0, "lost": 0});
    for arguments in [&["scrub"][..], &["scrub", "d"], &["scrub", "--repair"], &["repair"]] {
        assert_eq!(place.json(arguments), (clean.clone(), 0));
    }
    let part = |n: u64| place.json(["scrub", "--subset", &format!("{n}/2")]).0["checked"].as_u64().unwrap();
    assert_eq!(part(1) + part(2), 6);
}

#[test]
fn exit_codes_are_0_for_good_1_for_bad_and_2_for_usage() {
    let place = Place::new();
    assert_eq!(place.run(["ls"]).code, 0);
    for bad in [&["cat", "none"][..], &["get", "none", "out"], &["rm", "none"], &["locate", "none"], &["stat", "none"]]
    {
        assert_eq!(place.run(bad).code, 1, "{bad:?}");
    }
    for usage in [&["list"][..], &["put", "a"], &["cat", "a", "--range", "5-2"], &["scrub", "--subset", "3/2"], &[]] {
        let ran = place.run(usage);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{usage:?}");
        assert!(ran.err.contains("--help") || ran.err.contains("Usage"), "{}", ran.err);
    }
}

#[test]
fn nothing_but_results_goes_into_a_pipe() {
    let place = Place::new();
    place.write("tree/a", noise(2_000_000, 5));
    assert_eq!(place.good(["put", "tree", "d"]), "1 object written (1.91 MiB), 0 unchanged, 0 failed\n");
    assert_eq!(place.good(["put", "tree", "d", "--quiet"]), "");
    assert_eq!(place.good(["get", "d", "out", "-q"]), "");
    assert!(place.good(["cat", "d/a"]).len() > 1_000_000);
    assert_eq!(place.good(["sync"]), "no replica is pending, and all is durable\n");
}

/// It said that all is durable.
#[test]
fn sync_tells_what_is_only_in_memory() {
    let place = Place::new();
    let config = fs::read_to_string(place.path("store/terrace.toml")).unwrap();
    let rule = "[[rule]]\nprefix = 'scratch'\nvolatile = true\nreplicas = 1\ntiers = ['ram']\n";
    fs::write(place.path("store/terrace.toml"), format!("{config}\n{rule}")).unwrap();
    place.write("a", noise(2_000_000, 5));
    place.good(["put", "a", "a"]);
    assert_eq!(place.good(["sync"]), "no replica is pending, and all is durable\n");
    place.good(["put", "a", "scratch/a"]);
    let said = place.good(["sync"]);
    assert!(said.contains("1 object only in memory") && said.contains("scratch/a"), "{said}");
    assert_eq!(place.json(["sync"]).0, json!({"owed": 0, "volatile": 1, "unplanned": {"objects": 0, "waiting": 0}}));
}

#[test]
fn a_reader_that_goes_away_is_no_trouble_and_a_full_disk_is() {
    let place = Place::new();
    place.write("a", noise(3_000_000, 6));
    place.write("short", "no line");
    place.good(["put", "a", "a"]);
    place.good(["put", "short", "short"]);
    for arguments in [
        &["cat", "a"][..],
        &["cat", "short"],
        &["get", "a", "-"],
        &["ls"],
        &["status", "--json"],
        &["completions", "bash"],
    ] {
        let mut command = place.command(arguments);
        let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(running.stdout.take());
        let left = ran(running.wait_with_output().unwrap());
        assert_eq!((left.code, left.err.as_str()), (0, ""), "{arguments:?}");
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let ran = ran(place.command(arguments).stdout(full).output().unwrap());
        assert_eq!(ran.code, 1, "{arguments:?}");
        assert!(ran.err.contains("No space left") && ran.err.contains("free some space"), "{}", ran.err);
    }
}

#[test]
fn completions_and_the_manual_tell_of_every_command() {
    let place = Place::empty();
    let commands = "put get cat ls rm mv check sync locate stat status tiers top stage evict drain init scrub repair rebuild dump restore";
    let help = place.good(["--help"]);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.good(["completions", shell]);
        assert!(commands.split(' ').all(|command| script.contains(command)), "{shell}");
    }
    place.good(["manual", "not/yet/there"]);
    let main = String::from_utf8(place.read("not/yet/there/terrace.1")).unwrap();
    for command in commands.split(' ') {
        assert!(help.contains(command) && main.contains(command), "{command}");
        let page = String::from_utf8(place.read(format!("not/yet/there/terrace-{command}.1"))).unwrap();
        assert!(page.contains(command) && page.len() > 200, "{command}");
    }
}

#[test]
fn the_hottest_ranges_come_first_whatever_process_read_them() {
    let place = Place::new();
    assert_eq!(place.good(["hot"]), "nothing was read in the last hours\n");
    for name in ["a", "b"] {
        place.write(name, noise(300_000, 5));
        place.good(["put", name, &format!("d/{name}")]);
    }
    for key in ["d/a", "d/b", "d/b", "d/b"] {
        place.good(["get", key, "copy", "--checksum"]);
    }
    let (found, _) = place.json(["hot", "d"]);
    let keys: Vec<_> = found.as_array().unwrap().iter().map(|range| range["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["d/b", "d/a"]);
    has(&found[0], &["key", "offset", "length", "score", "tier"]);
    assert_eq!((&found[0]["tier"], &found[0]["length"]), (&json!("ram"), &json!(300_000)));
    assert_eq!(place.json(["hot", "-n", "1"]).0.as_array().unwrap().len(), 1);
    assert!(place.good(["hot"]).contains("d/a"));
}
