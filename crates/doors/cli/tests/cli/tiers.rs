//! Tiers by command line, and stores that nobody configured.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::place::{Place, noise, ran};

fn tiers_of(place: &Place, key: &str) -> Vec<String> {
    let (location, _) = place.json(["locate", key]);
    let replicas = location["extents"][0]["replicas"].as_array().unwrap().clone();
    replicas.iter().map(|replica| replica["tier"].as_str().unwrap().to_owned()).collect()
}

fn tier_names(place: &Place) -> Vec<String> {
    let (status, _) = place.json(["tiers"]);
    status["tiers"].as_array().unwrap().iter().map(|tier| tier["name"].as_str().unwrap().to_owned()).collect()
}

fn add(place: &Place, name: &str, more: &[&str]) {
    let path = place.path("tiers").join(name);
    place.write("add.toml", format!("[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = [{path:?}]\n"));
    assert_eq!(place.good([&["tiers", "add", "add.toml"], more].concat()), "1 tier added\n");
}

#[test]
fn data_moves_between_tiers_and_tiers_come_and_go() {
    let place = Place::new();
    place.write("a", noise(1_500_000, 1));
    place.good(["put", "a", "d/a"]);
    add(&place, "archive", &[]);
    add(&place, "nvme", &["--before", "disk"]);
    assert_eq!(tier_names(&place), ["ram", "nvme", "disk", "archive"]);
    assert_eq!(place.good(["stage", "d", "--tier", "archive"]), "2 replicas made, 0 dropped\n");
    assert_eq!(tiers_of(&place, "d/a"), ["ram", "disk", "archive"]);
    assert_eq!(
        place.json(["evict", "d/a", "--tier", "ram"]),
        (json!({"made": 0, "dropped": 2, "kept": 0, "kept_from_memory": 0, "thinned": 0, "changed": {}}), 0)
    );
    assert_eq!(tiers_of(&place, "d/a"), ["disk", "archive"]);
    place.bad(["tiers", "remove", "archive"], &["2 replicas are on tier \"archive\"", "`terrace drain archive`"]);
    place.good(["drain", "archive"]);
    assert_eq!(place.good(["tiers", "remove", "archive"]), "tier archive removed, with what the store had put there\n");
    assert!(!place.path("tiers/archive/terrace-target").exists());
    assert_eq!(tier_names(&place), ["ram", "nvme", "disk"]);
    place.good(["check", "a", "d/a"]);
    assert_eq!(place.json(["scrub"]).0, json!({"checked": 4, "bad": 0, "repaired": 0, "lost": 0}));
}

/// The command told it, and `health` said "safe" until the next scrub.
#[test]
fn health_knows_at_once_what_a_move_has_left_with_one_replica() {
    let place = Place::new();
    place.write("a", noise(1_500_000, 2));
    place.good(["put", "a", "a", "--ack", "replicated"]);
    place.good(["sync"]);
    assert_eq!(place.good(["health", "--wait", "safe"]), "safe\n");
    assert!(place.good(["evict", "a", "--tier", "ram"]).contains("2 extents now with fewer replicas than wanted"));
    place.good(["sync"]);
    let (health, code) = place.json(["health"]);
    assert_eq!((&health["findings"][0]["code"], code), (&"ONE_COPY".into(), 1), "{health}");
    place.good(["repair"]);
    assert_eq!(place.good(["health", "--wait", "safe"]), "safe\n");
    assert_eq!(tiers_of(&place, "a"), ["ram", "disk"]);
}

