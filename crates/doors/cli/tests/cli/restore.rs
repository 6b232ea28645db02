//! Modes and owners that come back. A directory of mode 700 came back as 755, since only its files had keys, and setuid was dropped
//! without a word: the tests looked at modes of files and of empty directories, without the upper bits.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::Command;

use serde_json::json;
use terrace_testkit::{Missing, skip};

use crate::place::Place;

const SOME_MODES: [(&str, u32); 8] = [
    ("private", 0o700),
    ("private/deep", 0o2750),
    ("shared", 0o1777),
    ("usual", 0o755),
    ("closed", 0o500),
    ("private/deep/setuid", 0o4755),
    ("shared/setgid", 0o2711),
    ("usual/file", 0o640),
];

fn tree() -> Place {
    let place = Place::new();
    for file in ["private/deep/setuid", "shared/setgid", "usual/file", "closed/file"] {
        place.write(format!("tree/{file}"), file);
    }
    for (name, mode) in SOME_MODES {
        fs::set_permissions(place.path(format!("tree/{name}")), Permissions::from_mode(mode)).unwrap();
    }
    place
}

fn mode(place: &Place, name: &str) -> u32 {
    fs::symlink_metadata(place.path(name)).unwrap().mode() & 0o7777
}

fn am_root(place: &Place) -> bool {
    fs::metadata(place.path("tree")).unwrap().uid() == 0
}

#[test]
fn all_mode_bits_of_files_and_directories_come_back() {
    let place = tree();
    fs::set_permissions(place.path("tree"), Permissions::from_mode(0o710)).unwrap();
    place.good(["put", "tree", "d"]);
    let keys = place.keys("d");
    assert!(keys.contains(&"d/private".to_owned()) && !keys.contains(&"d/usual".to_owned()), "{keys:?}");
    let (got, code) = place.json(["get", "d", "out"]);
    assert_eq!((code, &got["modes_not_restored"], &got["owners_not_restored"]), (0, &json!(0), &json!(0)));
    for (name, wanted) in SOME_MODES {
        assert_eq!(mode(&place, &format!("out/{name}")), wanted, "{name}");
    }
    assert_eq!(mode(&place, "out"), 0o710);
    place.good(["check", "tree", "d"]);
    assert_eq!(place.json(["put", "tree", "d"]).0["written"], 0);
    assert_eq!(place.json(["get", "d", "out"]).0["read"], 0);
}

#[test]
fn a_mode_that_changed_is_put_and_got_again() {
    let place = tree();
    fs::set_permissions(place.path("tree/private"), Permissions::from_mode(0o755)).unwrap();
    place.good(["put", "tree", "d"]);
    place.good(["get", "d", "out"]);
    for (name, mode) in [("tree/private", 0o700), ("tree/usual", 0o751), ("tree/usual/file", 0o4600)] {
        fs::set_permissions(place.path(name), Permissions::from_mode(mode)).unwrap();
    }
    assert_eq!(place.json(["put", "tree", "d"]).0["written"], 3);
    place.good(["get", "d", "out"]);
    assert_eq!(
        [mode(&place, "out/private"), mode(&place, "out/usual"), mode(&place, "out/usual/file")],
        [0o700, 0o751, 0o4600]
    );
}

/// A file that is setuid for one user must not come back as setuid for another.
#[test]
fn owners_come_back_and_setuid_only_with_them() {
    let place = tree();
    if !am_root(&place) {
        let missing = Missing::new("root", "only root may give files to others");
        return skip("owners_come_back_and_setuid_only_with_them", &missing);
    }
    let other = 12_345;
    chown(place.path("tree/private/deep/setuid"), Some(other), Some(other)).unwrap();
    fs::set_permissions(place.path("tree/private/deep/setuid"), Permissions::from_mode(0o6755)).unwrap();
    chown(place.path("tree/usual"), Some(other), None).unwrap();
    place.good(["put", "tree", "d"]);
    place.good(["get", "d", "out"]);
    let restored = fs::metadata(place.path("out/private/deep/setuid")).unwrap();
    assert_eq!((restored.uid(), restored.gid(), restored.mode() & 0o7777), (other, other, 0o6755));
    assert_eq!(fs::metadata(place.path("out/usual")).unwrap().uid(), other);
    // Without the right to give files away.
    let program = env!("CARGO_BIN_EXE_terrace");
    let mut run = std::process::Command::new("setpriv");
    run.args(["--bounding-set", "-chown", "--inh-caps", "-chown", program, "get", "d", "less"]);
    let output = run.current_dir(place.path("")).env("TERRACE_STORE", place.path("store")).output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(words.contains("the owner of 2 files is not restored") && words.contains("1 lost setuid"), "{words}");
    assert_eq!(mode(&place, "less/private/deep/setuid"), 0o755);
}

