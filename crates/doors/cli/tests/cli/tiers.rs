//! Tiers that come, go, are lost, or cannot be used.

use std::fs;

use serde_json::json;

use crate::damage::damage;
use crate::place::{Place, noise, ran};

pub fn tiers_of(place: &Place, key: &str) -> Vec<String> {
    let (location, _) = place.json(["locate", key]);
    let replicas = location["extents"][0]["replicas"].as_array().unwrap().clone();
    replicas.iter().map(|replica| replica["tier"].as_str().unwrap().to_owned()).collect()
}

pub fn tier_names(place: &Place) -> Vec<String> {
    let (status, _) = place.json(["tiers"]);
    status["tiers"].as_array().unwrap().iter().map(|tier| tier["name"].as_str().unwrap().to_owned()).collect()
}

pub fn add(place: &Place, name: &str, more: &[&str]) {
    let path = place.path("tiers").join(name);
    place.write("add.toml", format!("[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = [{path:?}]\n"));
    assert_eq!(place.good([&["tiers", "add", "add.toml"], more].concat()), "1 tier added\n");
}

/// It was removed "with what the store had put there", although all of that stayed.
#[test]
fn what_is_on_a_tier_that_is_away_is_left_behind_and_told_of() {
    let place = Place::new();
    place.write("a", noise(1_500_000, 3));
    place.good(["put", "a", "a", "--ack", "durable"]);
    add(&place, "archive", &[]);
    place.good(["stage", "a", "--tier", "archive"]);
    let (target, moved) = (place.path("tiers/archive"), place.path("moved"));
    fs::rename(&target, &moved).unwrap();
    place.run(["drain", "archive"]);
    let ran = place.run(["tiers", "remove", "archive"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, "tier archive removed\n"));
    for part in ["left behind", target.to_str().unwrap(), "marker is missing", "delete it"] {
        assert!(ran.err.contains(part), "{part:?} is not in: {}", ran.err);
    }
    assert!(moved.join("terrace-target").exists());
    assert_eq!(tier_names(&place), ["ram", "disk"]);
    place.good(["check", "a", "a"]);
}

