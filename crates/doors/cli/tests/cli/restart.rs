//! The first opener after a restart of the machine, and its death on the way.

use std::fs;

use serde_json::json;

use crate::place::{Place, Ran, noise, ran};

/// Runs the binary in another boot of the machine.
fn run_in(place: &Place, boot: &str, fail_point: &str, words: &[&str]) -> Ran {
    let mut command = place.command(words);
    ran(command.env("TERRACE_BOOT_ID", boot).env("TERRACE_FAIL_POINT", fail_point).output().unwrap())
}

/// The first opener's work after a restart was due only once: if it died in between, replicas that were in memory
/// counted as there, and names of plain files stayed as they were before. Kills came at commands in the middle of a boot.
#[test]
fn what_the_first_opener_after_a_restart_owes_survives_its_death() {
    for (point, loses_catalog) in [
        ("recover:replayed", false),
        ("recover:owed", false),
        ("recover:named", false),
        ("recover:replayed", true),
        ("recover:owed", true),
        ("recover:named", true),
    ] {
        let place = Place::with("", "layout = 'plain'");
        place.write("a", noise(100_000, 1));
        for words in [&["put", "a", "k"][..], &["sync"], &["mv", "k", "moved"], &["sync"]] {
            assert_eq!(run_in(&place, "boot-1", "", words).code, 0);
        }
        let files = place.path("tiers/disk/files");
        fs::rename(files.join("moved"), files.join("k")).unwrap();
        fs::remove_dir_all(place.path("tiers/ram")).unwrap();
        if loses_catalog {
            fs::remove_dir_all(place.path("store/catalog")).unwrap();
        }
        assert_eq!(run_in(&place, "boot-2", point, &["ls"]).code, -1, "it dies at {point}");
        let status = run_in(&place, "boot-2", "", &["status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status.out).unwrap();
        assert_eq!(status["owed"], 1, "{point}, without the catalog: {loses_catalog}");
        assert!(files.join("moved").exists() && !files.join("k").exists(), "{point}");
        assert_eq!(run_in(&place, "boot-2", "", &["sync"]).code, 0);
        let scrubbed = run_in(&place, "boot-2", "", &["scrub", "--json"]);
        let scrubbed: serde_json::Value = serde_json::from_str(&scrubbed.out).unwrap();
        assert_eq!(scrubbed, json!({"checked": 2, "bad": 0, "repaired": 0, "lost": 0}), "{point}");
    }
}

/// An object whose only replica was in memory is lost with it. A later reader found that out.
#[test]
fn bytes_that_are_lost_with_memory_are_told_of_by_the_next_command() {
    let place = Place::new();
    place.write("a", noise(100_000, 1));
    place.write("store/terrace.toml", {
        let config = String::from_utf8(place.read("store/terrace.toml")).unwrap();
        format!("{config}\n[[rule]]\nprefix = 'scratch'\nvolatile = true\nreplicas = 1\ntiers = ['ram']\n")
    });
    place.good(["put", "a", "scratch/a"]);
    place.good(["put", "a", "kept"]);
    fs::remove_dir_all(place.path("tiers/ram")).unwrap();
    let listed = place.run(["ls"]);
    assert_eq!(listed.code, 0);
    for word in ["bytes of objects are lost", "scratch/a", "objects=1", "terrace scrub"] {
        assert!(listed.err.contains(word), "{word:?} is not in: {}", listed.err);
    }
    assert_eq!(place.json(["scrub"]).0["lost_of"], json!({"scratch/a": 1}));
    assert_eq!(place.run(["get", "kept", "out"]).code, 0);
}

/// A commit that no sync mark covers is undone if nothing shows that its bytes outlived the machine. That they may be on a target that is
/// away was not said.
#[test]
fn a_commit_whose_bytes_may_be_on_a_target_that_is_away_is_undone_with_a_word_about_it() {
    let place = Place::new();
    place.write("a", noise(100_000, 1));
    place.write("b", noise(100_000, 2));
    assert_eq!(run_in(&place, "boot-1", "", &["put", "a", "k", "--ack", "durable"]).code, 0);
    let put = ["put", "b", "k", "--constraint", "tiers=disk", "--replicas", "1", "--ack", "placed"];
    assert_eq!(run_in(&place, "boot-1", "put:committed", &put).code, -1);
    fs::rename(place.path("tiers/disk"), place.path("disk")).unwrap();
    let listed = run_in(&place, "boot-2", "", &["ls"]);
    assert_eq!(listed.code, 0, "{}", listed.err);
    for word in ["this target is away", "tiers/disk", "commits=1"] {
        assert!(listed.err.contains(word), "{word:?} is not in: {}", listed.err);
    }
    fs::rename(place.path("disk"), place.path("tiers/disk")).unwrap();
    let got = run_in(&place, "boot-2", "", &["get", "k", "out"]);
    assert_eq!(got.code, 0, "{}", got.err);
    assert!(place.read("out") == noise(100_000, 1), "the durable version is there");
}
