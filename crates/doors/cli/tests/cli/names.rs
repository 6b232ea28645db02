//! Names and kinds of files that are easily forgotten.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::place::{Place, ran};

const ODD_NAMES: [&[u8]; 7] = [b"a b", b" ", b"new\nline", b"\xff\xfe", b"caf\xc3\xa9", b"-dash", b"quote'\"\\$*?"];

#[test]
fn any_name_comes_back_byte_by_byte() {
    let place = Place::new();
    for name in ODD_NAMES {
        place.write(Path::new("tree").join(OsStr::from_bytes(name)), name);
    }
    let long = "n".repeat(255);
    place.write(Path::new("tree").join(&long), b"long");
    place.good(["put", "tree", "d"]);
    place.good(["get", "d", "out"]);
    for name in ODD_NAMES.into_iter().chain([long.as_bytes()]) {
        let bytes = place.read(Path::new("out").join(OsStr::from_bytes(name)));
        assert!(bytes == name || bytes == b"long", "{name:?}");
    }
    assert_eq!(place.json(["put", "tree", "d"]).0["unchanged"], 8);
}

/// A key with a newline was listed as two, and one with an escape sequence did to the terminal what it says.
#[test]
fn keys_are_shown_on_one_line_without_what_a_terminal_obeys() {
    let place = Place::new();
    place.write("file", b"x");
    let (key, shown) = ("d/a\nb\x1b[2J\\\u{202e}", r"d/a\nb\u{1b}[2J\\\u{202e}");
    for arguments in [&["put", "file", key][..], &["ls"], &["ls", "-l"], &["locate", key], &["stat", key]] {
        let out = place.good(arguments);
        assert!(arguments[0] == "put" || out.contains(shown), "{arguments:?}: {out}");
        assert!(!out.contains('\x1b') && !out.contains("a\nb") && !out.contains('\u{202e}'), "{arguments:?}: {out}");
    }
    assert_eq!(place.good(["ls"]), format!("{shown}\n"));
    assert_eq!(place.keys(""), [key], "scripts get the key itself");
    assert_eq!(place.good(["rm", "-r", "d", "--dry-run"]), format!("would delete {shown}\n1 object to delete\n"));
    assert_eq!(
        place.good(["get", "d", "out", "--dry-run"]).lines().next(),
        Some(format!("would write out/{}", &shown[2..]).as_str())
    );
    let ran = place.run(["put", "none\x1b[2J", "k"]);
    assert!(ran.code == 1 && !ran.err.contains('\x1b'), "{}", ran.err);
    assert_eq!(place.good(["mv", key, "plain"]), format!("{shown} is now plain\n"));
}

#[test]
fn a_key_that_is_not_utf_8_can_be_named_and_is_told_in_base64() {
    let place = Place::new();
    let key = OsStr::from_bytes(b"d/\xff\xfe");
    place.write("file", b"bytes");
    place.good([OsStr::new("put"), OsStr::new("file"), key]);
    for command in ["locate", "stat", "ls"] {
        let (found, _) = place.json([OsStr::new(command), key]);
        let found = if command == "ls" { &found[0] } else { &found };
        assert_eq!(found["key"], "d/\u{fffd}\u{fffd}");
        let bytes = BASE64_STANDARD.decode(found["key_base64"].as_str().unwrap()).unwrap();
        assert_eq!(bytes, key.as_bytes());
    }
    assert_eq!(place.good([OsStr::new("cat"), key]), "bytes");
    place.good([OsStr::new("get"), key, OsStr::new("out/")]);
    assert_eq!(place.read(Path::new("out").join(OsStr::from_bytes(b"\xff\xfe"))), b"bytes");
    place.good([OsStr::new("mv"), key, OsStr::new("plain")]);
    assert_eq!(place.keys(""), ["plain"]);
    assert!(place.json(["ls"]).0[0].get("key_base64").is_none());
}

