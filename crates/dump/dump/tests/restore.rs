//! Dumps are restored after the loss of any `replicas - 1` stores; after more losses, the lost ranges are reported
//! exactly.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use common::{CHUNK_BYTES, Place, buffers, files, sets, slices};
use terrace::Store;
use terrace_dump::chunk::Chunking;
use terrace_dump::transport::World;
use terrace_dump::transport::threads::Threads;
use terrace_dump::{Dumped, Error, Lost, Options, Restored, Result, Wanted, dump, restore, restore_whole};

const WINDOW_BYTES: usize = 5000;

fn options(replicas: u32) -> Options {
    Options { replicas, chunking: Chunking::Fixed(CHUNK_BYTES as u32), window: WINDOW_BYTES, ..Options::default() }
}

fn dump_all(nodes: &[u32], stores: &[Store], replicas: u32, round: u64) -> Vec<Dumped> {
    let done = Threads::on(nodes).run(|world| {
        let buffers = buffers(world.rank(), round);
        dump(world, &stores[world.node() as usize], "state", &slices(&buffers), &options(replicas))
    });
    done.into_iter().collect::<Result<_>>().unwrap()
}

fn restore_all(nodes: &[u32], stores: &[&Store]) -> Vec<Result<Restored>> {
    Threads::on(nodes)
        .run(|world| restore(world, stores[world.node() as usize], "state", None, Wanted::Dealt, WINDOW_BYTES))
}

/// Merges the buffers that ranks have restored.
fn whole(restored: Vec<Result<Restored>>) -> BTreeMap<u32, Vec<Vec<u8>>> {
    restored.into_iter().flat_map(|one| one.unwrap().whole().unwrap()).collect()
}

fn expected(ranks: u32, round: u64) -> BTreeMap<u32, Vec<Vec<u8>>> {
    (0..ranks).map(|rank| (rank, buffers(rank, round))).collect()
}

/// A restore failed although an older version was whole, and a job that restarts by itself does not name one.
#[test]
fn the_newest_version_that_is_whole_is_restored() {
    let nodes: Vec<u32> = (0..4).collect();
    let mut place = Place::new();
    let stores = place.stores(5);
    // Chunks that the last two versions add are in one store each.
    for (round, replicas) in [(0, 1), (1, 2), (5, 1), (9, 1)] {
        dump_all(&nodes, &stores[..4], replicas, round);
    }
    let left: Vec<&Store> = [&stores[0], &stores[4], &stores[2], &stores[3]].to_vec();
    let restore_on = |nodes: &[u32], stores: &[&Store], version| {
        Threads::on(nodes).run(|world| {
            restore_whole(world, stores[world.node() as usize], "state", version, Wanted::Dealt, WINDOW_BYTES, None)
        })
    };
    let restored = restore_on(&nodes, &left, None);
    assert!(restored.iter().all(|one| one.as_ref().unwrap().version == 1));
    assert_eq!(whole(restored), expected(4, 1));
    for version in [2, 3] {
        let named = restore_on(&nodes, &left, Some(version));
        assert!(named.iter().all(Result::is_err) && named.iter().any(|one| matches!(one, Err(Error::Lost(_)))));
    }
    // With all stores it is the newest, and with one of them none is whole.
    let all: Vec<&Store> = stores[..4].iter().collect();
    assert_eq!(whole(restore_on(&nodes, &all, None)), expected(4, 9));
    let one = restore_on(&[0, 0], &all, None);
    let lost = one.iter().find_map(|one| if let Err(Error::Lost(lost)) = one { Some(lost) } else { None });
    let newest = restore_on(&[0, 0], &all, Some(3));
    let newest = newest.iter().find_map(|one| if let Err(Error::Lost(lost)) = one { Some(lost) } else { None });
    assert!(lost.is_some() && lost == newest, "the error tells of the newest");
}

#[test]
fn any_replicas_minus_one_stores_may_be_lost() {
    let nodes: Vec<u32> = (0..8).collect();
    let mut place = Place::new();
    let spare = place.stores(3);
    for replicas in 1..=4 {
        let stores = place.stores(8);
        let dumped = dump_all(&nodes, &stores, replicas, 0);
        assert!(dumped.iter().all(|done| done.copies == replicas && done.version == 0));
        for lost in (0..replicas as usize).flat_map(|count| sets(8, count)) {
            // Empty stores take the place of lost ones.
            let mut spare = spare.iter();
            let now = stores.iter().enumerate();
            let now: Vec<&Store> =
                now.map(|(i, s)| if lost.contains(&i) { spare.next().unwrap() } else { s }).collect();
            assert!(whole(restore_all(&nodes, &now)) == expected(8, 0), "{replicas} replicas, {lost:?} lost");
        }
    }
}

