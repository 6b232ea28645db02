//! Successive dumps move only changed chunks; ranks die; old versions are dropped.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use common::{CHUNK_BYTES, Place, buffers, slices};
use terrace::Store;
use terrace_dump::chunk::Chunking;
use terrace_dump::transport::World;
use terrace_dump::transport::threads::Threads;
use terrace_dump::{Dumped, Error, Options, Result, Wanted, dump, gc, restore};

const WINDOW_BYTES: usize = 3000;

/// The buffers of each rank.
type Ranks = BTreeMap<u32, Vec<Vec<u8>>>;

fn dump_on(threads: &Threads, stores: &[&Store], replicas: u32, round: u64) -> Vec<Result<Dumped>> {
    let chunking = Chunking::Fixed(CHUNK_BYTES as u32);
    let options = Options { replicas, chunking, window: WINDOW_BYTES, ..Options::default() };
    threads.run(|world| {
        let buffers = buffers(world.rank(), round);
        dump(world, stores[world.node() as usize], "state", &slices(&buffers), &options)
    })
}

/// Restores a version. Returns its number and all buffers.
fn restored(nodes: &[u32], stores: &[&Store], version: Option<u32>) -> Result<(u32, Ranks)> {
    let restored = Threads::on(nodes)
        .run(|world| restore(world, stores[world.node() as usize], "state", version, Wanted::Dealt, WINDOW_BYTES));
    let (mut found, mut all) = (0, BTreeMap::new());
    for restored in restored {
        let restored = restored?;
        found = restored.version;
        all.extend(restored.whole()?);
    }
    Ok((found, all))
}

fn is_round(restored: &Ranks, round: u64) -> bool {
    restored.iter().all(|(rank, restored)| *restored == buffers(*rank, round))
}

#[test]
fn only_changed_chunks_move() {
    let nodes: Vec<u32> = (0..8).map(|rank| rank / 2).collect();
    let mut place = Place::new();
    let stores = place.stores(5);
    let all: Vec<&Store> = stores[..4].iter().collect();
    let threads = Threads::on(&nodes);
    let chunks = |done: Vec<Result<Dumped>>| {
        let done: Vec<Dumped> = done.into_iter().collect::<Result<_>>().unwrap();
        (done.iter().map(|done| done.stored).sum::<u64>(), done.iter().map(|done| done.chunks.sent).sum::<u64>())
    };
    let (first, _) = chunks(dump_on(&threads, &all, 3, 0));
    assert_eq!(chunks(dump_on(&threads, &all, 3, 0)), (0, 0), "nothing has changed");
    // Each rank gets two new chunks, three times.
    let (stored, sent) = chunks(dump_on(&threads, &all, 3, 1));
    assert_eq!(stored, 8 * 2 * 3 * CHUNK_BYTES as u64);
    assert!(sent < 8 * 2 * 2 * (CHUNK_BYTES as u64 + 64), "{sent} bytes sent");
    for (version, round) in [(0, 0), (1, 0), (2, 1)] {
        assert!(is_round(&restored(&nodes, &all, Some(version)).unwrap().1, round), "version {version}");
    }
    // A store is lost and replaced by an empty one: nothing is confirmed there, and everything is stored there again.
    let renewed = [all[0], all[1], &stores[4], all[3]];
    let (stored, _) = chunks(dump_on(&threads, &renewed, 3, 1));
    assert!(stored > first / 6 && stored < first, "{stored} bytes stored again of {first}");
    for left in 0..4 {
        // With three replicas on four nodes, any two nodes have everything.
        let left = [renewed[left], renewed[(left + 1) % 4]];
        assert!(is_round(&restored(&[0, 1], &left, Some(3)).unwrap().1, 1));
    }
}

#[test]
fn a_dump_in_which_a_rank_died_does_not_exist() {
    let nodes = [0, 0, 1, 2];
    let mut place = Place::new();
    let stores = place.stores(3);
    let all: Vec<&Store> = stores.iter().collect();
    let mut round = 0;
    dump_on(&Threads::on(&nodes), &all, 2, round).into_iter().for_each(|done| assert!(done.is_ok()));
    let (mut whole, mut none) = (0, 0);
    for victim in [0, 1, 3] {
        for call in (0..).step_by(3) {
            let done = dump_on(&Threads::on(&nodes).kill(victim, call), &all, 2, round + 1);
            let died = done.iter().filter(|done| matches!(done, Err(error) if error.is_transport())).count();
            let well = done.iter().filter(|done| done.is_ok()).count();
            assert_eq!(died + well, 4, "each has the dump or is told: {done:?}");
            let (_, restored) = restored(&nodes, &all, None).unwrap();
            // A failure before the last step leaves no version. In the last step, only some stores may have got the
            // record.
            let exists = is_round(&restored, round + 1);
            assert!(exists || is_round(&restored, round), "rank {victim} died at call {call}");
            assert!(exists || well == 0, "a dump that returned well exists");
            round += u64::from(exists);
            (whole, none) = if exists { (whole + 1, none) } else { (whole, none + 1) };
            if well == 4 {
                break;
            }
        }
    }
    assert!(none > 30 && whole >= 3, "{none} dumps died, {whole} did not");
    assert!(dump_on(&Threads::on(&nodes), &all, 2, round + 1).iter().all(Result::is_ok));
    assert!(is_round(&restored(&nodes, &all, None).unwrap().1, round + 1));
}

