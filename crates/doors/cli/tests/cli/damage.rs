//! Replicas that are damaged under the store.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Command;

use serde_json::json;

use crate::place::{Place, noise, ran};

/// Flips bytes of an object's replicas on a tier, in all extents.
pub fn damage(place: &Place, key: &str, tier: &str) {
    let (location, _) = place.json(["locate", key]);
    for extent in location["extents"].as_array().unwrap() {
        for replica in extent["replicas"].as_array().unwrap().iter().filter(|r| r["tier"] == tier) {
            let file = File::options().read(true).write(true).open(replica["file"].as_str().unwrap()).unwrap();
            let at = replica["position"].as_u64().unwrap() + replica["stored"].as_u64().unwrap() / 2;
            let mut bytes = [0; 64];
            file.read_exact_at(&mut bytes, at).unwrap();
            file.write_all_at(&bytes.map(|byte| !byte), at).unwrap();
        }
    }
}

fn filled() -> Place {
    // Slow enough that the other tier's replicas are the nearest.
    let place = Place::with("", "throttle = { latency = '30ms' }");
    place.write("tree/a", noise(2_500_000, 1));
    place.write("tree/b", noise(20_000, 2));
    place.good(["put", "tree", "d"]);
    place
}

#[test]
fn a_pipe_among_the_files_of_the_store_is_named() {
    let place = Place::with("", "");
    place.write("a", noise(2000, 1));
    place.good(["put", "a", "a", "-q"]);
    place.good(["sync"]);
    for name in ["machine", "names-0", "hotness.lock"] {
        let (file, aside) = (place.path("store").join(name), place.path("aside"));
        let had = fs::rename(&file, &aside).is_ok();
        assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
        for command in [&["ls"][..], &["rebuild"], &["rebuild", "--salvage"], &["destroy", "--force"], &["sync"]] {
            place.bad(command, &[&format!("{name} in it is a pipe or a device; remove it")]);
        }
        fs::remove_file(&file).unwrap();
        if had {
            fs::rename(&aside, &file).unwrap();
        }
    }
    assert!(place.command(["cat", "a"]).output().unwrap().stdout == place.read("a"));
    place.bad(["scrub", "mistyped"], &["nothing is stored at or below"]);
}

/// `rebuild` called the log of a directory from a backup damaged, and its disk suspicious.
#[test]
fn an_older_copy_of_the_store_is_not_called_damaged() {
    let place = Place::with("", "");
    let put = |key: &str, seed: u64| {
        place.write("a", noise(200_000, seed));
        place.good(["put", "a", key, "-q"]);
        place.good(["sync"]);
    };
    put("first", 1);
    let (store, copy) = (place.path("store"), place.path("copy"));
    assert!(Command::new("cp").arg("-a").args([&store, &copy]).status().unwrap().success());
    put("second", 2);
    fs::remove_dir_all(&store).unwrap();
    fs::rename(&copy, &store).unwrap();

    place.bad(["ls"], &["an older copy of itself", "`terrace rebuild` mends it"]);
    let rebuilt = place.run(["rebuild"]);
    assert!(rebuilt.code == 0 && rebuilt.err.contains("was older than a target"), "{}", rebuilt.err);
    assert!(!rebuilt.err.contains("damaged"), "{}", rebuilt.err);
    assert_eq!(place.good(["ls"]), "first\nsecond\n");

    // A log that was cut is damaged.
    let segments = fs::read_dir(store.join("log")).unwrap().map(|entry| entry.unwrap().path());
    let log = segments.filter(|path| path.extension().is_some_and(|end| end == "log")).max().unwrap();
    let length = fs::metadata(&log).unwrap().len();
    File::options().write(true).open(&log).unwrap().set_len(length - 100).unwrap();
    let rebuilt = place.run(["rebuild"]);
    assert!(rebuilt.code == 0 && rebuilt.err.contains("the commit log was damaged"), "{}", rebuilt.err);
    assert_eq!(place.good(["ls"]), "first\nsecond\n");
}

