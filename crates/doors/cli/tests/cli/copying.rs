//! put, get, check, rm and mv.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::place::{Place, noise, ran};

fn tree() -> Place {
    let place = Place::new();
    place.write("runs/a.h5", b"aaaa");
    place.write("runs/b.txt", b"bb");
    place.write("runs/deep/c.h5", b"cccccc");
    place
}

#[test]
fn contents_of_a_directory_go_below_the_prefix_and_back() {
    let place = tree();
    place.good(["put", "runs/", "data/"]);
    assert_eq!(place.keys(""), ["data/a.h5", "data/b.txt", "data/deep/c.h5"]);
    place.good(["put", "runs", ""]);
    assert_eq!(place.keys("a.h5"), ["a.h5"]);
    place.good(["get", "data/", "out"]);
    assert_eq!(place.read("out/a.h5"), b"aaaa");
    assert_eq!(place.read("out/deep/c.h5"), b"cccccc");
    place.good(["get", "data/deep", "deep"]);
    assert_eq!(place.read("deep/c.h5"), b"cccccc");
}

#[test]
fn a_file_goes_to_a_key_and_back() {
    let place = tree();
    place.good(["put", "runs/a.h5", "one"]);
    place.good(["put", "runs/a.h5", "kept/"]);
    assert_eq!(place.keys(""), ["kept/a.h5", "one"]);
    place.good(["get", "one", "two"]);
    place.good(["get", "kept/a.h5", "folder/"]);
    place.good(["get", "kept/a.h5", "runs/deep"]);
    for file in ["two", "folder/a.h5", "runs/deep/a.h5"] {
        assert_eq!(place.read(file), b"aaaa", "{file}");
    }
}

