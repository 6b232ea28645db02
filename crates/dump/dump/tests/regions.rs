//! Checkpoints of regions.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::Place;
use terrace_dump::regions::{CopiedRegions, Protected, Split, checkpoint, copy, restart};
use terrace_dump::transport::World;
use terrace_dump::transport::threads::Threads;
use terrace_dump::{Error, Options, Result};

fn own<B>(bytes: B) -> Protected<B> {
    Protected::own(bytes)
}

#[test]
fn restored_regions_equal_dumped_regions() {
    let mut place = Place::new();
    let stores = place.stores(3);
    let threads = Threads::on(&[0, 1, 2]);
    let window = 1 << 16;
    let options = Options { replicas: 2, ..Options::default() };
    let done: Vec<Result<()>> = threads.run(|world| {
        let store = &stores[world.node() as usize];
        let (mut field, mut step) = (vec![world.rank() as u8; 10_000], [0u8; 8]);
        for version in 0..2 {
            field[5000] = 100 + version;
            step[0] = version;
            checkpoint(world, store, "run", &BTreeMap::from([(7, own(&field[..])), (1, own(&step[..]))]), &options)?;
        }
        field.fill(0);
        let mut regions = BTreeMap::from([(7, own(&mut field[..])), (1, own(&mut step[..]))]);
        let restarted = restart(world, store, "run", Some(0), &mut regions, window, None)?;
        assert_eq!((restarted.version, restarted.is_archived), (0, false));
        assert_eq!((field[5000], field[0], step[0]), (100, world.rank() as u8, 0));
        let mut regions = BTreeMap::from([(7, own(&mut field[..])), (1, own(&mut step[..]))]);
        assert_eq!(restart(world, store, "run", None, &mut regions, window, None)?.version, 1);
        assert_eq!((field[5000], step[0]), (101, 1));
        // One rank has another region, so no rank changes any region.
        let mut short = vec![9; 10_000 - usize::from(world.rank() == 1)];
        let told = restart(
            world,
            store,
            "run",
            None,
            &mut BTreeMap::from([(7, own(&mut short[..])), (1, own(&mut step[..]))]),
            window,
            None,
        );
        assert!(matches!(told, Err(Error::Refused(_) | Error::Elsewhere { rank: 1, .. })));
        assert!(short.iter().all(|byte| *byte == 9));
        Ok(())
    });
    done.into_iter().for_each(|done| done.unwrap());
}

/// The checkpoint was made, and a restart gave some ranks the bytes of others.
#[test]
fn ranks_that_share_a_region_in_different_ways_are_told() {
    let mut place = Place::new();
    let stores = place.stores(1);
    let done = Threads::on(&[0, 0, 0]).run(|world| {
        let split = if world.rank() == 1 { Split::Part { start: 100 } } else { Split::Same };
        let bytes = [world.rank() as u8; 100];
        let mut regions = BTreeMap::from([(4, Protected { split, bytes: &bytes[..] })]);
        // A region that others do not have may be shared in any way.
        regions.insert(10 + world.rank(), own(&b"own"[..]));
        checkpoint(world, &stores[0], "state", &regions, &Options::default())
    });
    for refused in done {
        let refused = refused.unwrap_err().to_string();
        let words = "region 4 is the same on all ranks on rank 0, and parts of an array on rank 1; protect it alike";
        assert!(refused.contains(words), "{refused}");
    }
}

/// A restart gave new ranks the bytes of any rank.
#[test]
fn regions_that_are_said_to_be_the_same_and_are_not_are_refused() {
    let mut place = Place::new();
    let stores = place.stores(1);
    let checkpoints = Threads::on(&[0, 0, 0]).run(|world| {
        let differing = [u8::from(world.rank() == 2); 8];
        let same = |bytes| BTreeMap::from([(4, Protected { split: Split::Same, bytes })]);
        let refused = checkpoint(world, &stores[0], "state", &same(&differing[..]), &Options::default());
        (refused.unwrap_err().to_string(), checkpoint(world, &stores[0], "state", &same(&[7; 8]), &Options::default()))
    });
    for (refused, made) in checkpoints {
        let words = "region 4 is the same on all ranks, and has other bytes on rank 2 than on rank 0";
        assert!(refused.contains(words), "{refused}");
        assert_eq!(made.unwrap().version, 0);
    }
}

