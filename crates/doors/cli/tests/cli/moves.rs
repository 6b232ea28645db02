//! Replicas that move between tiers, and how many of them are left.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::damage::damage;
use crate::place::{Place, noise, ran};
use crate::tiers::{add, tier_names, tiers_of};

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
        (
            json!({"made": 0, "dropped": 2, "kept": 0, "kept_from_memory": 0, "kept_unread": 0, "kept_busy": 0, "thinned": 0, "changed": {}}),
            0
        )
    );
    assert_eq!(tiers_of(&place, "d/a"), ["disk", "archive"]);
    place.bad(["tiers", "remove", "archive"], &["2 replicas are on tier \"archive\"", "`terrace drain archive`"]);
    place.good(["drain", "archive"]);
    let config = place.path("store/terrace.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}\n[[rule]]\nprefix = 'old'\ntiers = ['archive']\n")).unwrap();
    place.bad(["tiers", "remove", "archive"], &["the rule for \"old\" names tier \"archive\"", "terrace.toml first"]);
    fs::write(&config, text).unwrap();
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

/// Both said "2 dropped", though the commit refused it, and `health` spoke of one copy until the next scrub.
#[test]
fn no_replica_leaves_while_the_only_other_one_is_away() {
    let place = Place::new();
    add(&place, "archive", &[]);
    place.write("a", noise(1_500_000, 2));
    place.good(["put", "a", "a", "--constraint", "tiers=disk+archive", "--ack", "durable", "-q"]);
    place.good(["sync"]);
    assert_eq!(tiers_of(&place, "a"), ["disk", "archive"]);
    let (archive, away) = (place.path("tiers/archive"), place.path("tiers/unmounted"));
    for words in [&["drain", "disk"][..], &["evict", "a", "--tier", "disk"]] {
        fs::rename(&archive, &away).unwrap();
        let moved = place.run(words);
        assert!(moved.out.starts_with("0 replicas made, 0 dropped\n2 stay as they are"), "{}{}", moved.out, moved.err);
        assert!(!moved.out.contains("fewer replicas"), "{}", moved.out);
        fs::rename(&away, &archive).unwrap();
        assert_eq!(tiers_of(&place, "a"), ["disk", "archive"]);
        assert_eq!(place.good(["health", "--wait", "safe"]), "safe\n");
    }
}

/// The other replica was bad, and nobody knew it.
#[test]
fn an_eviction_reads_the_replica_that_stays() {
    let place = Place::new();
    add(&place, "archive", &[]);
    place.write("a", noise(1_500_000, 2));
    place.good(["put", "a", "a", "--constraint", "tiers=disk+archive", "--ack", "durable", "-q"]);
    damage(&place, "a", "archive");
    assert_eq!(place.run(["evict", "a", "--tier", "disk"]).code, 0);
    assert_eq!(tiers_of(&place, "a"), ["archive"]);
    place.good(["check", "a", "a"]);
    // Also from memory.
    place.good(["stage", "a", "--tier", "ram"]);
    damage(&place, "a", "archive");
    assert_eq!(place.run(["evict", "a", "--tier", "ram"]).code, 0);
    assert!(!tiers_of(&place, "a").contains(&"ram".to_owned()));
    place.good(["check", "a", "a"]);
}

/// The other replica was bad, and could not be replaced. The drain dropped the good one, and exited with 0.
#[test]
fn no_replica_leaves_a_tier_that_is_away_while_the_other_one_is_bad() {
    let place = Place::new();
    add(&place, "archive", &[]);
    place.write("a", noise(1_500_000, 2));
    place.good(["put", "a", "a", "--constraint", "tiers=disk+archive", "--ack", "durable", "-q"]);
    place.good(["sync"]);
    damage(&place, "a", "archive");
    let (disk, away) = (place.path("tiers/disk"), place.path("tiers/unmounted"));
    fs::rename(&disk, &away).unwrap();
    for words in [&["drain", "disk"][..], &["evict", "a", "--tier", "disk"]] {
        let ran = place.run(words);
        assert!(
            ran.code == 1 && ran.out.contains("2 stay as they are: no replica"),
            "{words:?}: {}{}",
            ran.out,
            ran.err
        );
    }
    fs::rename(&away, &disk).unwrap();
    assert_eq!(tiers_of(&place, "a"), ["disk", "archive"]);
    place.good(["repair"]);
    place.good(["check", "a", "a"]);
}

/// A good replica in memory was enough for the drain, so the bad one on the other disk stayed, and a reboot lost the bytes.
#[test]
fn a_drain_replaces_a_bad_replica_beside_a_good_one_in_memory() {
    let place = Place::new();
    add(&place, "archive", &[]);
    place.write("a", noise(1_500_000, 2));
    place.good(["put", "a", "a", "--replicas", "3", "--ack", "replicated", "-q"]);
    assert_eq!(tiers_of(&place, "a"), ["ram", "disk", "archive"]);
    damage(&place, "a", "archive");
    place.run(["drain", "disk"]);
    damage(&place, "a", "ram");
    assert_eq!(place.run(["check", "a", "a"]).code, 0);
}

/// `health` forgot what a scrub of a part has found, and what the last scrub of all could not read again.
#[test]
fn bad_replicas_are_known_until_they_are_read_again() {
    let place = Place::new();
    place.write("a", noise(1_500_000, 2));
    place.good(["put", "a", "a", "--ack", "replicated", "-q"]);
    damage(&place, "a", "disk");
    let stays_known = || {
        assert_eq!(place.json(["health"]).0["findings"][0]["code"], "BAD_REPLICAS");
    };
    assert_eq!(place.run(["scrub", "a"]).code, 1);
    stays_known();
    assert_eq!(place.run(["scrub"]).code, 1);
    let (disk, away) = (place.path("tiers/disk"), place.path("tiers/unmounted"));
    fs::rename(&disk, &away).unwrap();
    assert_eq!(place.run(["scrub"]).code, 1);
    fs::rename(&away, &disk).unwrap();
    stays_known();
    place.good(["repair"]);
    place.good(["scrub"]);
    assert_eq!(place.good(["health", "--wait", "safe"]), "safe\n");
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