#[test]
fn what_cannot_go_stays_and_is_told_of() {
    let place = Place::new();
    place.write("a", b"a");
    place.good(["put", "a", "a"]);
    let ran = place.run(["drain", "disk"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("1 stay"), "{}", ran.out);
    place.bad(["tiers", "remove", "disk"], &["1 replicas are on tier \"disk\"", "terrace drain disk"]);
    place.good(["check", "a", "a"]);
}

#[test]
fn a_lost_tier_is_renewed() {
    let place = Place::new();
    place.write("a", noise(1_500_000, 2));
    place.good(["put", "a", "a"]);
    fs::remove_dir_all(place.path("tiers/disk")).unwrap();
    let state = |place: &Place| place.json(["status"]).0["tiers"][1]["state"].clone();
    assert_eq!(state(&place), "away");
    place.run(["check", "a", "a"]);
    let words = place.run(["tiers", "renew", "disk"]).out;
    assert_eq!(words, "tier disk renewed; 2 pending replicas, which `terrace sync` makes\n");
    place.good(["sync"]);
    assert_eq!((state(&place), tiers_of(&place, "a")), (json!("ok"), vec!["ram".to_owned(), "disk".to_owned()]));
    assert_eq!(place.run(["scrub"]).code, 0);
}

/// The directories of both tiers were lost. `renew` knew that objects were gone, but `sync` and `health` said that all is well.
#[test]
fn what_renewed_tiers_have_lost_is_told() {
    let place = Place::new();
    place.write("a", noise(1_500_000, 2));
    place.good(["put", "a", "a"]);
    fs::remove_dir_all(place.path("tiers")).unwrap();
    assert_eq!(place.run(["tiers", "renew", "ram"]).code, 0);
    let renewed = place.run(["tiers", "renew", "disk", "--force"]);
    assert_eq!(renewed.code, 1, "{}", renewed.err);
    assert!(renewed.err.contains("no good replica is left of bytes of a; put them again"), "{}", renewed.err);
    place.bad(["sync"], &["no good replica is left of bytes of a"]);
    assert_eq!(place.json(["health"]).0["findings"][0]["code"], "LOST");
    place.good(["put", "a", "a"]);
    place.good(["sync"]);
    place.good(["check", "a", "a"]);
    assert_eq!(place.json(["health"]).0["health"], "safe");
}

/// The tier was merely not mounted. Its objects were declared lost, and the exit code was 0.
#[test]
fn a_tier_with_the_only_copies_is_not_renewed_unasked() {
    let place = Place::new();
    for key in ["a", "b"] {
        place.write(key, noise(300_000, 2));
        place.good(["put", key, key, "--replicas", "1", "--constraint", "tiers=disk", "-q"]);
    }
    let (disk, away) = (place.path("tiers/disk"), place.path("tiers/unmounted"));
    fs::rename(&disk, &away).unwrap();
    fs::create_dir(&disk).unwrap();
    for _ in 0..2 {
        let renewed = place.run(["tiers", "renew", "disk"]);
        assert_eq!(renewed.code, 1, "{}", renewed.out);
        for words in ["only good copy of bytes of 2 objects: a, ...", "renew disk --force", "Nothing was changed"] {
            assert!(renewed.err.contains(words), "{}", renewed.err);
        }
        assert_eq!(fs::read_dir(&disk).unwrap().count(), 0);
    }
    fs::remove_dir(&disk).unwrap();
    fs::rename(&away, &disk).unwrap();
    place.good(["check", "a", "a"]);
    // There is nothing to renew.
    place.good(["tiers", "renew", "disk"]);
    place.good(["check", "b", "b"]);
}

/// The replica on the other tier was bad, and `renew` gave up the good one.
#[test]
fn a_tier_with_the_only_good_copy_is_not_renewed_unasked() {
    let place = Place::new();
    place.write("a", noise(300_000, 2));
    place.good(["put", "a", "a", "--ack", "replicated", "-q"]);
    damage(&place, "a", "ram");
    let (disk, away) = (place.path("tiers/disk"), place.path("tiers/unmounted"));
    fs::rename(&disk, &away).unwrap();
    let renewed = place.run(["tiers", "renew", "disk"]);
    assert!(renewed.code == 1 && renewed.err.contains("only good copy of bytes of an object: a."), "{}", renewed.err);
    fs::rename(&away, &disk).unwrap();
    place.good(["repair"]);
    place.good(["check", "a", "a"]);
    // The other copy is good now.
    fs::rename(&disk, &away).unwrap();
    assert_eq!(place.run(["tiers", "renew", "disk"]).code, 0);
    place.good(["check", "a", "a"]);
}

#[test]
fn top_looks_once_where_nobody_watches() {
    let place = Place::new();
    assert_eq!(place.good(["top"]).matches("0 objects, 0 pending replicas").count(), 1);
    assert_eq!(place.good(["top", "--count", "3", "--interval", "0.01"]).matches("0 objects").count(), 3);
    assert_eq!(place.json(["top"]).0["objects"], 0);
    place.bad(["top", "--interval=-1"], &["--interval -1", "such as 0.5"]);
}

#[test]
fn a_rebuilt_catalog_lists_what_there_was() {
    let place = Place::new();
    place.write("tree/a", noise(1_500_000, 3));
    place.write("tree/b", b"b");
    place.good(["put", "tree", "d"]);
    place.good(["mv", "d/b", "d/c"]);
    let before = (place.json(["ls"]), place.json(["locate", "d/a"]));
    assert_eq!(place.good(["rebuild"]), "the catalog was rebuilt: 2 objects\n");
    assert_eq!((place.json(["ls"]), place.json(["locate", "d/a"])), before);
    assert_eq!(place.json(["rebuild"]), (json!({"objects": 2, "lost": []}), 0));
}

#[test]
fn what_is_found_without_a_log_is_offered_under_numbers() {
    let place = Place::new();
    place.write("tree/a", noise(1_500_000, 3));
    place.good(["put", "tree", "d", "--ack", "durable"]);
    for folder in ["store", "tiers/ram", "tiers/disk"] {
        fs::remove_dir_all(place.path(folder).join("log")).unwrap_or_default();
    }
    // The catalog tells all that the log did.
    place.bad(["ls"], &["commit log is damaged", "terrace rebuild"]);
    assert_eq!(place.json(["rebuild", "--salvage"]).0["objects"], 0);
    assert_eq!(place.good(["ls"]), "d/a\n");
    for folder in ["store/log", "store/catalog", "tiers/ram/log", "tiers/disk/log"] {
        fs::remove_dir_all(place.path(folder)).unwrap_or_default();
    }
    place.bad(["ls"], &["commits are missing", "terrace rebuild"]);
    place.bad(["rebuild"], &["commits are missing", "--salvage"]);
    let (found, code) = place.json(["rebuild", "--salvage"]);
    assert_eq!(
        (&found["objects"], &found["bytes"], &found["log_was_damaged"], code),
        (&json!(1), &json!(1_500_000), &json!(true), 1)
    );
    let names = place.good(["ls", "salvaged"]);
    place.good(["get", names.trim(), "found"]);
    assert!(place.read("found") == place.read("tree/a"), "{names}");
}

#[test]
fn targets_stay_where_they_were_seen_from() {
    let place = Place::empty();
    let tier = |name: &str| format!("[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = ['{name}']\n");
    place.write("terrace.toml", tier("a"));
    place.write("add.toml", tier("b"));
    place.good(["init", "--config", "terrace.toml"]);
    place.good(["tiers", "add", "add.toml"]);
    place.good(["put", "add.toml", "k"]);
    let elsewhere = ran(place.command(["cat", "k"]).current_dir("/").output().unwrap());
    assert_eq!((elsewhere.code, elsewhere.out, elsewhere.err.as_str()), (0, tier("b"), ""));
    assert!(place.path("a/segments").exists() && place.path("b/segments").exists());
}

#[test]
fn a_file_without_tiers_adds_none() {
    let place = Place::new();
    place.bad(["tiers", "add", "/dev/null"], &["/dev/null: it describes no tier"]);
}

#[test]
fn a_lost_configuration_can_be_written_again() {
    let place = Place::new();
    place.write("a", b"bytes");
    place.good(["put", "a", "k", "-q"]);
    fs::remove_file(place.path("store/terrace.toml")).unwrap();
    for command in [&["ls"][..], &["rebuild"], &["destroy"], &["tiers", "add", "terrace.toml"]] {
        place.bad(command, &["its file terrace.toml is lost. Write it again", "in the same order"]);
    }
    fs::copy(place.path("terrace.toml"), place.path("store/terrace.toml")).unwrap();
    assert_eq!(place.good(["cat", "k"]), "bytes");
}

/// `health` called the store safe, and reads of objects failed, though another tier had them.
#[test]
fn a_configuration_without_a_tier_that_holds_replicas_is_refused() {
    let place = Place::new();
    place.write("a", noise(300_000, 1));
    place.good(["put", "a", "k", "-q", "--replicas", "2"]);
    let file = place.path("store/terrace.toml");
    let whole = fs::read_to_string(&file).unwrap();
    // Without the first tier. The other one is persistent, as one has to be.
    let sections: Vec<&str> = whole.split("[[tier]]").collect();
    fs::write(&file, format!("{}[[tier]]{}", sections[0], sections[2])).unwrap();
    for command in [&["ls"][..], &["cat", "k"], &["health"], &["sync"], &["rebuild"]] {
        place.bad(command, &["its file terrace.toml has no target 0", "Write it again as it was"]);
    }
    fs::write(&file, &whole).unwrap();
    place.good(["check", "a", "k"]);
    place.good(["sync"]);
}

/// `tiers add` wrote each of these into the configuration, said "1 tier added", and no command could open the store afterwards.
#[test]
fn a_tier_that_cannot_be_used_is_refused_and_the_store_goes_on() {
    let place = Place::new();
    place.write("a", b"bytes");
    place.good(["put", "a", "a"]);
    place.write("file", b"not a directory");
    let other = Place::new();
    let store = place.path("store");
    let refused = [
        (other.path("tiers/disk"), "belongs to another store"),
        (place.path("file"), "opening target"),
        ("/proc/new".into(), "opening target"),
        (store.clone(), "the store keeps in its own directory"),
        (store.join("catalog/t"), "the store keeps in its own directory"),
        ("/".into(), "name another directory"),
    ];
    let before = place.read("store/terrace.toml");
    for (target, reason) in refused {
        place.write("add.toml", format!("[[tier]]\nname = 'new'\nkind = 'directory'\ntargets = [{target:?}]\n"));
        place.bad(["tiers", "add", "add.toml"], &[reason]);
        assert_eq!(place.good(["cat", "a"]), "bytes");
    }
    assert!(place.read("store/terrace.toml") == before);
    // The removed tier's marker was left, so that its directory could not be a tier again.
    add(&place, "archive", &[]);
    place.good(["drain", "archive"]);
    place.good(["tiers", "remove", "archive"]);
    add(&place, "archive", &[]);
    place.good(["stage", "a", "--tier", "archive"]);
    assert_eq!(tiers_of(&place, "a").last().unwrap(), "archive");
}

/// It told of a `rebuild --from` that nobody had run, and left a file in the tier's directory.
#[test]
fn a_refused_init_leaves_nothing() {
    let place = Place::new();
    let disk = place.path("tiers/disk");
    place.write("a", b"bytes");
    place.good(["put", "a", "a", "-q"]);
    place.good(["sync", "-q"]);
    let names = |folder: &std::path::Path| {
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names(&disk);
    let refused = place.run(["--store", disk.to_str().unwrap(), "init", "--config", "terrace.toml"]);
    assert!(refused.code == 1 && refused.err.contains("is a target of a store"), "{}", refused.err);
    assert!(!refused.err.contains("rebuild --from"), "{}", refused.err);
    assert_eq!(names(&disk), before);
    // The tiers belong to the first store, or a target lies where the store keeps its own files.
    place.write("inside.toml", "[[tier]]\nname = 'a'\nkind = 'directory'\ntargets = ['other/catalog']\n");
    for config in ["terrace.toml", "inside.toml"] {
        place.bad(["--store", "other", "init", "--config", config], &[]);
        assert!(!place.path("other").exists(), "{config}");
    }
    place.good(["check", "a", "a"]);
}

/// `init` took a directory with a `segments` folder for a new target, and `destroy` deleted what others had there.
#[test]
fn a_target_with_segments_of_others_is_refused() {
    let place = Place::empty();
    place.write("a/segments/0000000000000001", b"precious");
    place.write("terrace.toml", "[[tier]]\nname = 'a'\nkind = 'directory'\ntargets = ['a']\n");
    place.bad(["init", "--config", "terrace.toml"], &["a/segments", "empty directory"]);
    assert_eq!(place.read("a/segments/0000000000000001"), b"precious");
}