/// It said "safe" if the command was killed before it had noted what it had done.
#[test]
fn health_knows_what_a_killed_move_has_left_with_one_replica() {
    for words in [&["drain", "ram"][..], &["evict", "a", "--tier", "ram"]] {
        let place = Place::new();
        place.write("a", noise(1_500_000, 2));
        place.good(["put", "a", "a", "--ack", "replicated", "-q"]);
        place.good(["sync"]);
        let killed = place.command(words).env("TERRACE_FAIL_POINT", "move:committed").output().unwrap();
        assert_eq!(killed.status.code(), None, "{words:?}");
        assert_eq!(tiers_of(&place, "a"), ["disk"]);
        place.good(["sync"]);
        let (health, code) = place.json(["health"]);
        assert_eq!((&health["findings"][0]["code"], code), (&"ONE_COPY".into(), 1), "{words:?}: {health}");
        place.good(["repair"]);
        assert_eq!(place.good(["health", "--wait", "safe"]), "safe\n");
    }
}

/// It said that no other failure domain takes them, or has room, each time that it was repeated.
#[test]
fn a_drain_that_was_killed_can_be_repeated() {
    let place = Place::new();
    add(&place, "archive", &[]);
    place.write("a", noise(1_500_000, 2));
    place.good(["put", "a", "a", "--replicas", "1", "--constraint", "tiers=disk", "--ack", "durable", "-q"]);
    let killed = place.command(["drain", "disk"]).env("TERRACE_FAIL_POINT", "move:committed").output().unwrap();
    assert_eq!(killed.status.code(), None);
    let (archive, away) = (place.path("tiers/archive"), place.path("tiers/unmounted"));
    fs::rename(&archive, &away).unwrap();
    let repeated = place.command(["drain", "disk"]).env("TERRACE_NO_SPACE_MILLISECONDS", "100").output().unwrap();
    let repeated = ran(repeated);
    assert_eq!(repeated.code, 1, "{}", repeated.out);
    assert!(repeated.err.contains("2 replicas are still pending"), "{}{}", repeated.out, repeated.err);
    fs::rename(&away, &archive).unwrap();
    let out = place.good(["drain", "disk"]);
    assert!(!out.contains("stay as they are"), "{out}");
    assert_eq!(tiers_of(&place, "a"), ["archive"]);
}

/// It said "safe" of two replicas of three.
#[test]
fn health_knows_of_extents_with_some_of_their_replicas() {
    let place = Place::new();
    add(&place, "archive", &[]);
    place.write("a", noise(1_500_000, 2));
    place.good(["put", "a", "a", "--replicas", "3", "--ack", "replicated"]);
    place.good(["sync"]);
    assert_eq!(place.good(["health", "--wait", "safe"]), "safe\n");
    place.good(["evict", "a", "--tier", "ram"]);
    let has_few = || {
        let (health, code) = place.json(["health"]);
        assert_eq!((&health["findings"][0]["code"], code), (&"FEW_COPIES".into(), 1), "{health}");
    };
    has_few();
    assert_eq!(place.json(["scrub"]).0["few_copies"], 2);
    has_few();
    place.good(["repair"]);
    place.good(["scrub"]);
    assert_eq!(place.good(["health", "--wait", "safe"]), "safe\n");
    assert_eq!(tiers_of(&place, "a"), ["ram", "disk", "archive"]);
}

/// It called the object unchanged, and exited with 0.
#[test]
fn an_acknowledgement_of_an_unchanged_object_counts_its_replicas() {
    let place = Place::new();
    place.write("a", noise(1_500_000, 2));
    for more in [&[][..], &["--checksum"]] {
        let put = [&["put", "a", "a", "--ack", "replicated"], more].concat();
        place.good(put.clone());
        assert_eq!(place.json(put.clone()).0["unchanged"], 1);
        place.good(["evict", "a", "--tier", "ram"]);
        assert_eq!(tiers_of(&place, "a"), ["disk"]);
        // Without one, it has what it had.
        assert_eq!(place.json(["put", "a", "a"]).0["unchanged"], 1);
        assert_eq!(place.json(put).0["written"], 1);
        assert_eq!(tiers_of(&place, "a"), ["ram", "disk"]);
    }
}

