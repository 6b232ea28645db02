//! Notes of an interrupted action in the store's directory, as docs/format.md describes them. The tests write them into golden stores, where
//! the process that was interrupted would have left them.

use std::fs;
use std::path::Path;

use terrace::report::FindingCode;
use terrace::{Config, Store};
use terrace_testkit::golden::{archive, unpack};

use crate::{objects, plain, tiers_config, unlike};

/// A golden store in which an older version has left notes: names and texts of files in its directory.
fn with_notes(name: &str, config: &str, dir: &Path, notes: &[(&str, &str)]) {
    unpack(&archive(env!("CARGO_MANIFEST_DIR"), name), dir);
    fs::write(dir.join("store/terrace.toml"), Config::parse(config, name).unwrap().to_toml()).unwrap();
    for (note, text) in notes {
        fs::write(dir.join("store").join(note), text).unwrap();
    }
}

fn refused(dir: &Path) -> String {
    Store::open(&dir.join("store")).map(drop).unwrap_err().to_string()
}

#[test]
fn a_store_that_is_being_destroyed_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    with_notes("counts", &tiers_config(dir.path()), dir.path(), &[]);
    let identity = dir.path().join("store/store");
    let text = fs::read_to_string(&identity).unwrap();
    fs::write(&identity, format!("{text}destroyed\n")).unwrap();
    assert!(refused(dir.path()).contains("it is being destroyed"), "{}", refused(dir.path()));
}

#[test]
fn a_store_whose_salvage_was_stopped_is_rebuilt_from_a_whole_log_only() {
    for note in ["log 9 7\n", "catalog 9 7\n"] {
        let dir = tempfile::tempdir().unwrap();
        with_notes("counts", &tiers_config(dir.path()), dir.path(), &[("salvage", note)]);
        assert!(refused(dir.path()).contains("a salvage was stopped before its end"), "{}", refused(dir.path()));
        let store = Store::rebuild(&dir.path().join("store")).unwrap();
        unlike(&store);
        drop(store);
        assert!(!dir.path().join("store/salvage").exists());
    }
}

#[test]
fn notes_on_targets_are_understood_and_removed_once_they_are_dealt_with() {
    let dir = tempfile::tempdir().unwrap();
    with_notes("plain", &plain::config(dir.path()), dir.path(), &[]);
    let home = dir.path().join("store");
    let store = Store::open(&home).unwrap();
    store.close().unwrap();
    let names = ["a", "b"].map(|folder| dir.path().join(folder).join("files/runs/1/a"));
    let name = names.iter().find(|name| name.exists()).unwrap();
    fs::remove_file(name).unwrap();
    Store::open(&home).unwrap().close().unwrap();
    assert!(!name.exists(), "without a note, names are not compared again in this boot");
    let notes = ["names-due-1", "names-due-2", "sweep-due-1", "emptied-1"].map(|note| home.join(note));
    for note in &notes {
        fs::write(note, "").unwrap();
    }
    let store = Store::open(&home).unwrap();
    assert!(name.exists());
    store.sync().unwrap();
    assert!(objects(&store) == plain::contents());
    unlike(&store);
    store.close().unwrap();
    for note in &notes {
        assert!(!note.exists(), "{}", note.display());
    }
}

#[cfg(feature = "services-fs")]
#[test]
fn a_store_is_not_opened_while_a_target_is_noted_as_newer() {
    let dir = tempfile::tempdir().unwrap();
    // The numbers are in the configuration of every store that was opened once.
    let mut config = crate::bucket::config(dir.path());
    for (number, folder) in ["a", "bucket"].map(|name| dir.path().join(name).display().to_string()).iter().enumerate() {
        let numbered = format!("{{ path = '{folder}', number = {number} }}");
        config = config.replace(&format!("'{folder}'"), &numbered);
    }
    with_notes("bucket", &config, dir.path(), &[("newer-1", "")]);
    assert!(refused(dir.path()).contains("was used with a newer one"), "{}", refused(dir.path()));
    let store = Store::rebuild(&dir.path().join("store")).unwrap();
    assert!(!dir.path().join("store/newer-1").exists());
    assert!(objects(&store) == crate::bucket::contents());
}

#[cfg(feature = "services-fs")]
#[test]
fn a_copy_of_the_log_that_is_behind_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    with_notes("bucket", &crate::bucket::config(dir.path()), dir.path(), &[]);
    let store = Store::open(&dir.path().join("store")).unwrap();
    let is_behind = || store.health().unwrap().findings.iter().any(|one| one.code == FindingCode::LogCopyBehind);
    assert!(!is_behind());
    fs::write(dir.path().join("store/log-behind-1"), "").unwrap();
    assert!(is_behind());
}
