//! Stores that nobody configured.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::place::{Place, ran};

#[test]
fn an_empty_name_of_a_store_is_not_the_default_one() {
    let place = Place::new();
    place.bad(["--store", "", "ls"], &["--store names no directory"]);
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
