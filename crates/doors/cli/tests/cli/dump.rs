//! `terrace dump`, as far as it needs no MPI.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use terrace::Store;
use terrace_dump::transport::threads::Threads;
use terrace_dump::{Options, Wanted, dump, restore};

use crate::place::{Place, noise};

/// Bytes that the files below a folder take, holes not counted.
fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|e| if e.path().is_dir() { bytes_below(&e.path()) } else { e.metadata().unwrap().blocks() * 512 }).sum()
}

#[test]
fn old_dumps_are_shown_and_dropped() {
    let place = Place::new();
    let bytes = |round: u8| [noise(50_000, 7), vec![round; 30_000]].concat();
    let store = Store::open(&place.path("store")).unwrap();
    let alone = Threads::on(&[0]);
    for round in 0..3 {
        let done = alone.run(|world| dump(world, &store, "state", &[&bytes(round)], &Options::default()));
        assert!(done.iter().all(Result::is_ok), "{done:?}");
    }
    assert_eq!(place.good(["dump", "ls"]), "state: 0 1 2\n");
    let before = bytes_below(&place.path("tiers"));
    assert!(place.good(["dump", "gc", "--keep", "2"]).starts_with("state: 1 version with "));
    // Deleted packs took their space until a later write, and nothing was said of that: only counts of the catalog were looked at.
    let (dropped, _) = place.json(["dump", "gc", "state"]);
    assert_eq!(dropped["dropped"], serde_json::json!([1]));
    let (freed, after) = (dropped["freed"].as_u64().unwrap(), bytes_below(&place.path("tiers")));
    assert!(freed > 0 && after < before, "{dropped}: {before} bytes before, {after} after");
    assert_eq!(place.json(["dump", "ls"]).0, serde_json::json!({"dump": "state", "versions": [2]}));
    let restored = alone.run(|world| restore(world, &store, "state", None, Wanted::Dealt, 1 << 20));
    let whole = restored.into_iter().map(|restored| restored.unwrap().whole().unwrap());
    assert!(whole.into_iter().all(|ranks| ranks[&0] == [bytes(2)]));
    place.bad(["dump", "gc", "no/name"], &["\"no/name\" cannot be a dump's name"]);
    // A mistyped name was taken for a dump without old versions.
    place.bad(["dump", "gc", "stat", "--keep", "1"], &["this store has no dump \"stat\"; it has state"]);
    // The help said at least one, and 0 was taken for 1.
    assert_eq!(place.run(["dump", "gc", "state", "--keep", "0"]).code, 2);
}

/// A program ran without checkpoints and without a word.
#[test]
fn a_library_that_makes_no_checkpoints_is_refused() {
    let place = Place::new();
    let program = place.path("bin/terrace");
    fs::create_dir(place.path("bin")).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_terrace"), &program).unwrap();
    let run = || {
        let mut run = Command::new(&program);
        run.args(["dump", "run", "state", "--", "true"]).env("TERRACE_STORE", place.path("store"));
        String::from_utf8(run.output().unwrap().stderr).unwrap()
    };
    assert!(run().contains("libterrace_dump_run.so is neither in "), "{}", run());
    // Any other program or library.
    fs::copy("/proc/self/exe", place.path("bin/libterrace_dump_run.so")).unwrap();
    assert!(
        run().contains("libterrace_dump_run.so makes no checkpoints, because it was built without MPI"),
        "{}",
        run()
    );
}

/// The help of `dump` and `restore` named another program's help, which needs MPI to be shown. The flags have one definition now.
#[test]
fn the_flags_of_dumps_are_shown_and_looked_at_here() {
    let place = Place::empty();
    let help = place.good(["dump", "--help"]);
    for flag in
        ["gc", "--replicas", "--chunk", "--by-content", "--duplicates", "--window", "--version", "--static-partners"]
    {
        assert!(help.contains(flag), "{flag} is not in: {help}");
    }
    let help = place.good(["restore", "--help"]);
    assert!(help.contains("--partial") && help.contains("--version") && help.contains("{rank}"), "{help}");
    for wrong in [
        &["dump", "name", "file", "--replicas", "many"][..],
        // No later version could follow.
        &["dump", "name", "file", "--version", "4294967295"],
        &["restore", "name"],
        &["dump"],
    ] {
        assert_eq!(place.run(wrong).code, 2);
    }
    place.bad(["dump", "run", "state", "--", "true"], &["no store is here; `terrace init"]);
    // The ranks had begun MPI before a name was refused.
    for name in ["", "a/b", "../x"] {
        for command in [&["dump", "run", name, "--", "true"][..], &["dump", name, "file"], &["restore", name, "file"]] {
            let refused = place.run(command);
            assert!(refused.code == 2 && refused.err.contains("cannot be a dump's name"), "{}", refused.err);
        }
    }
}
