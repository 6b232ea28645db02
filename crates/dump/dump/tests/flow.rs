//! Versions flow to an archive, each chunk once, and are restored from there when the stores are lost.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use common::site::{RANK_NODES, Site, distinct_bytes, each_chunk_flows_once};
use common::{CHUNK_BYTES, buffers, files, slices};
use terrace::Locked;
use terrace_dump::archive::Archive;
use terrace_dump::chunk::Chunking;
use terrace_dump::transport::World;
use terrace_dump::transport::threads::Threads;
use terrace_dump::{Error, Options, Result, dump, gc};
use terrace_testkit::SmallDisk;

fn flip_a_byte(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(file, bytes).unwrap();
}

#[test]
fn each_chunk_flows_once_to_a_directory() {
    each_chunk_flows_once(Site::new());
}

#[test]
fn each_chunk_flows_once_to_a_service() {
    let mut site = Site::new();
    site.address = format!("fs://{}", site.address);
    each_chunk_flows_once(site);
}

/// A store that lost more than the manifests know is passed over chunk by chunk.
#[test]
fn a_version_flows_from_the_stores_that_are_left() {
    let mut site = Site::new();
    site.dump(0);
    site.stores[1] = site.place.store();
    let done = site.flow(None);
    assert_eq!(done.bytes, distinct_bytes(0));
    site.lose_all_stores();
    assert_eq!(site.restore(&RANK_NODES, 0), (0, true));
    // What is nowhere cannot flow, and the ranges are named.
    let mut site = Site::new();
    site.dump(0);
    (site.stores[1], site.stores[2]) = (site.place.store(), site.place.store());
    let lost = site.try_flow(&RANK_NODES, None, None);
    assert!(matches!(lost, Err(Error::Lost(_) | Error::Elsewhere { .. })), "{lost:?}");
    assert!(!site.archive.path().join("dumps/state/complete").exists());
}

#[test]
fn a_damaged_file_is_noticed_and_sent_again() {
    let mut site = Site::new();
    site.dump(0);
    site.flow(None);
    let before = site.packs();
    site.dump(9);
    site.flow(None);
    let new: Vec<PathBuf> = site.packs().difference(&before).cloned().collect();
    let state = site.archive.path().join("dumps/state");
    let is_third = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("3-");
    let of_rank = files(&state.join("ranks/0000000001")).into_iter().find(is_third).unwrap();
    let records = [of_rank, state.join("complete/0000000001")];
    for (number, file) in [new[0].clone()].into_iter().chain(records).enumerate() {
        flip_a_byte(&file);
        site.without_stores(|site| {
            assert_eq!(site.restore(&RANK_NODES, 0), (0, true), "{}: the version before is whole", file.display());
            let named = site.restored_on(&RANK_NODES, Some(1));
            assert!(named.iter().all(Result::is_err), "{named:?}");
        });
        let mended = site.flow(None);
        assert!(number > 0 || mended.sent == 1, "only the damaged pack is sent again: {mended:?}");
        site.without_stores(|site| assert_eq!(site.restore(&[0, 1], 9), (1, true)));
    }
}

/// Of packs that are there, a flow checks only the length. The guide said that all of a version was read back.
#[test]
fn a_pack_that_changed_in_place_is_mended_by_the_next_flow_of_the_version() {
    let mut site = Site::new();
    site.dump(0);
    site.flow(None);
    let pack = site.packs().pop_first().unwrap();
    flip_a_byte(&pack);
    site.dump(1);
    site.flow(None);
    site.without_stores(|site| assert!(site.restored_on(&RANK_NODES, Some(1)).iter().any(Result::is_err)));
    let mended = site.flow(None);
    assert_eq!((mended.version, mended.sent), (1, 1));
    site.lose_all_stores();
    assert_eq!(site.restore(&RANK_NODES, 1), (1, true));
}

/// A flow could not replace a directory, and failed again and again.
#[test]
fn a_directory_in_the_place_of_a_file_is_replaced() {
    let mut site = Site::new();
    site.dump(0);
    site.flow(None);
    let state = site.archive.path().join("dumps/state");
    let first = |folder: &str| {
        let mut found = files(&state.join(folder));
        found.retain(|file| !file.ends_with("stray"));
        found.remove(0)
    };
    for folder in ["packs", "ranks", "complete"] {
        for has_files in [false, true] {
            let place = first(folder);
            fs::remove_file(&place).unwrap();
            fs::create_dir(&place).unwrap();
            if has_files {
                fs::write(place.join("stray"), "a file of somebody").unwrap();
            }
            site.without_stores(|site| assert!(site.restored_on(&RANK_NODES, None).iter().all(Result::is_err)));
            site.flow(None);
            // A record that is made again has another name, since its chunks are in other packs.
            assert!(place.is_file() || folder == "ranks", "{}", place.display());
            site.without_stores(|site| assert_eq!(site.restore(&[0, 1], 0), (0, true)));
        }
    }
    let strays = || files(&state).into_iter().filter(|file| file.ends_with("stray")).count();
    assert_eq!(strays(), 3, "no file is deleted");
    site.dump(1);
    site.flow(Some(1));
    assert_eq!(site.packs().iter().filter(|file| file.ends_with("stray")).count(), 0, "as all that no version names");
}