#[test]
fn fewer_and_more_ranks_restore_from_the_remaining_stores() {
    let mut place = Place::new();
    let stores = place.stores(4);
    dump_all(&[0, 0, 1, 1, 2, 2, 3, 3], &stores, 3, 0);
    for lost in sets(4, 2) {
        let left: Vec<&Store> = stores.iter().enumerate().filter(|(i, _)| !lost.contains(i)).map(|(_, s)| s).collect();
        for nodes in [&[0, 1][..], &[0, 1, 1], &[0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1]] {
            assert!(whole(restore_all(nodes, &left)) == expected(8, 0), "{lost:?} lost, {} ranks", nodes.len());
        }
    }
}

#[test]
fn replicas_count_nodes_not_ranks() {
    // Twelve ranks on three nodes: after the loss of any two, the third has everything.
    let nodes: Vec<u32> = (0..12).map(|rank| rank / 4).collect();
    let mut place = Place::new();
    let stores = place.stores(3);
    let dumped = dump_all(&nodes, &stores, 5, 0);
    assert!(dumped.iter().all(|done| done.copies == 3));
    for left in &stores {
        assert!(whole(restore_all(&[0], &[left])) == expected(12, 0));
    }
}

/// Returns whether a pack of these stores contains the bytes.
fn stands(packs: &[Vec<u8>], bytes: &[u8]) -> bool {
    packs.iter().any(|pack| pack.windows(bytes.len()).any(|window| window == bytes))
}

fn packs(stores: &[&Store]) -> Vec<Vec<u8>> {
    let of = |store: &&Store| {
        let keys = store.list(b"dumps/state/packs", None, 10_000).unwrap();
        keys.into_iter().map(|(key, _)| store.get(&key).unwrap()).collect::<Vec<_>>()
    };
    stores.iter().flat_map(of).collect()
}

#[test]
fn lost_ranges_are_reported_exactly() {
    let nodes: Vec<u32> = (0..8).collect();
    let mut place = Place::new();
    for replicas in 1..=3 {
        let stores = place.stores(8);
        dump_all(&nodes, &stores, replicas, 0);
        let mut losses = 0;
        for lost in sets(8, replicas as usize + 1).into_iter().step_by(5) {
            let left: Vec<&Store> = (0..8).filter(|i| !lost.contains(i)).map(|i| &stores[i]).collect();
            let packs = packs(&left);
            let nodes: Vec<u32> = (0..left.len() as u32).collect();
            for restored in restore_all(&nodes, &left) {
                let (restored, lost) = restored.unwrap().left();
                let of_rank =
                    |rank: &u32| lost.iter().filter(|range| range.rank == *rank).copied().collect::<Vec<Lost>>();
                for (rank, restored) in &restored {
                    let mut expected = Vec::new();
                    for (number, buffer) in (0..).zip(buffers(*rank, 0)) {
                        for (i, bytes) in buffer.chunks(CHUNK_BYTES).enumerate() {
                            let (start, end) = ((i * CHUNK_BYTES) as u64, (i * CHUNK_BYTES + bytes.len()) as u64);
                            if stands(&packs, bytes) {
                                continue;
                            }
                            match expected.last_mut() {
                                Some(Lost { buffer, end: last, .. }) if *buffer == number && *last == start => {
                                    *last = end
                                }
                                _ => expected.push(Lost { rank: *rank, buffer: number, start, end }),
                            }
                        }
                        let mut left = buffer.clone();
                        for range in expected.iter().filter(|range| range.buffer == number) {
                            left[range.start as usize..range.end as usize].fill(0);
                        }
                        // If all copies of its manifest are lost, the whole rank is lost.
                        if of_rank(rank) == expected {
                            assert!(restored[number as usize] == left);
                        }
                    }
                    let all = (0..).zip(buffers(*rank, 0)).filter(|(_, buffer)| !buffer.is_empty());
                    let all: Vec<Lost> =
                        all.map(|(buffer, b)| Lost { rank: *rank, buffer, start: 0, end: b.len() as u64 }).collect();
                    let told = of_rank(rank);
                    assert!(told == expected || told == all, "rank {rank}: {told:?} instead of {expected:?}");
                    losses += usize::from(!told.is_empty());
                }
            }
        }
        assert!(losses > 0, "with {} stores lost of {replicas} replicas something is lost", replicas + 1);
    }
}

