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
