//! Messages: what is wrong, where, and what to do next.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terrace_testkit::{Missing, skip};

use crate::place::{Place, noise};

#[test]
fn paths_that_are_not_there_are_named() {
    let place = Place::new();
    place.bad(["put", "none", "k"], &["reading none: No such file", "see that the path is right"]);
    place.bad(["check", "none", "k"], &["reading none", "see that the path is right"]);
    place.bad(["cat", "none"], &["\"none\"", "`terrace ls`"]);
    place.bad(["get", "none", "out"], &["\"none\"", "`terrace ls`"]);
    place.bad(["stage", "none", "--tier", "ram"], &["\"none\"", "`terrace ls`"]);
    place.bad(["get", "", "-"], &["no object's key", "`terrace ls`"]);
}

/// It was printed as an empty file, with exit code 0.
#[test]
fn a_directory_is_not_printed() {
    let place = Place::new();
    place.write("tree/d/a", b"a");
    fs::create_dir(place.path("tree/empty")).unwrap();
    place.good(["put", "tree", "t"]);
    for key in ["t", "t/d", "t/empty"] {
        place.bad(["cat", key], &[&format!("{key} is a directory"), "`terrace ls`"]);
    }
    assert_eq!(place.good(["cat", "t/d/a"]), "a");
}

#[test]
fn a_store_that_is_not_there_is_named() {
    let place = Place::empty();
    let none = place.path("none");
    for command in [&["ls"][..], &["status"], &["rebuild"], &["tiers", "remove", "a"], &["scrub"]] {
        let arguments = [&["--store", none.to_str().unwrap()], command].concat();
        place.bad(arguments, &[none.to_str().unwrap(), "no store is here", "terrace init --store"]);
    }
    let file = place.write("file", b"x");
    place.bad(["--store", file.to_str().unwrap(), "ls"], &["file", "Not a directory", "name another"]);
    assert!(!none.exists());
}

#[test]
fn a_configuration_with_a_mistake_is_refused_with_its_place() {
    let place = Place::empty();
    let tier = "[[tier]]\nname = 'a'\nkind = 'directory'\ntargets = ['a']\n";
    let twice = format!("{tier}{}", tier.replace("name = 'a'", "name = 'b'"));
    let cases: [(&[u8], &[&str]); 6] = [
        (b"[[tier]]\nname = 'a'\nkind = 'directory'\ncapasity = '1GiB'\n", &["line 4", "`capasity`", "`capacity`"]),
        (b"[[tier]]\nname = 'a'\nkind = 'tape'\n", &["line 3", "\"tape\"", "directory", "memory", "node", "object"]),
        (b"[[tier]]\nname = 'a'\nkind = 'directory'\ntargets = ['a']\ncapacity = '1 lot'\n", &["line 5", "64KiB"]),
        (b"[[tier]\n", &["line 1"]),
        (b"# ok\n[[tier]]\nname = 'caf\xe9'\n", &["line 3 is not UTF-8", "save the file as UTF-8"]),
        (twice.as_bytes(), &["tier \"b\"", "tier \"a\"", "own directory"]),
    ];
    for (text, says) in cases {
        place.write("bad.toml", text);
        place.bad(["init", "--config", "bad.toml"], &[&["bad.toml"], says].concat());
        assert!(!place.path("store").exists());
    }
    place.bad(["init", "--config", "none.toml"], &["reading none.toml", "see that the path is right"]);
}

#[test]
fn a_stores_configuration_that_was_damaged_is_refused_with_its_place() {
    let place = Place::new();
    let mut text = fs::read(place.path("store/terrace.toml")).unwrap();
    text.extend(b"# caf\xe9\n");
    fs::write(place.path("store/terrace.toml"), text).unwrap();
    place.bad(["ls"], &["terrace.toml", "is not UTF-8", "save the file as UTF-8"]);
}

#[test]
fn a_removed_current_directory_is_no_empty_one() {
    let place = Place::new();
    let folder = place.path("folder");
    fs::create_dir(&folder).unwrap();
    let script = "rmdir \"$PWD\"; exec \"$0\" --store \"$1\" put . x";
    let mut shell = std::process::Command::new("sh");
    let command = place.command(["ls"]);
    let output = shell.args(["-c", script]).arg(command.get_program()).arg(place.path("store")).current_dir(&folder);
    let output = output.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("was removed"), "{said}");
}