#[test]
fn a_dash_is_stdin_and_stdout() {
    let place = Place::new();
    let bytes = noise(3_000_000, 1);
    let mut running = place.command(["put", "-", "k"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    running.stdin.take().unwrap().write_all(&bytes).unwrap();
    assert_eq!(ran(running.wait_with_output().unwrap()).out, "1 object written (2.86 MiB), 0 unchanged, 0 failed\n");
    for arguments in [&["get", "k", "-"][..], &["cat", "k"]] {
        assert!(place.command(arguments).output().unwrap().stdout == bytes);
    }
    let part = place.command(["cat", "k", "--range", "1048570-1048580"]).output().unwrap();
    assert_eq!(part.stdout, bytes[1048570..1048580]);
    place.good(["get", "k", "part", "--range", "2999990-"]);
    assert_eq!(place.read("part"), bytes[2999990..]);
    assert_eq!(place.json(["get", "k", "none", "--range", "5000000-"]).0["bytes"], 0);
    place.bad(["put", "-", "folder/"], &["stdin has no name", "folder/name"]);
    place.good(["put", "-", "other", "--dry-run"]);
    assert_eq!(place.keys(""), ["k"]);
}

#[test]
fn prefixes_match_whole_components() {
    let place = Place::new();
    for key in ["runs", "runs2/b", "runs2/c"] {
        place.write("file", key);
        place.good(["put", "file", key]);
    }
    place.good(["get", "runs", "out"]);
    assert_eq!(place.read("out"), b"runs");
    place.bad(["get", "run", "none"], &["nothing", "\"run\"", "terrace ls"]);
    place.bad(["rm", "-r", "run"], &["nothing", "\"run\""]);
    place.good(["rm", "-r", "runs"]);
    assert_eq!(place.keys(""), ["runs2/b", "runs2/c"]);
}

#[test]
fn modes_times_links_and_empty_folders_come_back() {
    let place = tree();
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_millis(1500);
    File::open(place.path("runs/a.h5")).unwrap().set_modified(old).unwrap();
    File::open(place.path("runs/b.txt")).unwrap().set_modified(before_1970).unwrap();
    fs::set_permissions(place.path("runs/a.h5"), Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(place.path("runs/b.txt"), Permissions::from_mode(0o400)).unwrap();
    fs::create_dir(place.path("runs/empty")).unwrap();
    fs::set_permissions(place.path("runs/empty"), Permissions::from_mode(0o700)).unwrap();
    File::open(place.path("runs/empty")).unwrap().set_modified(old).unwrap();
    symlink("deep/c.h5", place.path("runs/link")).unwrap();
    place.good(["put", "runs", "d"]);
    place.good(["get", "d", "out"]);
    let metadata = |name: &str| fs::symlink_metadata(place.path("out").join(name)).unwrap();
    assert_eq!((metadata("a.h5").mode() & 0o7777, metadata("a.h5").modified().unwrap()), (0o640, old));
    assert_eq!((metadata("b.txt").mode() & 0o7777, metadata("b.txt").modified().unwrap()), (0o400, before_1970));
    assert_eq!((metadata("empty").mode() & 0o7777, metadata("empty").modified().unwrap()), (0o700, old));
    assert_eq!(fs::read_link(place.path("out/link")).unwrap().to_str(), Some("deep/c.h5"));
}

#[test]
fn what_is_asked_for_now_or_is_lost_is_left_to_do() {
    let place = tree();
    let put = |more: &[&str]| place.json([&["put", "runs", "d"], more].concat()).0["written"].as_u64();
    let one = ["--replicas", "1", "--constraint", "tiers=ram+disk,max_latency=1s"];
    assert_eq!([put(&[]), put(&one), put(&one), put(&[])], [Some(3), Some(3), Some(0), Some(0)]);
    assert_eq!([put(&["--min-storage"]), put(&["--min-storage", "--ack", "durable"])], [Some(3), Some(0)]);
    assert!(place.run(["put", "runs", "d", "--constraint", "tiers=rom"]).err.contains("there are ram, disk"));
    assert!(place.run(["put", "runs", "d", "--constraint", "rate=1"]).err.contains("max_latency=5ms"));
    for tier in ["ram", "disk"] {
        fs::remove_dir_all(place.path(format!("tiers/{tier}/segments"))).unwrap();
        fs::create_dir(place.path(format!("tiers/{tier}/segments"))).unwrap();
    }
    assert_eq!(put(&[]), Some(3), "what is lost is put again");
    place.good(["check", "runs", "d"]);
}

#[test]
fn put_and_get_do_only_what_is_left_to_do() {
    let place = tree();
    let put = |more: &[&str]| place.json([&["put", "runs", "d"], more].concat()).0;
    let got = |more: &[&str]| place.json([&["get", "d", "out"], more].concat()).0;
    assert_eq!((put(&[])["written"].as_u64(), put(&[])["unchanged"].as_u64()), (Some(3), Some(3)));
    assert_eq!((got(&[])["read"].as_u64(), got(&[])["unchanged"].as_u64()), (Some(3), Some(3)));
    let file = place.path("runs/a.h5");
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    fs::write(&file, b"AAAA").unwrap();
    File::open(&file).unwrap().set_modified(time).unwrap();
    assert_eq!(put(&[])["written"], 0, "as long and as old as before");
    assert_eq!(put(&["--checksum"])["written"], 1);
    assert_eq!(got(&[])["read"], 0);
    assert_eq!(got(&["--checksum"])["read"], 1);
    assert_eq!(place.read("out/a.h5"), b"AAAA");
    File::open(&file).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!((put(&["--checksum"])["written"].as_u64(), put(&[])["written"].as_u64()), (Some(0), Some(1)));
    assert_eq!(put(&[])["unchanged"], 3, "also at the beginning of time");
    fs::remove_file(place.path("out/b.txt")).unwrap();
    assert_eq!((got(&[])["read"].as_u64(), place.read("out/b.txt")), (Some(2), b"bb".to_vec()));
}

/// The folder itself was missing, although all that is in it was there.
#[test]
fn check_needs_no_object_of_a_folder() {
    let place = Place::new();
    place.write("runs/a", "a");
    place.write("runs/empty/.hidden", "");
    place.good(["put", "runs/a", "d/a"]);
    place.good(["put", "runs/empty/.hidden", "d/empty/.hidden"]);
    place.good(["check", "runs", "d"]);
    fs::create_dir(place.path("runs/new")).unwrap();
    assert!(place.run(["check", "runs", "d"]).out.contains("missing: d/new"));
}

#[test]
fn check_tells_what_differs_and_what_is_missing() {
    let place = tree();
    place.good(["put", "runs", "d"]);
    assert_eq!(place.good(["check", "runs", "d"]), "3 files compared, 0 differ, 0 missing, 0 failed\n");
    place.write("runs/b.txt", b"BB");
    place.write("runs/new", b"new");
    let ran = place.run(["check", "runs", "d"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert_eq!(ran.out, "differs: d/b.txt\nmissing: d/new\n4 files compared, 1 differ, 1 missing, 0 failed\n");
    let (found, _) = place.json(["check", "runs", "d"]);
    assert_eq!((&found["differ"], &found["missing"]), (&json!(["d/b.txt"]), &json!(["d/new"])));
    place.good(["check", "runs", "d", "--include", "*.h5"]);
}

#[test]
fn patterns_choose_by_path_name_and_folder() {
    let place = tree();
    let put = |more: &[&str]| {
        place.good([&["put", "runs", "d"], more].concat());
        let keys = place.keys("d");
        keys.iter().for_each(|key| drop(place.good(["rm", key])));
        keys
    };
    assert_eq!(put(&["--include", "*.h5"]), ["d/a.h5", "d/deep/c.h5"]);
    assert_eq!(put(&["--include", "*.h5", "--exclude", "deep"]), ["d/a.h5"]);
    assert_eq!(put(&["--exclude", "deep/**"]), ["d/a.h5", "d/b.txt"]);
    assert_eq!(put(&["--include", "b.*", "--include", "deep"]), ["d/b.txt", "d/deep/c.h5"]);
    place.good(["put", "runs", "d"]);
    place.good(["get", "d", "out", "--exclude", "*.h5"]);
    assert!(place.path("out/b.txt").exists() && !place.path("out/a.h5").exists());
    let ran = place.run(["put", "runs", "d", "--include", "[a"]);
    assert_eq!(ran.code, 2);
}

#[test]
fn a_dry_run_only_tells() {
    let place = tree();
    let words = place.good(["put", "runs", "d", "--dry-run"]);
    assert_eq!(
        words,
        "would write d/a.h5\nwould write d/b.txt\nwould write d/deep/c.h5\n3 objects to write, 0 unchanged\n"
    );
    assert_eq!(place.keys(""), [""; 0]);
    place.good(["put", "runs", "d"]);
    let would = json!({"would_write": ["out/a.h5", "out/b.txt", "out/deep/c.h5"], "unchanged": 0, "failed": 0});
    assert_eq!(place.json(["get", "d", "out", "--dry-run"]), (would, 0));
    assert!(!place.path("out").exists());
    assert_eq!(place.good(["rm", "-r", "d/deep", "--dry-run"]), "would delete d/deep/c.h5\n1 object to delete\n");
    assert_eq!(place.keys("d/deep"), ["d/deep/c.h5"]);
}

#[test]
fn rm_deletes_one_object_or_all_below() {
    let place = tree();
    place.good(["put", "runs", "d"]);
    place.bad(["rm", "d"], &["\"d\" holds objects", "terrace rm -r"]);
    place.bad(["rm", "none"], &["\"none\"", "terrace ls"]);
    place.bad(["rm", "-r", ""], &["an empty key stands for all objects", "--all"]);
    assert_eq!(place.keys("").len(), 3);
    assert_eq!(place.json(["rm", "d/a.h5"]), (json!({"deleted": 1}), 0));
    assert_eq!(place.good(["rm", "-r", "d/"]), "2 objects deleted\n");
    assert_eq!(place.keys(""), [""; 0]);
    place.good(["put", "runs", "d"]);
    assert_eq!(place.good(["rm", "-r", "--all", ""]), "3 objects deleted\n");
}

#[test]
fn mv_renames_and_replaces() {
    let place = tree();
    place.good(["put", "runs", "d"]);
    assert_eq!(place.good(["mv", "d/a.h5", "e/a"]), "d/a.h5 is now e/a\n");
    assert_eq!(place.good(["cat", "e/a"]), "aaaa");
    place.good(["mv", "e/a", "d/b.txt"]);
    assert_eq!(place.good(["cat", "d/b.txt"]), "aaaa");
    assert_eq!(place.keys(""), ["d/b.txt", "d/deep/c.h5"]);
    place.bad(["mv", "d/b.txt", "d/deep"], &["d/deep/c.h5", "name another key"]);
    place.bad(["mv", "none", "x"], &["\"none\"", "terrace ls"]);
    assert_eq!(place.good(["cp", "d/b.txt", "e/copy"]), "e/copy is a copy of d/b.txt\n");
    assert_eq!(place.good(["cat", "e/copy"]), place.good(["cat", "d/b.txt"]));
    place.bad(["cp", "none", "x"], &["\"none\"", "terrace ls"]);
    place.bad(["cp", "d/b.txt", "d/deep"], &["d/deep/c.h5", "name another key"]);
    place.good(["rm", "e/copy"]);
}

/// "It is stored" was followed by exit code 1 where only replicas were missing that nobody had asked to wait for.
#[test]
fn what_is_stored_and_lacks_replicas_has_one_outcome() {
    let place = Place::with("", "capacity = '256KiB'");
    place.write("big", noise(2_000_000, 1));
    let ran = place.run(["put", "big", "k"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("it is stored; 2 replicas are pending") && ran.out.contains("0 failed"), "{}", ran.err);
    // Where an acknowledgement is asked for that is not reached, that is the outcome, and the only one.
    let ran = place.run(["put", "big", "other", "--ack", "replicated"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert_eq!(ran.err.matches("terrace: ").count(), 1, "{}", ran.err);
    assert!(ran.err.contains("it is stored, but not yet as its acknowledgement asks"), "{}", ran.err);
    assert_eq!(place.run(["put", "big", "third", "--ack", "placed"]).code, 0);
}
