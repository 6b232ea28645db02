//! Copies of the log in buckets.

use std::fs;
use std::path::{Path, PathBuf};

use terrace::Store;
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