/// A pending replica that its tier has no room for counted as one, and nobody was told that a single one was left.
#[test]
fn a_pending_replica_without_room_does_not_count_when_another_leaves() {
    let place = Place::new();
    let tier = place.path("tiers/small");
    place.write(
        "small.toml",
        format!("[[tier]]\nname = 'small'\nkind = 'directory'\ntargets = [{tier:?}]\ncapacity = '1MiB'\n"),
    );
    place.good(["tiers", "add", "small.toml"]);
    place.write("a", noise(3_500_000, 2));
    place.good(["put", "a", "a", "--ack", "replicated"]);
    assert_eq!(place.run(["drain", "disk"]).code, 1);
    assert!(place.run(["evict", "a", "--tier", "ram"]).out.contains("extents now with fewer replicas than wanted"));
    let (health, _) = place.json(["health"]);
    assert!(health["findings"].as_array().unwrap().iter().any(|finding| finding["code"] == "ONE_COPY"), "{health}");
}

/// Each process ended before what it had dropped was old enough to be freed.
#[test]
fn short_commands_leave_no_garbage() {
    let place = Place::with("", "layout = 'plain'");
    let used = || {
        let (status, _) = place.json(["status"]);
        let tiers = status["tiers"].as_array().unwrap().clone();
        tiers.iter().map(|tier| tier["used"].as_u64().unwrap()).max().unwrap()
    };
    for number in 0..5 {
        place.write("a", noise(1_500_000, number));
        place.good(["put", "a", "a", "--ack", "durable"]);
        place.good(["sync"]);
        assert!(used() < 2_000_000, "after {number}: {}", used());
    }
    place.good(["rm", "a"]);
    assert!(used() < 100_000, "{}", used());
}

#[test]
fn an_empty_name_of_a_store_is_not_the_default_one() {
    let place = Place::new();
    place.bad(["--store", "", "ls"], &["--store names no directory"]);
}