/// A pipe was replaced by a file, and so was `/dev/null` for root. Only files and folders were at destinations before.
#[test]
fn a_pipe_at_the_destination_is_not_replaced() {
    let place = Place::new();
    place.write("file", "bytes");
    place.good(["put", "file", "d/pipe"]);
    fs::create_dir(place.path("out")).unwrap();
    assert!(Command::new("mkfifo").arg(place.path("out/pipe")).status().unwrap().success());
    for arguments in [["get", "d/pipe", "out/pipe"], ["get", "d", "out"]] {
        place.bad(arguments, &["a device, a pipe or a socket"]);
        assert!(!fs::symlink_metadata(place.path("out/pipe")).unwrap().is_file());
    }
}

#[test]
fn no_file_of_the_store_is_replaced() {
    let place = Place::new();
    place.write("tree/a", "stored");
    place.write("tree/store/terrace.toml", "not a configuration");
    place.good(["put", "tree", "t"]);
    std::os::unix::fs::symlink(place.path("tiers"), place.path("link")).unwrap();
    let before = fs::read(place.path("store/terrace.toml")).unwrap();
    for dest in ["store/terrace.toml", "tiers/disk/terrace-target", "link/disk/segments", "store", "link/disk/new"] {
        place.bad(["get", "t/a", dest], &["the store keeps its own files in"]);
        assert_eq!(place.run(["get", "t", dest]).code, 1, "{dest}");
    }
    // The tree holds a folder where the store is.
    let ran = place.run(["get", "t", "."]);
    assert!(ran.code == 1 && ran.err.contains("the store keeps its own files in"), "{}", ran.err);
    assert_eq!(fs::read(place.path("a")).unwrap(), b"stored");
    assert_eq!(fs::read(place.path("store/terrace.toml")).unwrap(), before);
    assert!(!place.path("tiers/disk/new").exists());
}

/// A link of an older tree, where the newer one has a folder, led to files elsewhere.
#[test]
fn no_link_leads_out_of_the_destination() {
    let place = Place::new();
    place.write("tree/latest/x", "stored");
    place.write("elsewhere/x", "not ours");
    place.good(["put", "tree", "t"]);
    fs::create_dir(place.path("out")).unwrap();
    std::os::unix::fs::symlink(place.path("elsewhere"), place.path("out/latest")).unwrap();
    place.bad(["get", "t", "out"], &["is a symbolic link, and is not followed"]);
    assert_eq!(fs::read(place.path("elsewhere/x")).unwrap(), b"not ours");
}

/// The help named symbolic links as the only exception.
#[test]
fn times_of_directories_with_objects_of_their_own_come_back_and_the_help_names_the_others() {
    let place = tree();
    let run = |words: &[&str]| {
        assert!(Command::new("touch").args(words).current_dir(place.path("")).status().unwrap().success())
    };
    fs::create_dir(place.path("tree/empty")).unwrap();
    for name in ["usual", "private", "empty"] {
        run(&["-d", "2001-01-01", &format!("tree/{name}")]);
    }
    place.good(["put", "tree", "d"]);
    place.good(["get", "d", "out"]);
    let time = |name: &str| fs::metadata(place.path(name)).unwrap().mtime();
    for name in ["private", "empty"] {
        assert_eq!(time(&format!("out/{name}")), time(&format!("tree/{name}")), "{name}");
    }
    assert!(time("out/usual") > time("tree/usual"));
    assert!(place.good(["get", "--help"]).contains("directories of mode 755 that hold files"));
}