#[test]
fn the_next_dump_completes_a_version_record_in_all_stores() {
    let nodes = [0, 1, 2];
    let mut place = Place::new();
    let stores = place.stores(3);
    let all: Vec<&Store> = stores.iter().collect();
    let threads = Threads::on(&nodes);
    assert!(dump_on(&threads, &all, 2, 0).iter().all(Result::is_ok));
    // This is the state after a rank was killed in the last step.
    stores[1].remove(b"dumps/state/complete/0000000000").unwrap();
    stores[2].remove(b"dumps/state/complete/0000000000").unwrap();
    assert!(is_round(&restored(&nodes, &all, None).unwrap().1, 0));
    assert!(dump_on(&threads, &all, 2, 1).iter().all(Result::is_ok));
    assert!(all.iter().all(|store| gc::versions(store, "state").unwrap() == [0, 1]));
    // The next gc finishes one that was killed after its first step.
    stores[0].remove(b"dumps/state/complete/0000000000").unwrap();
    all.iter().for_each(|store| drop(gc::collect(store, "state", 1).unwrap()));
    assert!(all.iter().all(|store| store.list(b"dumps/state/index/0000000000", None, 9).unwrap().is_empty()));
    assert!(is_round(&restored(&nodes, &all, None).unwrap().1, 1));
}

/// A dump took the last number, and no dump of that name could follow.
#[test]
fn a_version_that_none_could_follow_is_refused() {
    let mut place = Place::new();
    let store = place.store();
    let make = |version: Option<u32>| {
        let options = Options { version, ..Options::default() };
        let done = Threads::on(&[0]).run(|world| dump(world, &store, "state", &[&[1; 100]], &options));
        done.into_iter().next().unwrap().map(|done| done.version).map_err(|error| error.to_string())
    };
    let refused = make(Some(u32::MAX)).unwrap_err();
    assert!(refused.contains("no version could follow version 4294967295; name one up to 4294967294"), "{refused}");
    assert_eq!(make(Some(u32::MAX - 2)), Ok(u32::MAX - 2));
    assert_eq!(make(None), Ok(u32::MAX - 1));
    assert!(make(None).unwrap_err().contains("there is no later version"));
}

#[test]
fn old_versions_are_dropped_and_shared_chunks_stay() {
    let nodes: Vec<u32> = (0..4).collect();
    let mut place = Place::new();
    let stores = place.stores(4);
    let all: Vec<&Store> = stores.iter().collect();
    let threads = Threads::on(&nodes);
    for round in [0, 6, 1, 1] {
        assert!(dump_on(&threads, &all, 2, round).iter().all(Result::is_ok));
    }
    for (keep, left) in [(3, &[(1, 6), (2, 1), (3, 1)][..]), (2, &[(2, 1), (3, 1)]), (0, &[(3, 1)])] {
        let mut dropped = 0;
        for store in &all {
            let one = gc::collect(store, "state", keep).unwrap();
            dropped += one.bytes;
            assert_eq!(one.versions.len(), 1);
            assert_eq!(gc::collect(store, "state", keep).unwrap(), gc::Dropped::default());
        }
        assert_eq!(dropped > 0, keep == 2, "only version 1 has what others have not");
        for (version, round) in left {
            assert!(
                is_round(&restored(&nodes, &all, Some(*version)).unwrap().1, *round),
                "version {version} of {left:?}"
            );
        }
        // Version 0 is gone.
        assert!(matches!(restored(&nodes, &all, Some(0)), Err(Error::NotFound { .. })));
    }
    // The remaining bytes are those of one version.
    let fresh = place.stores(4);
    let alone: Vec<&Store> = fresh.iter().collect();
    assert!(dump_on(&threads, &alone, 2, 1).iter().all(Result::is_ok));
    let bytes = |stores: &[&Store]| -> u64 {
        let packs = stores.iter().flat_map(|store| store.list(b"dumps/state/packs", None, 1000).unwrap());
        packs.map(|(_, object)| object.length).sum()
    };
    assert_eq!(bytes(&all), bytes(&alone), "packs that were mostly dead have been rewritten");
}

/// Returns a buffer that has no chunk of another rank or round.
fn changed(rank: u32, round: u32) -> Vec<u8> {
    (0..400).flat_map(|i| common::chunk(u64::from(rank) * 100_000 + u64::from(round) * 1000 + i)).collect()
}

/// Only `gc` on each node dropped versions: the stores of a job that dumped again and again became full.
#[test]
fn a_dump_that_keeps_some_versions_frees_the_space_of_the_others() {
    let nodes = [0, 0, 1, 2];
    let mut place = Place::new();
    let stores = place.stores(3);
    let all: Vec<&Store> = stores.iter().collect();
    let threads = Threads::on(&nodes);
    let options = Options { replicas: 2, keep: NonZeroU32::new(2), ..Options::default() };
    let used = || -> Vec<u64> { all.iter().map(|store| store.status().unwrap().tiers[0].used).collect() };
    let mut most = Vec::new();
    for round in 0..6 {
        let done = threads.run(|world| {
            let buffer = changed(world.rank(), round);
            dump(world, all[world.node() as usize], "state", &[&buffer], &options)
        });
        let done: Vec<Dumped> = done.into_iter().collect::<Result<_>>().unwrap();
        assert!(done.iter().all(|done| done.dropped == u32::from(round >= 2)), "{done:?}");
        assert_eq!(done.iter().any(|done| done.freed > 0), round >= 2, "{done:?}");
        assert_eq!(done[1].freed, 0, "it does not lead its node");
        let expected: Vec<u32> = (round.saturating_sub(1)..=round).collect();
        assert!(all.iter().all(|store| gc::versions(store, "state").unwrap() == expected));
        if round == 2 {
            most = used();
        }
    }
    assert!(used().iter().zip(&most).all(|(now, most)| *now <= most + 8192), "{:?} grew from {most:?}", used());
    for version in [4, 5] {
        let (_, ranks) = restored(&nodes, &all, Some(version)).unwrap();
        assert!(ranks.iter().all(|(rank, buffers)| buffers[0] == changed(*rank, version)), "version {version}");
    }
}