/// It exited with 0, and `health` said "safe", although a disk that failed would have lost the object.
#[test]
fn an_acknowledgement_that_other_tiers_have_no_room_for_is_missed() {
    let place = Place::with("capacity = '4MiB'", "");
    let name = "longer than memory has room for";
    place.write(name, noise(6_000_000, 1));
    let ran = place.run(["put", name, name, "--ack", "replicated"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("at least 1 replica each, not 2: other tiers have no room"), "{}{}", ran.out, ran.err);
    place.good(["check", name, name]);
    let (health, code) = place.json(["health"]);
    assert_eq!(code, 1, "{health}");
    assert!(health["findings"].as_array().unwrap().iter().any(|finding| finding["code"] == "ONE_COPY"), "{health}");
    // Without an acknowledgement, as many replicas as there is room for are enough.
    place.write("more", noise(1_000_000, 9));
    place.good(["put", "more", "more"]);
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
        for words in ["only copy of bytes of 2 objects: a, ...", "renew disk --force", "Nothing was changed"] {
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

/// Of 200 replicas, `put` said "not 5", which nobody had asked for. 0 replicas were taken for no requirement.
#[test]
fn numbers_of_replicas_that_are_not_possible_are_named() {
    let place = Place::new();
    place.write("a", b"bytes");
    for asked in [&["--replicas", "200"][..], &["--require", "max_durability=200"], &["--max-durability=200"]] {
        let ran = place.run([&["put", "a", "k"], asked].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.err.contains("the configuration allows at most 5 replicas, not 200"), "{}", ran.err);
    }
    for asked in [&["--require", "max_durability=0"][..], &["--min-storage=0"]] {
        let ran = place.run([&["put", "a", "k"], asked].concat());
        assert!(ran.code == 2 && ran.err.contains("=false\" or a number of replicas"), "{}", ran.err);
    }
}

/// `put` said nothing, and `scrub`, `repair` and `sync` went round in circles.
#[test]
fn replicas_that_the_budget_does_not_pay_for_are_told_of_and_not_missed() {
    let place = Place::new();
    place.write("a", noise(1_500_000, 1));
    for (key, ack) in [("k", &["--ack", "replicated"][..]), ("l", &[])] {
        let mut put = vec!["put", "a", key, "--replicas", "2", "--budget", "1.01x"];
        put.extend(ack);
        let ran = place.run(put);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.out.contains("at least 1 replica each, not 2: the budget pays for no more"), "{}", ran.out);
    }
    let scrubbed = place.good(["scrub"]);
    assert!(!scrubbed.contains("to have more"), "{scrubbed}");
    let ran = place.run(["put", "a", "m", "--replicas", "2", "--budget", "3x"]);
    assert!(!ran.out.contains("budget"), "{}", ran.out);
    // What is durable is safe, without a `sync`.
    let durable = Place::with("", "");
    durable.write("a", noise(5000, 1));
    durable.run(["put", "a", "k", "--ack", "durable"]);
    let health = durable.run(["health"]);
    assert!(!health.out.contains("NOT_DURABLE"), "{}", health.out);
}

/// It waited for space for half a minute, and then named a lack of it.
#[test]
fn durable_replicas_in_memory_are_refused_at_once() {
    let place = Place::with("", "[[rule]]\nprefix = 'm'\ntiers = ['ram']");
    place.write("a", b"bytes");
    place.bad(["put", "a", "m/a", "--ack", "durable"], &["a: configuration: ", "only tiers in memory (ram)"]);
    place.good(["put", "a", "m/a", "-q"]);
    place.good(["put", "a", "a", "--ack", "durable", "-q"]);
}

/// Removes what such a store has in memory.
fn forget_memory(place: &Place, data: &str) {
    let config = fs::read_to_string(place.path(data).join("terrace.toml")).unwrap();
    for ram in config.split('"').filter(|text| text.starts_with("/dev/shm/terrace-")) {
        fs::remove_dir_all(ram).unwrap();
    }
}

#[test]
fn many_may_be_the_first_to_use_a_store() {
    let place = Place::empty();
    place.write("a", b"bytes");
    let put = |key: String| place.command(["put", "a", &key, "-q"]).env_remove("TERRACE_STORE").spawn().unwrap();
    let all: Vec<_> = (0..6).map(|number| put(format!("k{number}"))).collect();
    assert!(all.into_iter().all(|mut one| one.wait().unwrap().success()));
    let list = ran(place.command(["ls"]).env_remove("TERRACE_STORE").output().unwrap());
    assert_eq!((list.code, list.out.lines().count()), (0, 6), "{}", list.err);
    let folder = fs::metadata(place.path("home/.local/share/terrace")).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    forget_memory(&place, "home/.local/share/terrace");
}

/// The tier in memory of the removed store is left behind, so the new one needs another place.
#[test]
fn a_store_that_was_removed_by_hand_is_made_again() {
    let place = Place::empty();
    place.write("a", b"bytes");
    let data = place.path("home/.local/share/terrace");
    let run = |arguments: &[&str]| ran(place.command(arguments).env_remove("TERRACE_STORE").output().unwrap());
    assert_eq!(run(&["put", "a", "k"]).code, 0);
    let aside = place.path("aside");
    fs::rename(&data, &aside).unwrap();
    let again = run(&["put", "a", "k2"]);
    assert_eq!(again.code, 0, "{}", again.err);
    assert!(again.err.contains("is in use by a store that was here before"), "{}", again.err);
    assert_eq!(run(&["ls"]).out, "k2\n");
    forget_memory(&place, "home/.local/share/terrace");
    forget_memory(&place, "aside");
}

/// Uses the store that there is without a word about one.
fn unconfigured(place: &Place, data: &str, set: impl Fn(&mut std::process::Command)) {
    place.write("a", b"bytes");
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env_remove("TERRACE_STORE");
        set(&mut command);
        ran(command.output().unwrap())
    };
    let first = run(&["put", "a", "d/a"]);
    assert_eq!(first.code, 0, "{}", first.err);
    assert!(first.err.contains(&format!("made a store in {}", place.path(data).display())), "{}", first.err);
    let again = run(&["cat", "d/a"]);
    assert_eq!((again.code, again.out.as_str(), again.err.as_str()), (0, "bytes", ""));
    let status: Value = serde_json::from_str(&run(&["status", "--json"]).out).unwrap();
    assert_eq!(status["objects"], 1);
    forget_memory(place, data);
}

#[test]
fn without_a_configuration_a_store_is_made_in_the_users_data_directory() {
    let place = Place::empty();
    unconfigured(&place, "home/.local/share/terrace", |_| {});
    let data = place.path("data");
    unconfigured(&place, "data/terrace", |command| {
        command.env("XDG_DATA_HOME", &data);
    });
    // As good as none.
    let place = Place::empty();
    unconfigured(&place, "home/.local/share/terrace", |command| {
        command.env("XDG_DATA_HOME", "relative").env("TERRACE_STORE", "");
    });
}

#[test]
fn without_a_home_a_store_must_be_named() {
    let place = Place::empty();
    let output = place.command(["ls"]).env_remove("HOME").env_remove("TERRACE_STORE").output().unwrap();
    let ran = ran(output);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("no home directory is known; give --store DIR"), "{}", ran.err);
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

/// The space came back with the next sync mark only.
#[test]
fn the_space_of_a_deleted_tree_is_free_at_once() {
    let place = Place::new();
    place.write("tree/a", noise(1_500_000, 1));
    place.write("tree/b", noise(1_500_000, 2));
    place.good(["put", "tree", "t", "--ack", "durable"]);
    let used = || -> Vec<u64> {
        let status = place.json(["status"]).0;
        status["tiers"].as_array().unwrap().iter().map(|tier| tier["used"].as_u64().unwrap()).collect()
    };
    let before = used();
    assert!(before.iter().sum::<u64>() >= 3_000_000, "{before:?}");
    place.good(["rm", "-r", "t"]);
    let after = used();
    assert!(after.iter().sum::<u64>() < 100_000, "{after:?}");
    assert_eq!(place.run(["scrub"]).code, 0);
}

/// With two failure domains, an eviction leaves one of two replicas, and said nothing about it.
#[test]
fn an_eviction_that_leaves_too_few_replicas_says_so() {
    let place = Place::new();
    place.write("a", noise(1_500_000, 1));
    place.good(["put", "a", "a"]);
    assert_eq!(tiers_of(&place, "a"), ["ram", "disk"]);
    let out = place.good(["evict", "a", "--tier", "ram"]);
    assert!(out.contains("2 extents now with fewer replicas than wanted"), "{out}");
}

/// The reason was said to be that no other failure domain takes them.
#[test]
fn memory_is_named_where_it_is_the_reason() {
    let place = Place::new();
    place.write("a", noise(300_000, 1));
    let out = place.good(["put", "a", "a", "--ack", "durable", "--replicas", "2"]);
    assert!(
        out.contains("1 replica each, not 2: they have to be persistent, and the other tiers are in memory"),
        "{out}"
    );
    let out = place.good(["put", "a", "b", "--replicas", "3"]);
    assert!(out.contains("not 3: there are no more failure domains"), "{out}");
    // One could go to memory only, the other has its only other replica there.
    let out = place.run(["drain", "disk"]).out;
    assert!(out.contains("2 stay as they are: the other tiers are in memory"), "{out}");
    assert!(!out.contains("failure domain"), "{out}");
}

/// `mv` of a directory that is an object moved this object alone, and its contents stayed.
#[test]
fn a_directory_moves_with_its_contents() {
    let place = Place::new();
    place.write("tree/a", b"a");
    fs::create_dir(place.path("tree/empty")).unwrap();
    fs::set_permissions(place.path("tree"), fs::Permissions::from_mode(0o750)).unwrap();
    place.good(["put", "tree", "d/e"]);
    place.good(["mv", "d/e", "f"]);
    assert_eq!(place.good(["cat", "f/a"]), "a");
    assert!(!place.good(["ls"]).contains("d/e"));
    place.bad(["mv", "f", "f/g"], &["cannot be moved into itself"]);
}
