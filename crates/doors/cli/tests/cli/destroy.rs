//! `terrace destroy`. A store that nobody needed any more could only be deleted by hand, and its tier in memory stayed behind.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::place::{Place, noise, ran};

/// All that there is below a folder.
fn all_below(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().map(Result::unwrap) {
            found.push(entry.path());
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// A store with objects as frames and as plain files.
fn filled() -> Place {
    let place = Place::new();
    let plain = place.path("tiers").join("plain");
    place.write(
        "add.toml",
        format!("[[tier]]\nname = 'plain'\nkind = 'directory'\nlayout = 'plain'\ntargets = [{plain:?}]\n"),
    );
    place.good(["tiers", "add", "add.toml"]);
    place.write("a", noise(600_000, 1));
    place.good(["put", "a", "d/e/a"]);
    place.good(["put", "a", "b", "--replicas", "3"]);
    place.good(["stage", "", "--tier", "plain"]);
    place.good(["sync"]);
    place
}

#[test]
fn a_store_goes_with_all_that_it_has_put_anywhere() {
    let place = filled();
    assert!(place.path("tiers/plain/files/d/e/a").exists());
    let before = (all_below(&place.path("store")), all_below(&place.path("tiers")));
    place.bad(["destroy"], &["2 objects", "nothing was changed", "terrace destroy --force"]);
    let words = place.good(["destroy", "--dry-run"]);
    assert!(words.contains("would be destroyed: 2 objects") && words.contains("of tier ram"), "{words}");
    place.good(["check", "a", "b"]);
    let after = (all_below(&place.path("store")), all_below(&place.path("tiers")));
    assert_eq!(before.1.len(), after.1.len(), "the refused and the dry one changed something");
    let words = place.good(["destroy", "--force"]);
    assert!(words.contains("is destroyed: 2 objects"), "{words}");
    assert!(!place.path("store").exists());
    assert_eq!(all_below(&place.path("tiers")), [] as [PathBuf; 0]);
    place.bad(["destroy"], &["no store is here"]);
}

#[test]
fn an_empty_store_goes_at_once_and_one_that_is_in_use_stays() {
    let place = filled();
    let store = terrace::Store::open(&place.path("store")).unwrap();
    place.bad(["destroy", "--force"], &["another process has the store open"]);
    drop(store);
    place.good(["check", "a", "b"]);
    place.good(["rm", "-r", "--all", ""]);
    let (destroyed, code) = place.json(["destroy"]);
    assert_eq!((code, &destroyed["objects"], &destroyed["kept"]), (0, &json!(0), &json!([])));
    assert!(!place.path("store").exists());
}

#[test]
fn what_others_put_there_stays_and_is_told_of() {
    let place = filled();
    let foreign =
        ["store/notes.txt", "tiers/plain/files/d/e/mine", "tiers/disk/README", "tiers/disk/segments/x"].map(|name| {
            place.write(name, "foreign");
            place.path(name)
        });
    let ran = place.run(["destroy", "--force"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for path in &foreign {
        assert_eq!(fs::read(path).unwrap(), b"foreign");
        assert!(ran.err.contains(&format!("kept, as it is not the store's: {}", path.display())), "{}", ran.err);
    }
    let files = |folder: &str| all_below(&place.path(folder)).into_iter().filter(|path| path.is_file()).count();
    assert_eq!((files("store"), files("tiers")), (1, 3));
}

#[test]
fn a_target_that_is_away_is_named_and_left_behind_by_force_only() {
    let place = filled();
    place.good(["rm", "-r", "--all", ""]);
    fs::rename(place.path("tiers/disk"), place.path("elsewhere")).unwrap();
    place.bad(["destroy"], &["tiers/disk", "is away", "--force"]);
    assert!(place.path("store").exists());
    let ran = place.run(["destroy", "--force"]);
    assert!(ran.code == 1 && ran.err.contains("left behind") && ran.err.contains("tiers/disk"), "{}", ran.err);
    assert!(!place.path("store").exists() && place.path("elsewhere").join("terrace-target").exists());
}

#[test]
fn a_store_that_cannot_be_opened_goes_by_force_only() {
    let place = filled();
    for log in ["store/log", "store/catalog", "tiers/disk/log", "tiers/plain/log"] {
        let _ = fs::remove_dir_all(place.path(log));
    }
    place.bad(["destroy"], &["cannot be counted", "commit log", "--force"]);
    place.good(["destroy", "--force"]);
    assert!(!place.path("store").exists());
    assert_eq!(all_below(&place.path("tiers")), [] as [PathBuf; 0]);
}

#[test]
fn one_that_was_killed_is_repeated_and_nobody_opens_what_is_left() {
    for point in ["destroy:begun", "destroy:target", "destroy:target@2", "destroy:own"] {
        let place = filled();
        let died = ran(place.command(["destroy", "--force"]).env("TERRACE_FAIL_POINT", point).output().unwrap());
        assert_ne!(died.code, 0, "{point} was not passed");
        place.bad(["ls"], &["it is being destroyed", "terrace destroy"]);
        place.bad(["rebuild"], &["it is being destroyed"]);
        place.good(["destroy"]);
        assert!(!place.path("store").exists(), "{point}");
        assert_eq!(all_below(&place.path("tiers")), [] as [PathBuf; 0], "{point}");
    }
}
