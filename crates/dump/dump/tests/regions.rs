//! Checkpoints of regions.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::Place;
use terrace_dump::regions::{checkpoint, restart};
use terrace_dump::transport::World;
use terrace_dump::transport::threads::Threads;
use terrace_dump::{Error, Options, Result};

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
            checkpoint(world, store, "run", &BTreeMap::from([(7, &field[..]), (1, &step[..])]), &options)?;
        }
        field.fill(0);
        let mut regions = BTreeMap::from([(7, &mut field[..]), (1, &mut step[..])]);
        assert_eq!(restart(world, store, "run", Some(0), &mut regions, window)?, 0);
        assert_eq!((field[5000], field[0], step[0]), (100, world.rank() as u8, 0));
        let mut regions = BTreeMap::from([(7, &mut field[..]), (1, &mut step[..])]);
        assert_eq!(restart(world, store, "run", None, &mut regions, window)?, 1);
        assert_eq!((field[5000], step[0]), (101, 1));
        // One rank has another region, so no rank changes any region.
        let mut short = vec![9; 10_000 - usize::from(world.rank() == 1)];
        let told =
            restart(world, store, "run", None, &mut BTreeMap::from([(7, &mut short[..]), (1, &mut step[..])]), window);
        assert!(matches!(told, Err(Error::Refused(_) | Error::Elsewhere { rank: 1, .. })));
        assert!(short.iter().all(|byte| *byte == 9));
        Ok(())
    });
    done.into_iter().for_each(|done| done.unwrap());
}
