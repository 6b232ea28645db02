//! The suite over directories and memory, decorated and not, and questions about directories only.

#[cfg(all(feature = "services-fs", feature = "services-redis"))]
mod object;

use std::time::Duration;

use super::frames::{append, bytes, read};
use super::*;
use crate::decorate::{Deadline, Faults, Limits, Throttle};
use crate::{DirectoryKind, DirectoryTarget, Making, MemoryKind, Place};

fn site(path: impl Into<PathBuf>, folder: tempfile::TempDir) -> Site {
    let stores = folder.path().join("stores");
    std::fs::create_dir(&stores).expect("a folder");
    Site { settings: TargetSettings::at(path), stores, guard: Box::new(folder) }
}

fn directory_in(root: &Path) -> Site {
    let folder = tempfile::tempdir_in(root).expect("a folder");
    site(folder.path().join("t"), folder)
}

fn directory() -> Site {
    directory_in(&std::env::temp_dir())
}

fn memory() -> Site {
    site("m", tempfile::tempdir().expect("a folder"))
}

fn throttle(target: Arc<dyn Target>, folder: &Path) -> Arc<dyn Target> {
    let rate = Some(10_000_000_000);
    let limits = Limits { read: rate, write: rate, ..Limits::default() };
    Arc::new(Throttle::new(target, limits, &folder.join("throttle")).expect("a throttle"))
}

fn limit(target: Arc<dyn Target>, _: &Path) -> Arc<dyn Target> {
    Arc::new(Deadline::new(target, Duration::from_secs(60)))
}

fn make_faulty(target: Arc<dyn Target>, _: &Path) -> Arc<dyn Target> {
    Arc::new(Faults::new(target))
}

#[test]
fn directories_on_disk() {
    check(&DirectoryKind, directory);
}

#[test]
fn directories_on_tmpfs() {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() {
        check(&DirectoryKind, || directory_in(shared));
    }
}

#[test]
fn a_directory_that_vanishes_while_it_is_used_and_comes_back() {
    let site = directory();
    let (here, elsewhere) = (site.settings.path.clone(), site.settings.path.with_extension("elsewhere"));
    check_outage(&DirectoryKind, site, |outage| match outage {
        Outage::Begins => std::fs::rename(&here, &elsewhere).expect("vanishes"),
        Outage::Ends => std::fs::rename(&elsewhere, &here).expect("comes back"),
    });
}

#[test]
fn targets_in_memory() {
    check(&MemoryKind, memory);
}

#[test]
fn throttled_targets() {
    check_decorated(&DirectoryKind, directory, throttle);
    check_decorated(&MemoryKind, memory, throttle);
}

#[test]
fn targets_with_a_deadline() {
    check_decorated(&DirectoryKind, directory, limit);
    check_decorated(&MemoryKind, memory, limit);
}

#[test]
fn targets_with_faults_that_are_not_set() {
    check_decorated(&DirectoryKind, directory, make_faulty);
    check_decorated(&MemoryKind, memory, make_faulty);
}

fn ids() -> Arc<dyn Ids> {
    Arc::new(Counter(AtomicU64::new(1)))
}

#[test]
fn a_directory_that_vanished_is_away_and_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let (here, elsewhere) = (folder.path().join("t"), folder.path().join("u"));
    let owner = TargetOwner { store: STORE_ID, number: 1, dir: folder.path().to_owned(), ids: ids() };
    let open = |making| DirectoryTarget::new(&here, &owner, CAPACITY_BYTES, making);
    let first = open(Making::Once);
    let place = append(&first, 1, 5000).expect("appends");
    drop(first);
    let target = open(Making::Never);
    assert!(read(&target, place, 1, 0, 5000).expect("reads") == bytes(1, 5000));
    std::fs::rename(&here, &elsewhere).expect("vanishes");
    let gone = |result: io::Result<Place>| assert_eq!(result.expect_err("away").kind(), io::ErrorKind::NotConnected);
    let absent = Place { segment: 77, ..place };
    gone(read(&target, absent, 1, 0, 10).map(|_| place));
    gone(append(&target, 2, 5000));
    std::fs::create_dir_all(here.join("segments")).expect("an empty disk is mounted");
    gone(append(&target, 2, 5000));
    std::fs::remove_dir_all(&here).and_then(|()| std::fs::rename(&elsewhere, &here)).expect("comes back");
    append(&target, 2, 5000).expect("appends");
    assert!(read(&target, place, 1, 0, 5000).expect("reads") == bytes(1, 5000));
}

/// A directory target, and the words that its processes count its bytes in.
fn counted_directory(folder: &Path) -> (DirectoryTarget, std::fs::File) {
    let owner = TargetOwner { store: STORE_ID, number: 1, dir: folder.to_owned(), ids: ids() };
    let target = DirectoryTarget::new(&folder.join("t"), &owner, 100 << 20, Making::Once);
    let words = std::fs::File::options().write(true).open(folder.join("used-1")).expect("words");
    (target, words)
}

/// Says that the target was measured at this time; 0: never.
fn note_measured(words: &std::fs::File, time: u64) {
    std::os::unix::fs::FileExt::write_all_at(words, &time.to_ne_bytes(), 8).expect("writes");
}

/// Writes looked at each segment of their target once in a second.
#[test]
fn a_write_to_a_directory_looks_at_no_other_segment() {
    let folder = tempfile::tempdir().expect("a folder");
    let (target, words) = counted_directory(folder.path());
    append(&target, 1, 5000).expect("appends");
    let before = target.used();
    std::fs::write(folder.path().join("t/segments/000000007fffffff"), vec![1; 1 << 20])
        .expect("a segment of another writer");
    note_measured(&words, 1);
    append(&target, 2, 5000).expect("appends");
    assert!(target.used() > before && target.used() < before + (1 << 20), "{before}, then {}", target.used());
    // What asks for the space, does.
    assert!(target.space().expect("space").used > before + (1 << 20));
}

#[test]
fn the_bytes_of_a_directory_are_counted_as_they_are_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let (target, words) = counted_directory(folder.path());
    let placed: Vec<Place> = (0..60).map(|n| append(&target, n, 100 << (n % 12)).expect("appends")).collect();
    let check = |after: &str| {
        let counted = target.used();
        note_measured(&words, 0);
        let measured = target.space().expect("space").used;
        // File systems allocate a few pages of their own.
        assert!(counted.abs_diff(measured) <= 64 << 10, "{counted} counted, {measured} measured after {after}");
        measured
    };
    let all = check("writing");
    target.free(&placed[10..50]).expect("frees");
    let less = check("freeing");
    assert!(less + (1 << 20) < all, "{less}");
    let segment = placed[0].segment;
    target.free(&placed).expect("frees");
    target.release(segment);
    assert!(target.discard(segment).expect("discards"));
    assert!(check("discarding") < 64 << 10);
}