#[test]
fn a_copy_uses_the_memory_of_an_earlier_one() {
    let copied = |bytes: &[u8], spare| copy(&BTreeMap::from([(1, own(bytes))]), spare).unwrap();
    let first = copied(&[7; 1000], CopiedRegions::new());
    let place = first[&1].bytes.as_ptr();
    let shorter = copied(&[9; 10], first);
    assert!(shorter[&1].bytes == [9; 10] && shorter[&1].bytes.as_ptr() == place);
    assert_eq!(copied(&[8; 2000], shorter)[&1].bytes, [8; 2000]);
}

const ARRAY_BYTES: usize = 100_003;

/// Makes the array that all ranks share.
fn array() -> Vec<u8> {
    (0..ARRAY_BYTES).map(|at| (at / 251 + at % 251) as u8).collect()
}

/// Returns the first byte of a rank's part, and its length, if there are this many ranks.
fn part_of(rank: u32, ranks: u32) -> (usize, usize) {
    let cut = |rank: u32| ARRAY_BYTES * rank as usize / ranks as usize;
    (cut(rank), cut(rank + 1) - cut(rank))
}

/// Only as many ranks as dumped could restart.
#[test]
fn other_numbers_of_ranks_restart_with_other_parts() {
    let mut place = Place::new();
    let stores = place.stores(4);
    let nodes = [0, 0, 1, 1, 2, 3];
    let options = Options { replicas: 2, ..Options::default() };
    let done = Threads::on(&nodes).run(|world| {
        let (start, length) = part_of(world.rank(), world.size());
        let (array, step) = (array(), [7; 8]);
        let part = Protected { split: Split::Part { start: start as u64 }, bytes: &array[start..start + length] };
        let step = Protected { split: Split::Same, bytes: &step[..] };
        checkpoint(world, &stores[world.node() as usize], "run", &BTreeMap::from([(1, part), (2, step)]), &options)
    });
    assert!(done.iter().all(Result::is_ok));
    // The store of node 2 is lost, and its rank's part with it.
    let left = [&stores[0], &stores[1], &stores[3]];
    for nodes in [&[0, 1, 2][..], &[0, 0, 1, 1, 2, 2], &[0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2]] {
        let size = nodes.len() as u32;
        let done: Vec<Result<()>> = Threads::on(nodes).run(|world| {
            let (start, length) = part_of(world.rank(), size);
            let (mut part, mut step) = (vec![0; length], [0; 8]);
            let mut regions = BTreeMap::from([
                (1, Protected { split: Split::Part { start: start as u64 }, bytes: &mut part[..] }),
                (2, Protected { split: Split::Same, bytes: &mut step[..] }),
            ]);
            // A small window causes several rounds.
            restart(world, left[world.node() as usize], "run", None, &mut regions, 20_000, None)?;
            assert!(part == array()[start..start + length] && step == [7; 8], "rank {} of {size}", world.rank());
            Ok(())
        });
        done.into_iter().for_each(|done| done.unwrap());
    }
    // One rank protects bytes that nobody dumped, so no rank's memory changes.
    let told = Threads::on(&[0, 1, 2]).run(|world| {
        let (mut part, mut step) = (vec![9; 1000], [9; 8]);
        let start = if world.rank() == 1 { ARRAY_BYTES as u64 - 999 } else { 0 };
        let mut regions = BTreeMap::from([
            (1, Protected { split: Split::Part { start }, bytes: &mut part[..] }),
            (2, Protected { split: Split::Same, bytes: &mut step[..] }),
        ]);
        let told = restart(world, left[world.node() as usize], "run", None, &mut regions, 1 << 16, None);
        assert!(part == [9; 1000] && step == [9; 8]);
        told.map_err(|error| error.to_string())
    });
    let words = "rank 1 protects bytes 99004..100004 of region 1, and the checkpoint has none at 100003";
    assert!(told.iter().all(|told| told.as_ref().is_err_and(|told| told.contains(words))), "{told:?}");
}