#[test]
fn damaged_chunks_are_restored_from_other_stores() {
    let nodes: Vec<u32> = (0..4).collect();
    let mut place = Place::new();
    let stores = place.stores(4);
    dump_all(&nodes, &stores, 2, 0);
    // Damage every frame of one store, in the middle and at its ends.
    for file in files(&stores[2].dir().with_file_name("disk")) {
        let mut bytes = fs::read(&file).unwrap();
        bytes.iter_mut().skip(50).step_by(199).for_each(|byte| *byte ^= 0x55);
        fs::write(&file, bytes).unwrap();
    }
    let keys = stores[2].list(b"dumps/state/packs", None, 100).unwrap();
    assert!(keys.iter().all(|(key, _)| stores[2].get(key).is_err()), "all packs are damaged");
    let all: Vec<&Store> = stores.iter().collect();
    assert!(whole(restore_all(&nodes, &all)) == expected(4, 0));
}

#[test]
fn a_dump_that_has_returned_needs_no_volatile_tier() {
    let mut place = Place::new();
    let (stores, memory): (Vec<Store>, Vec<_>) = (0..3).map(|_| place.volatile()).unzip();
    dump_all(&[0, 1, 2], &stores, 2, 0);
    for file in memory.iter().flat_map(|dir| files(dir)) {
        fs::File::options().write(true).open(file).unwrap().set_len(0).unwrap();
    }
    let all: Vec<&Store> = stores.iter().collect();
    assert!(whole(restore_all(&[0, 1, 2], &all)) == expected(3, 0));
}

#[test]
fn chunks_beyond_the_table_bound_count_as_unique() {
    let nodes: Vec<u32> = (0..8).collect();
    let mut place = Place::new();
    for table in [0, 1, 9] {
        let stores = place.stores(8);
        let done = Threads::on(&nodes).run(|world| {
            let buffers = buffers(world.rank(), 0);
            let options = Options { table, ..options(3) };
            dump(world, &stores[world.node() as usize], "state", &slices(&buffers), &options)
        });
        assert!(done.iter().all(Result::is_ok));
        for lost in sets(8, 2).into_iter().step_by(3) {
            let left: Vec<&Store> = (0..8).filter(|store| !lost.contains(store)).map(|store| &stores[store]).collect();
            assert!(
                whole(restore_all(&[0, 1, 2, 3, 4, 5], &left)) == expected(8, 0),
                "table of {table}, {lost:?} lost"
            );
        }
    }
}

#[test]
fn missing_dumps_are_reported() {
    let mut place = Place::new();
    let stores = place.stores(2);
    let all: Vec<&Store> = stores.iter().collect();
    let told = restore_all(&[0, 1], &all);
    assert!(told.iter().all(|told| matches!(told, Err(Error::NotFound { .. }))));
    dump_all(&[0, 1], &stores, 2, 0);
    let beyond = Threads::on(&[0, 1]).run(|world| {
        let wanted = if world.rank() == 1 { Wanted::Of(&[7]) } else { Wanted::Dealt };
        restore(world, all[world.node() as usize], "state", None, wanted, WINDOW_BYTES).map(drop)
    });
    assert!(matches!(beyond[0], Err(Error::Elsewhere { rank: 1, .. })) && matches!(beyond[1], Err(Error::Refused(_))));
    // Two nodes share a store: their copies would be lost together.
    let shared = Threads::on(&[0, 1]).run(|world| dump(world, &stores[0], "state", &[b"bytes"], &options(2)).map(drop));
    assert!(shared.iter().all(|told| matches!(told, Err(Error::Refused(_)))));
}

#[test]
fn a_chunk_that_many_have_is_stored_once_for_each_replica() {
    let nodes: Vec<u32> = (0..8).collect();
    let mut place = Place::new();
    for (replicas, stores) in (1..=4).map(|replicas| (replicas, place.stores(8))) {
        let dumped = dump_all(&nodes, &stores, replicas, 0);
        let mut holders: BTreeMap<&[u8], BTreeSet<u32>> = BTreeMap::new();
        let all: Vec<Vec<Vec<u8>>> = (0..8).map(|rank| buffers(rank, 0)).collect();
        for (rank, buffers) in (0..).zip(&all) {
            for chunk in buffers.iter().flat_map(|buffer| buffer.chunks(CHUNK_BYTES)) {
                holders.entry(chunk).or_default().insert(rank);
            }
        }
        // The bound: each distinct chunk is stored once for each replica, and chunks of too few ranks are sent.
        let stored: u64 = holders.keys().map(|chunk| chunk.len() as u64 * u64::from(replicas)).sum();
        assert_eq!(dumped.iter().map(|done| done.stored).sum::<u64>(), stored);
        let missing = |(chunk, ranks): (&&[u8], &BTreeSet<u32>)| {
            chunk.len() as u64 * (replicas as u64).saturating_sub(ranks.len() as u64)
        };
        let least: u64 = holders.iter().map(missing).sum();
        let sent: u64 = dumped.iter().map(|done| done.chunks.sent).sum();
        let heads = sent - least;
        assert!(heads * 4 < least.max(2000), "{sent} bytes sent for {least}");
    }
}
