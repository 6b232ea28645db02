//! Checkpoints that are made while the program continues.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::thread;

use common::Place;
use terrace::Store;
use terrace_dump::background::Background;
use terrace_dump::regions::{CopiedRegions, Protected, borrow, checkpoint, copy, restart};
use terrace_dump::transport::World;
use terrace_dump::transport::threads::Threads;
use terrace_dump::{Error, Options, Result};

const NODE_OF_EACH_RANK: [u32; 4] = [0, 0, 1, 2];
const FIELD_BYTES: usize = 20_000;

/// Makes the bytes of a rank's field in a round.
fn field(rank: u32, round: u32) -> Vec<u8> {
    (0..FIELD_BYTES as u32).map(|at| (at / 7 * (rank + 1) + round * 31) as u8).collect()
}

/// Begins two checkpoints, and goes on changing the field. Returns the first failure of each rank, and the newest version that it
/// was told of.
fn begin_two(threads: &Threads, stores: &[Store]) -> Vec<(Option<Error>, Option<u32>)> {
    threads.run(|world| {
        let store = &stores[world.node() as usize];
        let background = Background::default();
        thread::scope(|scope| {
            scope.spawn(|| background.run());
            let mut changed = vec![0; FIELD_BYTES];
            for round in 0..2 {
                changed.copy_from_slice(&field(world.rank(), round));
                let copied = copy(&BTreeMap::from([(3, Protected::own(&changed[..]))]), CopiedRegions::new()).unwrap();
                background.begin(1, move || {
                    let options = Options { replicas: 2, ..Options::default() };
                    Ok(checkpoint(world, store, "run", &borrow(&copied), &options)?.version)
                });
                changed.fill(255);
            }
            let failed = background.wait().err();
            let newest = background.wait();
            background.close();
            (failed, newest.ok().flatten())
        })
    })
}

/// Restores the newest version on all ranks, and checks their fields.
fn restored(stores: &[Store]) -> Result<u32> {
    let told = Threads::on(&NODE_OF_EACH_RANK).run(|world| {
        let mut bytes = vec![0; FIELD_BYTES];
        let mut regions = BTreeMap::from([(3, Protected::own(&mut bytes[..]))]);
        let store = &stores[world.node() as usize];
        let version = restart(world, store, "run", None, &mut regions, 1 << 16, None)?.version;
        assert!(bytes == field(world.rank(), version), "rank {}, version {version}", world.rank());
        Ok(version)
    });
    let versions: Vec<u32> = told.into_iter().collect::<Result<_>>()?;
    assert!(versions.iter().all(|version| *version == versions[0]));
    Ok(versions[0])
}

#[test]
fn a_checkpoint_has_the_bytes_of_its_beginning() {
    let mut place = Place::new();
    let stores = place.stores(3);
    let told = begin_two(&Threads::on(&NODE_OF_EACH_RANK), &stores);
    assert!(told.iter().all(|(failed, _)| failed.is_none()), "{told:?}");
    assert_eq!(restored(&stores).unwrap(), 1);
}

/// A rank dies at many calls of the two dumps. Every rank is told, and no version that a rank was told of is lost.
#[test]
fn a_death_in_the_background_leaves_the_last_good_checkpoint() {
    let mut place = Place::new();
    let mut outcomes = BTreeMap::new();
    for call in (0..).step_by(7) {
        let stores = place.stores(3);
        let told = begin_two(&Threads::on(&NODE_OF_EACH_RANK).kill(1, call), &stores);
        if told.iter().all(|(failed, _)| failed.is_none()) {
            break;
        }
        assert!(told[1].0.is_some(), "rank 1 died at call {call}, and was not told");
        let newest = told.iter().filter_map(|(_, newest)| *newest).max();
        let left = match restored(&stores) {
            Ok(version) => Some(version),
            Err(Error::NotFound { .. }) => None,
            Err(error) => panic!("after call {call}: {error}"),
        };
        assert!(left >= newest, "call {call}: version {newest:?} was made, and {left:?} is left");
        *outcomes.entry(left).or_insert(0) += 1;
    }
    assert!(outcomes.contains_key(&None) && outcomes.contains_key(&Some(0)), "{outcomes:?}");
}