/// A scrub did not tell of replicas that do not exist yet.
#[test]
fn pending_replicas_are_told_of_and_not_bad() {
    let place = Place::new();
    place.write("a", noise(200_000, 1));
    fs::rename(place.path("tiers/disk"), place.path("away")).unwrap();
    assert_eq!(place.run(["put", "a", "k", "--ack", "placed"]).code, 0);
    fs::rename(place.path("away"), place.path("tiers/disk")).unwrap();
    let ran = place.run(["scrub"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.starts_with("1 replica checked, 0 bad, 0 repaired, 0 extents lost"), "{}", ran.out);
    assert!(ran.out.contains("1 pending replica; `terrace sync` makes them"), "{}", ran.out);
    place.good(["sync"]);
    assert_eq!(place.good(["scrub"]), "2 replicas checked, 0 bad, 0 repaired, 0 extents lost\n");
}

/// The writer died before its commit, and then the device refused its bytes. No command named the frame, and every sync failed.
#[test]
fn a_lost_frame_that_no_commit_names_is_freed() {
    let place = Place::with("", "");
    place.write("a", noise(200_000, 1));
    assert_eq!(place.run(["put", "a", "a", "--ack", "durable"]).code, 0);
    assert_ne!(
        place
            .command(["put", "a", "b", "--ack", "durable"])
            .env("TERRACE_FAIL_POINT", "put:written")
            .output()
            .unwrap()
            .status
            .code(),
        Some(0)
    );
    for segment in fs::read_dir(place.path("tiers/disk/segments")).unwrap().map(|entry| entry.unwrap().path()) {
        let file = File::options().write(true).open(&segment).unwrap();
        file.write_all_at(&[0; 4096], file.metadata().unwrap().len() - 8192).unwrap();
        fs::set_permissions(&segment, Permissions::from_mode(0o1644)).unwrap();
    }
    assert_eq!(place.run(["put", "a", "c", "--ack", "durable"]).code, 0);
    place.good(["sync"]);
    // The disk is the only persistent tier, so there is one replica of each.
    assert_eq!(place.json(["scrub"]), (json!({"checked": 2, "bad": 0, "repaired": 0, "lost": 0}), 0));
}

/// A writer died in the middle of a frame, the next one placed its frames behind what the file held, and the rest of the torn frame was
/// freed: 6 of 6 durable objects were lost.
#[test]
fn a_torn_frame_takes_no_later_one_with_it() {
    let place = Place::with("", "");
    place.write("large", noise(3_000_000, 1));
    place.write("small", noise(5000, 2));
    let torn =
        place.command(["put", "large", "l", "--ack", "durable"]).env("TERRACE_FAIL_POINT", "segment:torn@2").output();
    assert_ne!(torn.unwrap().status.code(), Some(0));
    for key in ["a", "b", "c"] {
        assert_eq!(place.run(["put", "small", key, "--ack", "durable"]).code, 0);
    }
    place.good(["prune", "--force"]);
    for key in ["a", "b", "c"] {
        assert!(place.command(["cat", key]).output().unwrap().stdout == place.read("small"), "{key}");
    }
    assert_eq!(place.run(["scrub"]).code, 0);
}

#[test]
fn get_gives_right_bytes_and_mends_before_it_ends() {
    let place = filled();
    damage(&place, "d/a", "ram");
    let (got, code) = place.json(["get", "d/a", "out"]);
    assert_eq!((code, &got["repaired"]), (0, &json!(3)));
    assert!(place.read("out") == place.read("tree/a"));
    assert_eq!(place.json(["scrub"]), (json!({"checked": 8, "bad": 0, "repaired": 0, "lost": 0}), 0));
    assert_eq!(place.json(["status"]).0["owed"], 0);
    for reading in [&["cat", "d/b"][..], &["check", "tree", "d"], &["put", "tree", "d", "--checksum"]] {
        damage(&place, "d/b", "ram");
        assert_eq!(place.run(reading).code, 0, "{reading:?}");
        assert_eq!(place.run(["scrub"]).code, 0, "{reading:?}");
    }
}

/// Each bad replica was a warning of its own, thousands of lines for a damaged disk; and then `cat`, `check` and `put` said nothing at all.
#[test]
fn many_bad_replicas_are_one_line_with_their_number() {
    let place = filled();
    for reading in
        [&["cat", "d/a"][..], &["-v", "cat", "d/a"], &["check", "tree", "d"], &["put", "tree", "d", "--checksum"]]
    {
        damage(&place, "d/a", "ram");
        let ran = place.run(reading);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(ran.err.matches("3 damaged replicas found and repaired").count(), 1, "{reading:?}: {}", ran.err);
        let details = ran.err.matches("replacing a bad replica").count();
        assert_eq!(details, if reading[0] == "-v" { 3 } else { 0 }, "{reading:?}: {}", ran.err);
        assert!(!ran.err.contains("WARN"), "{reading:?}: {}", ran.err);
    }
}

#[test]
fn scrub_finds_and_repair_mends() {
    let place = filled();
    for repair in [&["repair"][..], &["scrub", "--repair"]] {
        damage(&place, "d/a", "disk");
        let ran = place.run(["scrub"]);
        assert_eq!(ran.code, 1);
        assert!(ran.out.contains("8 replicas checked, 3 bad, 0 repaired") && ran.out.contains("`terrace repair`"));
        assert_eq!(place.json(["scrub"]).0, json!({"checked": 8, "bad": 3, "repaired": 0, "lost": 0}), "it only finds");
        assert_eq!(place.json(repair), (json!({"checked": 8, "bad": 3, "repaired": 3, "lost": 0}), 0));
        assert_eq!(place.json(["scrub"]), (json!({"checked": 8, "bad": 0, "repaired": 0, "lost": 0}), 0));
    }
}

#[test]
fn what_is_lost_is_told_of_and_can_be_put_again() {
    let place = filled();
    damage(&place, "d/b", "ram");
    damage(&place, "d/b", "disk");
    place.write("out/b", b"old");
    place.bad(["get", "d/b", "out/b"], &["\"d/b\"", "bytes 0..20000", "ram", "disk", "`terrace repair`"]);
    assert_eq!(place.read("out/b"), b"old");
    assert_eq!(fs::read_dir(place.path("out")).unwrap().count(), 1);
    let (found, code) = place.json(["repair"]);
    assert_eq!((code, &found["lost"], &found["repaired"]), (1, &json!(1), &json!(0)));
    assert_eq!(found["lost_of"], json!({"d/b": 1}));
    let words = place.run(["scrub"]);
    assert!(words.code == 1 && words.out.contains("no good replica is left of 1 extent of d/b; put it again"));
    assert_eq!(place.run(["check", "tree", "d"]).code, 1);
    assert_eq!(place.json(["put", "tree", "d", "--checksum"]).0["written"], 1);
    assert_eq!(place.good(["check", "tree", "d"]), "2 files compared, 0 differ, 0 missing, 0 failed\n");
    assert_eq!(place.run(["scrub"]).code, 0);
}

/// `scrub` and `health` said to put the object again. `put` found its size and time unchanged, wrote nothing, and exited with 0.
#[test]
fn what_is_lost_is_put_again() {
    let by_read = |place: &Place| place.bad(["cat", "d/a"], &["no good replica"]);
    let by_scrub = |place: &Place| assert_eq!(place.run(["scrub"]).code, 1);
    for find in [by_read as fn(&Place), by_scrub] {
        let place = Place::with("", "");
        place.write("tree/a", noise(1_500_000, 1));
        place.write("tree/b", noise(1_500_000, 2));
        let put = || place.good(["put", "tree", "d", "--ack", "durable"]);
        put();
        damage(&place, "d/a", "ram");
        damage(&place, "d/a", "disk");
        find(&place);
        let (health, _) = place.json(["health"]);
        assert_eq!(
            (&health["health"], &health["findings"][0]["code"]),
            (&json!("damaged"), &json!("LOST")),
            "{health}"
        );
        place.bad(["sync"], &["no good replica is left of bytes of d/a; put them again"]);
        let words = put();
        assert!(words.starts_with("1 object written") && words.contains("1 unchanged"), "{words}");
        place.good(["check", "tree", "d"]);
        place.good(["sync"]);
        assert_eq!(place.run(["scrub"]).code, 0);
        assert_eq!(place.json(["health"]).0["health"], "safe");
    }
}

#[test]
fn a_scrub_finds_damage_of_the_commit_log() {
    let place = Place::with("", "");
    for number in 0..20 {
        place.write("a", noise(2_000, number));
        place.good(["put", "a", &format!("k{number}"), "-q"]);
    }
    place.good(["sync"]);
    let log = fs::read_dir(place.path("store/log")).unwrap().next().unwrap().unwrap().path();
    let file = File::options().read(true).write(true).open(&log).unwrap();
    let (at, mut byte) = (file.metadata().unwrap().len() / 2, [0]);
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
    let scrubbed = place.run(["scrub"]);
    assert!(scrubbed.code == 1 && scrubbed.out.contains("1 damaged file of the commit log"), "{}", scrubbed.out);
    assert_eq!(place.json(["health"]).0["findings"][0]["code"], "LOG_DAMAGED");
    assert_eq!(place.run(["rebuild"]).code, 0);
    place.good(["scrub"]);
    assert_eq!(place.keys("").len(), 20);
    assert_eq!(place.json(["health"]).0["health"], "safe");

    let copy = place.path("tiers/disk/log").join(log.file_name().unwrap());
    File::options().write(true).open(&copy).unwrap().write_all_at(&[!byte[0]], at).unwrap();
    let scrubbed = place.run(["scrub"]);
    assert!(scrubbed.out.contains("1 damaged file of copies of the commit log"), "{}", scrubbed.out);
    assert!(scrubbed.code == 1 && scrubbed.out.contains("terrace repair"), "{}", scrubbed.out);
    assert_eq!(place.json(["health"]).0["findings"][0]["code"], "LOG_COPY_DAMAGED");
    let repaired = place.run(["repair"]);
    assert!(repaired.code == 0 && repaired.err.contains("check the disk"), "{}{}", repaired.out, repaired.err);
    place.good(["scrub"]);
}

/// A log that was lost was mended from the end of its snapshot on. The file in which this is kept a hole before it, so that `scrub` called the
/// mended log damaged, and `rebuild` did not help. No other test lost a log whose snapshot ends within a file, and then scrubbed.
#[test]
fn a_log_that_was_mended_beside_a_snapshot_is_whole() {
    // On a busy machine, most snapshots end with a file.
    const MAX_PUT_COUNT: usize = 3000;
    let place = Place::new();
    let run = |arguments: &[&str]| {
        // A short log has snapshots.
        ran(place.command(arguments).env("TERRACE_LOG_FILE", "3000").output().unwrap())
    };
    let has_snapshot_within_a_file = || {
        let names: Vec<String> = fs::read_dir(place.path("store/log"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let numbers = |ending| names.iter().filter_map(move |name| name.strip_suffix(ending));
        numbers(".snapshot").max().zip(numbers(".log").min()).is_some_and(|(snapshot, first)| first < snapshot)
    };
    place.write("a", "bytes");
    let puts = (0..MAX_PUT_COUNT).take_while(|number| {
        assert_eq!(run(&["put", "a", &format!("objects/{number}"), "--ack", "durable"]).code, 0);
        !has_snapshot_within_a_file()
    });
    let puts = puts.count() + 1;
    assert!(puts < MAX_PUT_COUNT, "no snapshot ends within a file");
    fs::remove_dir_all(place.path("store/log")).unwrap();
    fs::remove_dir_all(place.path("store/catalog")).unwrap();
    let listed = run(&["ls", "objects"]);
    assert_eq!((listed.code, listed.out.lines().count()), (0, puts), "{}", listed.err);
    assert!(listed.err.contains("was continued from there"), "{}", listed.err);
    let scrubbed = run(&["scrub"]);
    assert_eq!((scrubbed.code, scrubbed.err.as_str()), (0, ""), "{}", scrubbed.out);
}