/// Without its file `store` a store was called none, and `terrace init` was advised; with a damaged one nothing was.
#[test]
fn a_store_that_lost_the_file_that_names_it_says_how_to_write_it_again() {
    for damaged in [None, Some(&b"\xff\xfe\xfd"[..]), Some(b"")] {
        let place = Place::new();
        place.write("file", b"bytes");
        place.good(["put", "file", "file"]);
        match damaged {
            Some(bytes) => fs::write(place.path("store/store"), bytes).unwrap(),
            None => fs::remove_file(place.path("store/store")).unwrap(),
        }
        for command in ["ls", "rebuild", "destroy"] {
            place.bad([command], &["`store` is lost or damaged", "`id ID`", "terrace-target"]);
        }
    }
}

#[test]
fn a_store_is_not_made_twice() {
    let place = Place::new();
    place.bad(["init", "--config", "terrace.toml"], &["store", "a store is here already", "another directory"]);
}

#[test]
fn a_tier_that_is_not_there_is_named_with_those_that_are() {
    let place = Place::new();
    place.write("a", b"a");
    place.good(["put", "a", "a"]);
    for arguments in
        [&["stage", "a", "--tier", "x"][..], &["evict", "a", "--tier", "x"], &["drain", "x"], &["tiers", "remove", "x"]]
    {
        place.bad(arguments, &["no tier \"x\"", "ram, disk"]);
    }
}

#[test]
fn one_bad_file_does_not_keep_others_from_being_copied() {
    let place = Place::new();
    for name in ["a", "b", "c"] {
        place.write(format!("tree/{name}"), name);
    }
    // A path that the system takes, and longer than a key may be.
    let long = format!("tree/b2/{0}/{0}/{0}/{0}/{0}/{0}/{0}/{0}/x", "n".repeat(255));
    place.write(long, b"x");
    let ran = place.run(["put", "tree", "d"]);
    assert_eq!((ran.code, place.keys("d").len()), (1, 3), "{}", ran.err);
    assert!(ran.err.contains("longer than 1,920 bytes"), "{}", ran.err);
    assert_eq!(ran.out, "3 objects written (3 B), 0 unchanged, 1 failed\n");
}

#[test]
fn a_file_that_may_not_be_read_is_told_of() {
    let place = Place::new();
    let file = place.write("tree/secret", b"x");
    place.write("tree/open", b"y");
    fs::set_permissions(&file, Permissions::from_mode(0o000)).unwrap();
    if File::open(&file).is_ok() {
        let missing = Missing::new("permissions", "this user may read everything");
        return skip("a_file_that_may_not_be_read_is_told_of", &missing);
    }
    place.bad(["put", "tree", "d"], &["reading tree/secret: Permission denied", "has the permission"]);
    assert_eq!(place.keys("d"), ["d/open"]);
}

#[test]
fn a_file_above_a_file_is_refused() {
    let place = Place::new();
    place.write("a", b"a");
    place.good(["put", "a", "d/a"]);
    place.bad(["put", "a", "d"], &["a: \"d\"", "\"d/a\"", "name another key"]);
    place.bad(["put", "a", "d/a/b"], &["\"d/a/b\"", "\"d/a\"", "name another key"]);
}

#[test]
fn a_destination_that_cannot_be_written_is_told_of_once() {
    let place = Place::new();
    for name in ["a", "b", "c"] {
        place.write(format!("tree/{name}"), name);
    }
    place.good(["put", "tree", "d"]);
    place.bad(["get", "d", "/proc/none"], &["/proc/none", "see that the path is right"]);
    place.bad(["get", "d/a", "/proc/none/a"], &["/proc/none/a"]);
    place.bad(["get", "d", "tree/a"], &["tree/a", "name another path"]);
    place.bad(["get", "d", "tree/a/b"], &["tree/a/b", "name another"]);
    fs::create_dir_all(place.path("out/a")).unwrap();
    place.bad(["get", "d", "out"], &["out/a", "Is a directory", "name another path"]);
    assert_eq!(place.read("out/c"), b"c");
    let left: Vec<_> = fs::read_dir(place.path("out")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".terrace")), "{left:?}");
}

