//! `terrace health`.

use std::fs;

use crate::daemon::Daemon;
use crate::place::{Place, noise};

fn codes(place: &Place) -> (String, Vec<String>, i32) {
    let (health, code) = place.json(["health"]);
    let findings = health["findings"].as_array().unwrap();
    let codes = findings.iter().map(|finding| finding["code"].as_str().unwrap().to_owned()).collect();
    (health["health"].as_str().unwrap().to_owned(), codes, code)
}

/// Removes the segments of a tier. The target is still there.
fn damage(place: &Place, tier: &str) {
    for segment in fs::read_dir(place.path(format!("tiers/{tier}/segments"))).unwrap() {
        fs::remove_file(segment.unwrap().path()).unwrap();
    }
}

#[test]
fn the_exit_code_and_the_findings_tell_how_safe_the_data_is() {
    let place = Place::new();
    place.write("a", noise(1_000_000, 1));
    place.good(["put", "a", "a"]);
    assert_eq!(place.good(["health", "--wait", "safe"]), "safe\n");
    assert_eq!(codes(&place), ("safe".into(), vec![], 0));
    // A disk that is not mounted.
    fs::rename(place.path("tiers/disk"), place.path("away")).unwrap();
    assert_eq!(codes(&place), ("warning".into(), vec!["TIER_AWAY".into(), "LOG_ONE_COPY".into()], 1));
    let ran = place.run(["health", "--wait", "safe"]);
    assert!(ran.code == 1 && ran.out.starts_with("warning\n") && ran.out.contains("TIER_AWAY"), "{}", ran.out);
    fs::rename(place.path("away"), place.path("tiers/disk")).unwrap();
    assert_eq!(place.good(["health", "--wait", "safe"]), "safe\n");
}

#[test]
fn what_a_scrub_finds_counts_until_a_scrub_finds_it_repaired() {
    let place = Place::new();
    place.write("a", noise(1_000_000, 1));
    place.good(["put", "a", "a", "--ack", "replicated"]);
    place.good(["health", "--wait", "safe"]);
    damage(&place, "disk");
    place.run(["scrub"]);
    let (state, findings, code) = codes(&place);
    assert_eq!((state.as_str(), code), ("warning", 1), "{findings:?}");
    assert!(findings.contains(&"BAD_REPLICAS".into()), "{findings:?}");
    place.good(["repair"]);
    place.good(["scrub"]);
    assert_eq!(place.good(["health", "--wait", "safe"]), "safe\n");
    damage(&place, "ram");
    damage(&place, "disk");
    assert_eq!(place.run(["repair"]).code, 1);
    let (state, findings, code) = codes(&place);
    assert_eq!((state.as_str(), code), ("damaged", 1), "{findings:?}");
    assert!(findings.contains(&"LOST".into()), "{findings:?}");
}

/// Objects with bad replicas were put again or removed, and `health` warned of them until the next scrub of the whole store.
#[test]
fn what_a_scrub_finds_counts_until_its_object_is_put_again() {
    let place = Place::new();
    for (name, seed) in [("a", 1), ("b", 2)] {
        place.write(name, noise(200_000, seed));
        place.good(["put", name, name, "--ack", "replicated"]);
    }
    damage(&place, "disk");
    place.run(["scrub"]);
    let count = || {
        let findings = place.json(["health"]).0["findings"].as_array().unwrap().clone();
        let bad = findings.iter().find(|finding| finding["code"] == "BAD_REPLICAS");
        bad.map_or(String::new(), |bad| bad["message"].as_str().unwrap().to_owned())
    };
    assert_eq!(count(), "the last scrub found 2 bad replicas that were not replaced");
    place.write("a", noise(200_000, 3));
    place.good(["put", "a", "a", "--ack", "replicated"]);
    assert_eq!(count(), "the last scrub found 1 bad replicas that were not replaced");
    place.good(["rm", "b"]);
    place.good(["health", "--wait", "safe"]);
}

#[test]
fn it_tells_whether_a_node_runs() {
    let place = Place::new();
    assert_eq!(place.json(["health"]).0["node"], false);
    let node = Daemon::start(&place, &[]);
    assert_eq!(place.json(["health"]).0["node"], true);
    assert!(node.get("/healthz").body.lines().next().is_some_and(|word| ["safe", "working"].contains(&word)));
    place.bad(["node", "--listen", "127.0.0.1:0"], &["another `terrace node` runs on this store"]);
    node.kill();
    assert_eq!(place.json(["health"]).0["node"], false);
}