#[test]
fn only_the_newest_versions_stay_if_so_asked() {
    let mut site = Site::new();
    for round in 0..5 {
        site.dump(round * 3);
        let done = site.flow(Some(2));
        assert_eq!(done.dropped, u32::from(round >= 2));
    }
    // Left by a kill, or by a flow that was never completed.
    let state = site.archive.path().join("dumps/state");
    let leftovers = ["packs/.0123.terrace-part", "packs/0123", "ranks/0000000077/0"];
    for left in leftovers {
        fs::create_dir_all(state.join(left).parent().unwrap()).unwrap();
        fs::write(state.join(left), "left").unwrap();
    }
    assert_eq!(site.flow(Some(2)).dropped, 0);
    let names = |folder: &str| -> Vec<String> {
        let found = files(&state.join(folder)).into_iter();
        let mut names: Vec<String> =
            found.map(|path| path.strip_prefix(&state).unwrap().display().to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(names("complete"), ["complete/0000000003", "complete/0000000004"]);
    assert_eq!(names("ranks").len(), 16);
    assert!(!leftovers.iter().any(|left| state.join(left).exists()), "{:?}", names("packs"));
    site.lose_all_stores();
    assert_eq!(site.restore(&RANK_NODES, 12), (4, true));
    assert!(site.restored_on(&RANK_NODES, Some(3)).iter().all(Result::is_ok));
    assert!(site.restored_on(&RANK_NODES, Some(2)).iter().all(|one| matches!(one, Err(Error::NotFound { .. }))));
}

/// Packs that a failed flow had sent were deleted only once a later version was whole, which could not be: the place stayed full. No test filled
/// a place.
#[test]
fn what_no_version_names_makes_room() {
    let mut site = Site::new();
    let Some(disk) = SmallDisk::mount("flows to a full place", site.archive.path(), "size=4m") else { return };
    for round in [0, 100] {
        site.dump(round);
        site.flow(None);
    }
    let state = site.archive.path().join("dumps/state");
    let whole = site.packs();
    // The second flow was interrupted before its last pack, and another one before its version was whole. They have left no room.
    fs::remove_file(state.join("complete/0000000001")).unwrap();
    let longest = whole.iter().max_by_key(|pack| pack.metadata().unwrap().len()).unwrap();
    assert!(longest.metadata().unwrap().len() > 40_000);
    fs::remove_file(longest).unwrap();
    disk.fill_but(32_000);
    fs::rename(disk.path().join("others"), state.join("packs/0123")).unwrap();
    fs::write(state.join("ranks/0000000001/0-0123"), "left").unwrap();
    let done = site.flow(None);
    assert_eq!((done.version, done.sent, site.packs()), (1, 1, whole), "what this version needs is not sent again");
    assert!(!state.join("ranks/0000000001/0-0123").exists());
    site.without_stores(|site| assert_eq!(site.restore(&RANK_NODES, 100), (1, true)));
    // Nothing more can be deleted.
    site.dump(200);
    disk.fill_but(32_000);
    let full = site.try_flow(&RANK_NODES, None, None).unwrap_err().to_string();
    assert!(full.contains("are free there"), "{full}");
    site.without_stores(|site| assert_eq!(site.restore(&RANK_NODES, 100), (1, true)));
    disk.make_room();
    site.flow(None);
    site.lose_all_stores();
    assert_eq!(site.restore(&RANK_NODES, 200), (2, true));
}

/// Two jobs with one name once deleted each other's packs, which were reported as whole.
#[test]
fn one_job_at_a_time_changes_a_dump_in_a_place() {
    let mut site = Site::new();
    site.dump(0);
    let claims = site.archive.path().join("dumps/state/claims");
    fs::create_dir_all(&claims).unwrap();
    let (work, end) = mpsc::channel::<()>();
    let other = thread::spawn({
        let file = claims.join("0123");
        move || {
            for renewal in 0.. {
                fs::write(&file, format!("process 1 on elsewhere, renewal {renewal}")).unwrap();
                if end.recv_timeout(Duration::from_millis(300)) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        }
    });
    while !claims.join("0123").exists() {
        thread::sleep(Duration::from_millis(10));
    }
    let refused = site.try_flow(&RANK_NODES, None, Some(1)).unwrap_err().to_string();
    assert!(
        refused.contains("another job, process 1 on elsewhere") && refused.contains("wait until that ends"),
        "{refused}"
    );
    assert!(!claims.with_file_name("packs").exists(), "nothing is sent");
    drop(work);
    other.join().unwrap();
    assert_eq!(files(&claims), [claims.join("0123")], "the refused job leaves nothing");
    fs::remove_file(claims.join("0123")).unwrap();
    site.flow(Some(1));
    assert!(!claims.exists(), "a flow that has ended leaves nothing");
    site.lose_all_stores();
    assert_eq!(site.restore(&RANK_NODES, 0), (0, true));
}

/// Each record was valid under any number.
#[test]
fn exchanged_versions_are_noticed() {
    let mut site = Site::new();
    for round in [0, 3] {
        site.dump(round);
        site.flow(None);
    }
    let complete = site.archive.path().join("dumps/state/complete");
    let [older, newer, aside] = ["0000000000", "0000000001", "aside"].map(|name| complete.join(name));
    for (from, to) in [(&older, &aside), (&newer, &older), (&aside, &newer)] {
        fs::rename(from, to).unwrap();
    }
    site.lose_all_stores();
    for restored in site.restored_on(&RANK_NODES, None) {
        let error = restored.unwrap_err().to_string();
        assert!(error.contains("is the record of version"), "{error}");
    }
}

/// A pack stays as long as one of its chunks is needed, so an archive would grow with each version.
#[test]
fn packs_that_are_mostly_garbage_are_not_used_again() {
    let site = Site::new();
    let live = |round: u64| -> Vec<u8> { (0..100).flat_map(|page| common::chunk(page + round * 30)).collect() };
    for round in 0..12 {
        let done = Threads::on(&RANK_NODES).run(|world| {
            let (store, _) = site.archive_of(world);
            let bytes = if world.rank() == 0 { live(round) } else { Vec::new() };
            let options = Options { chunking: Chunking::Fixed(CHUNK_BYTES as u32), ..Options::default() };
            dump(world, store, "state", &[&bytes], &options)
        });
        assert!(done.iter().all(Result::is_ok));
        site.flow(Some(1));
    }
    let kept: u64 = site.packs().iter().map(|pack| pack.metadata().unwrap().len()).sum();
    assert!(kept <= 2 * 100 * CHUNK_BYTES as u64, "{kept} bytes are kept of {}", 100 * CHUNK_BYTES);
}

#[test]
fn two_dumps_of_one_name_do_not_mix() {
    let mut site = Site::new();
    site.dump(0);
    site.flow(None);
    site.lose_all_stores();
    // Without the archive, a new job begins with version 0 again.
    let done = Threads::on(&RANK_NODES).run(|world| {
        let (store, _) = site.archive_of(world);
        dump(world, store, "state", &slices(&buffers(world.rank(), 3)), &Options::default())
    });
    assert!(done.iter().all(Result::is_ok));
    let refused = site.try_flow(&RANK_NODES, None, None).unwrap_err().to_string();
    assert!(refused.contains("is another one than that in the nodes' stores"), "{refused}");
    site.lose_all_stores();
    assert_eq!(site.restore(&RANK_NODES, 0), (0, true), "the first one is still there");
}

#[test]
fn an_archive_is_no_place_of_a_store_and_may_be_away() {
    let mut site = Site::new();
    let store = &site.stores[0];
    for own in [store.dir().join("x"), store.config().tiers[0].targets[0].path.clone()] {
        let refused = Archive::open(store, own.to_str().unwrap(), &[]).err().unwrap().to_string();
        assert!(refused.contains("keeps its own files in"), "{refused}");
    }
    let refused = Archive::open(store, "/tmp", &["region=x".into()]).err().unwrap().to_string();
    assert!(refused.contains("options are for services"), "{refused}");
    site.dump(0);
    // A file is where the directory of dumps should be.
    fs::write(site.archive.path().join("dumps"), "").unwrap();
    assert!(site.try_flow(&RANK_NODES, None, None).unwrap_err().to_string().contains("dumps/state"));
    assert_eq!(site.restore(&RANK_NODES, 0), (0, false), "the stores have it");
    site.lose_all_stores();
    assert!(site.restored_on(&RANK_NODES, None).iter().all(Result::is_err));
    assert!(site.stores.iter().all(|store| gc::versions(store, "state").unwrap().is_empty()));
}

/// Otherwise both would send the same chunks, and one could drop what the other has sent.
#[test]
fn one_job_at_a_time_lets_a_dump_flow() {
    let site = Site::new();
    site.dump(0);
    site.flow(None);
    let is_lock = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "flow");
    let lock = files(&site.stores[2].dir().join("dumps")).into_iter().find(is_lock).unwrap();
    let held = Locked::at_once(fs::File::open(lock).unwrap()).unwrap().unwrap();
    let refused = site.try_flow(&RANK_NODES, None, None).unwrap_err().to_string();
    assert!(refused.contains("another job copies dump \"state\""), "{refused}");
    drop(held);
    site.flow(None);
}