#[test]
fn keys_cannot_escape() {
    let place = Place::new();
    place.write("file", b"x");
    for key in ["../x", "a/../../x", "/x", "a//b", "./x", "a/.."] {
        place.bad(["put", "file", key], &[key, "not allowed", "data/a.h5"]);
    }
    place.bad(["put", ".", "../x"], &["../x", "not allowed"]);
    place.bad(["put", "file", &"k".repeat(1921)], &["longer than 1,920 bytes"]);
    place.bad(["mv", "a", ""], &["it is empty"]);
    place.bad(["put", "-", ""], &["stdin has no name"]);
    assert_eq!(place.keys(""), [""; 0]);
}

#[test]
fn empty_files_are_files() {
    let place = Place::new();
    place.write("tree/empty", b"");
    place.good(["put", "tree", "d"]);
    place.good(["get", "d", "out"]);
    assert_eq!(place.read("out/empty"), b"");
    assert_eq!(place.good(["cat", "d/empty"]), "");
    place.good(["check", "tree", "d"]);
    assert_eq!(place.json(["locate", "d/empty"]).0["extents"].as_array().map(Vec::len), Some(0));
}

#[test]
fn links_are_kept_as_links_wherever_they_lead() {
    let place = Place::new();
    place.write("tree/file", b"file");
    let links = [("dangling", "nowhere"), ("cycle", "."), ("self", "self"), ("out", "/etc"), ("to file", "file")];
    for (name, to) in links {
        symlink(to, place.path("tree").join(name)).unwrap();
    }
    place.good(["put", "tree", "d"]);
    assert_eq!(place.keys("d").len(), 6);
    place.good(["get", "d", "back"]);
    for (name, to) in links {
        assert_eq!(fs::read_link(place.path("back").join(name)).unwrap(), Path::new(to));
    }
    place.good(["check", "tree", "d"]);
    assert_eq!(place.json(["put", "tree", "d"]).0["unchanged"], 6);
    place.good(["put", "tree/to file", "followed"]);
    assert_eq!(place.good(["cat", "followed"]), "file");
}

#[test]
fn a_link_that_is_in_the_way_is_replaced_not_followed() {
    let place = Place::new();
    place.write("tree/a", b"new");
    place.good(["put", "tree", "d"]);
    let outside = place.write("outside", b"old");
    fs::create_dir(place.path("out")).unwrap();
    symlink(&outside, place.path("out/a")).unwrap();
    place.good(["get", "d", "out"]);
    assert_eq!((place.read("outside"), place.read("out/a")), (b"old".to_vec(), b"new".to_vec()));
}

#[test]
fn pipes_and_sockets_in_a_tree_are_skipped_with_a_word() {
    let place = Place::new();
    place.write("tree/file", b"file");
    mknodat(CWD, place.path("tree/pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let _socket = UnixListener::bind(place.path("tree/socket")).unwrap();
    let ran = place.run(["put", "tree", "d"]);
    assert_eq!((ran.code, place.keys("d")), (0, vec!["d/file".to_owned()]));
    assert!(ran.err.contains("tree/pipe: skipped") && ran.err.contains("tree/socket: skipped"), "{}", ran.err);
}

#[test]
fn a_pipe_that_is_named_is_read() {
    let place = Place::new();
    mknodat(CWD, place.path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let running = place.command(["put", "pipe", "k", "-q"]).spawn().unwrap();
    fs::write(place.path("pipe"), b"through").unwrap();
    assert_eq!(ran(running.wait_with_output().unwrap()).code, 0);
    assert_eq!(place.good(["cat", "k"]), "through");
}

#[test]
fn the_store_itself_is_not_put_into_it() {
    let place = Place::new();
    place.write("file", b"file");
    let ran = place.run(["put", ".", "d"]);
    assert_eq!((ran.code, place.keys("d")), (0, vec!["d/file".to_owned(), "d/terrace.toml".to_owned()]));
    for own in ["./store", "./tiers/ram", "./tiers/disk"] {
        assert!(ran.err.contains(&format!("{own}: skipped")), "{}", ran.err);
    }
    for own in ["store", "store/log", "tiers/disk", "tiers/ram/segments"] {
        place.bad(["put", own, "copy"], &[own, "a part of the store itself"]);
    }
}