#[test]
fn a_file_that_changes_while_it_is_put_is_not_stored() {
    let place = Place::with("throttle = { write = '20MB/s' }", "");
    let path = place.write("growing", noise(10_000_000, 1));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = File::options().append(true).open(&path).unwrap();
            while !done.load(Ordering::Relaxed) {
                file.write_all(b"more").unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        place.bad(["put", "growing", "k"], &["growing", "changed while it was read", "put it again"]);
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(place.keys(""), [""; 0]);
    place.good(["put", "growing", "k"]);
    place.good(["check", "growing", "k"]);
}

/// A log that a program writes to could never be put: it is never at rest.
#[test]
fn a_growing_file_is_put_as_long_as_it_is_now() {
    let place = Place::with("throttle = { write = '20MB/s' }", "");
    let before = noise(4_000_000, 1);
    let path = place.write("growing", &before);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = File::options().append(true).open(&path).unwrap();
            while !done.load(Ordering::Relaxed) {
                file.write_all(b"more").unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        place.good(["put", "growing", "k", "--snapshot"]);
        done.store(true, Ordering::Relaxed);
    });
    let stored = place.command(["cat", "k"]).output().unwrap().stdout;
    let now = place.read("growing");
    assert!(stored.len() >= before.len() && stored.len() < now.len() && now.starts_with(&stored));
    assert_eq!(place.json(["put", "growing", "k", "--snapshot"]).0["written"], 1, "it has grown since");
}

/// Scripts that ask for JSON could not read why a command failed.
#[test]
fn errors_are_json_where_json_is_asked_for() {
    let place = Place::new();
    place.write("file", b"x");
    let said = |arguments: &[&str], code: i32| {
        let ran = place.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
        let lines = ran.err.lines().map(serde_json::from_str::<serde_json::Value>);
        lines.map(|line| line.unwrap_or_else(|e| panic!("{e}: {}", ran.err))).collect::<Vec<_>>()
    };
    for (arguments, code, part) in [
        (&["--json", "cat", "none"][..], 1, "no object has the key \"none\""),
        (&["put", "none", "k", "--json"], 1, "reading none: No such file"),
        (&["put", "file", "../k", "--json"], 1, "not allowed"),
        (&["--json", "--store", "/none", "ls"], 1, "no store is here"),
        (&["--json", "put", "file"], 2, "required arguments"),
        (&["--json", "nonsense"], 2, "unrecognized subcommand"),
    ] {
        let lines = said(arguments, code);
        let [line] = lines.as_slice() else { panic!("{arguments:?}: {lines:?}") };
        assert!(line["error"].as_str().unwrap().contains(part), "{line}");
    }
    let socket = std::os::unix::net::UnixListener::bind(place.path("socket")).unwrap();
    place.write("tree/file", b"x");
    fs::rename(place.path("socket"), place.path("tree/socket")).unwrap();
    let lines = said(&["--json", "put", "tree", "d"], 0);
    assert!(lines[0]["note"].as_str().unwrap().contains("tree/socket: skipped"), "{lines:?}");
    drop(socket);
    let ran = place.run(["--json", "--help"]);
    assert_eq!((ran.code, ran.out.contains("Usage")), (0, true));
}

#[test]
fn a_wrong_log_filter_is_told_of_and_nothing_else() {
    let place = Place::new();
    let output = place.command(["ls"]).env("TERRACE_LOG", "terrace=loud").output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("terrace=debug"));
}

/// It hid what was there from all programs, such as `/proc`.
#[test]
fn a_directory_that_is_not_empty_is_not_mounted_on() {
    let place = Place::new();
    place.write("full/file", b"here");
    place.bad(["mount", "full"], &["full is not empty", "--allow-non-empty"]);
    assert_eq!(fs::read(place.path("full/file")).unwrap(), b"here");
}
