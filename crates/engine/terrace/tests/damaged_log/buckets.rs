//! Copies of the log in buckets.

use std::fs;
use std::path::{Path, PathBuf};

use terrace::Store;
use terrace::report::FindingCode;
use terrace_testkit::noise;

use super::common::{replicated, store_of, tier};
use super::{contents, flip};

/// The copy in a bucket was whole, and `rebuild` did not look there: `--salvage`, which it advised, then put a new log in its place, and all names
/// were gone.
#[test]
fn a_log_that_only_a_bucket_has_is_taken_from_there() {
    const LOCAL_LOGS: [&str; 4] = ["store/log", "store/catalog", "disk/log", "disk/log-reach"];
    for (lost, salvage) in
        [(&["store/log", "store/catalog", "disk"][..], false), (&LOCAL_LOGS, false), (&LOCAL_LOGS, true)]
    {
        let dir = tempfile::tempdir().unwrap();
        let bucket = dir.path().join("bucket");
        let bucket =
            format!("[[tier]]\nname = 'bucket'\nkind = 'object'\nservice = 'fs'\ntargets = ['{}']\n", bucket.display());
        let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["disk"], ""), bucket]);
        for number in 0..9 {
            store.put_bytes(format!("{number}").as_bytes(), &noise(90_000, number), &replicated()).unwrap();
        }
        store.rename(b"8", b"renamed").unwrap();
        let home = store.dir().to_owned();
        store.close().unwrap();
        for path in lost.iter().map(|lost| dir.path().join(lost)) {
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        }

        assert!(Store::open(&home).is_err());
        let store = if salvage {
            let (store, salvaged) = Store::salvage(&home).unwrap();
            assert!(!salvaged.log_was_damaged && salvaged.objects == 0, "{salvaged:?}");
            store
        } else {
            Store::rebuild(&home).unwrap()
        };
        assert!(store.get(b"renamed").unwrap() == noise(90_000, 8));
        assert_eq!(store.list(b"", None, 20).unwrap().len(), 9);
        assert!(!home.join("service-copies").exists());
    }
}

/// It was called damaged, `repair` was said to write it again, and did not, and `health` spoke of damage after it was whole again.
#[test]
fn a_copy_of_the_log_in_a_full_bucket_is_behind_and_not_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = dir.path().join("bucket");
    let tiers =
        format!("[[tier]]\nname = 'bucket'\nkind = 'object'\nservice = 'fs'\ntargets = ['{}']\n", bucket.display());
    let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["disk"], ""), tiers]);
    store.put_bytes(b"a", &noise(9_000, 1), &replicated()).unwrap();
    store.sync().unwrap();
    // Nothing can be written below a file.
    fs::rename(bucket.join("log"), dir.path().join("log")).unwrap();
    fs::write(bucket.join("log"), "").unwrap();
    store.rename(b"a", b"b").unwrap();
    let codes = |store: &Store| store.health().unwrap().findings.iter().map(|found| found.code).collect::<Vec<_>>();
    for repair in [false, true] {
        let found = store.scrub(b"", repair, None, |_| {}).unwrap();
        assert_eq!((found.log_copies_damaged, found.log_copies_behind), (0, 1), "{repair}: {found:?}");
        let codes = codes(&store);
        assert!(codes.contains(&FindingCode::LogCopyBehind) && !codes.contains(&FindingCode::LogCopyDamaged));
    }
    fs::remove_file(bucket.join("log")).unwrap();
    fs::rename(dir.path().join("log"), bucket.join("log")).unwrap();
    let home = store.dir().to_owned();
    drop(store);
    let store = Store::open(&home).unwrap();
    store.sync().unwrap();
    let codes = codes(&store);
    assert!(!codes.contains(&FindingCode::LogCopyBehind) && !codes.contains(&FindingCode::LogCopyDamaged), "{codes:?}");
    let found = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((found.log_copies_damaged, found.log_copies_behind), (0, 0));
}

/// A flipped or missing piece of the copy in a bucket was found by nothing, until that copy was the last one.
#[test]
fn a_damaged_copy_of_the_log_in_a_bucket_is_found_and_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = dir.path().join("bucket");
    let tiers =
        format!("[[tier]]\nname = 'bucket'\nkind = 'object'\nservice = 'fs'\ntargets = ['{}']\n", bucket.display());
    let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["disk"], ""), tiers]);
    for number in 0..9 {
        store.put_bytes(format!("{number}").as_bytes(), &noise(9_000, number), &replicated()).unwrap();
        // Each sync adds a piece.
        store.sync().unwrap();
    }
    let home = store.dir().to_owned();
    let scrub = |repair| store.scrub(b"", repair, None, |_| {}).unwrap().log_copies_damaged;
    let pieces = || {
        let files = fs::read_dir(bucket.join("log")).unwrap().map(|entry| entry.unwrap().path());
        let mut pieces: Vec<PathBuf> =
            files.flat_map(|file| fs::read_dir(file).unwrap()).map(|entry| entry.unwrap().path()).collect();
        pieces.sort();
        pieces
    };
    assert_eq!(scrub(false), 0);
    let damages: [fn(&Path); 4] = [
        |piece| flip(piece, 50),
        |piece| fs::remove_file(piece).unwrap(),
        |piece| fs::write(piece, b"").unwrap(),
        |piece| fs::write(piece, &fs::read(piece).unwrap()[..60]).unwrap(),
    ];
    for (round, damage) in damages.iter().enumerate() {
        let all = pieces();
        damage(&all[if round % 2 == 0 { all.len() / 2 } else { all.len() - 1 }]);
        assert_eq!(scrub(false), 1, "{round}");
        assert_eq!(scrub(true), 0, "{round}");
        assert_eq!(scrub(false), 0, "{round}");
    }
    let all = contents(&store);
    store.close().unwrap();
    for lost in ["store/log", "store/catalog", "disk/log"] {
        fs::remove_dir_all(dir.path().join(lost)).unwrap();
    }
    assert_eq!(contents(&Store::rebuild(&home).unwrap()), all);
}
