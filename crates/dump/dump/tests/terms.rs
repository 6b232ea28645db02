//! Ranks with different arguments.
//!
//! Once, the ranks' arguments were not compared. A rank that kept 3 replicas while the others kept 2 reported "on 3
//! nodes each", and the loss of one store lost bytes; a different version on one rank made a dump that no restore found
//! complete; different `duplicates` made the ranks wait for each other forever, and a different window ended MPI. The
//! tests passed one `Options` to all ranks, so none detected it.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::num::NonZeroU32;

use common::{CHUNK_BYTES, Place, buffers, slices};
use terrace::Store;
use terrace_dump::chunk::Chunking;
use terrace_dump::transport::World;
use terrace_dump::transport::threads::Threads;
use terrace_dump::{Difference, Duplicates, Error, Options, Result, Wanted, dump, gc, restore};

const NODE_OF_RANK: [u32; 4] = [0, 0, 1, 2];

/// The rank with other arguments.
const ODD_RANK: u32 = 2;

fn usual() -> Options {
    Options { replicas: 2, chunking: Chunking::Fixed(CHUNK_BYTES as u32), window: 3000, ..Options::default() }
}

fn dump_all(stores: &[Store], of: impl Fn(u32) -> Options + Sync) -> Vec<Result<()>> {
    Threads::on(&NODE_OF_RANK).run(|world| {
        let buffers = buffers(world.rank(), 0);
        dump(world, &stores[world.node() as usize], "state", &slices(&buffers), &of(world.rank())).map(drop)
    })
}

fn restore_all(stores: &[Store], of: impl Fn(u32) -> (&'static str, Option<u32>, usize) + Sync) -> Vec<Result<bool>> {
    Threads::on(&NODE_OF_RANK).run(|world| {
        let (name, version, window) = of(world.rank());
        let store = &stores[world.node() as usize];
        let restored = restore(world, store, name, version, Wanted::Dealt, window)?.whole()?;
        Ok(restored.into_iter().all(|(rank, restored)| restored == buffers(rank, 0)))
    })
}

/// Checks that all ranks report this option and the rank that differs.
fn assert_told<T: std::fmt::Debug>(told: &[Result<T>], option: &str) {
    for told in told {
        let Err(Error::Differ(differences)) = told else { panic!("{option}: {told:?}") };
        let [Difference { option: found, values }] = &differences[..] else { panic!("{option}: {differences:?}") };
        let ranks: Vec<&[u32]> = values.iter().map(|(_, ranks)| &ranks[..]).collect();
        assert_eq!((found.as_str(), &ranks[..]), (option, &[&[0, 1, 3][..], &[ODD_RANK]][..]));
    }
}

#[test]
fn a_dump_of_ranks_with_different_options_is_refused_by_all() {
    let mut place = Place::new();
    let stores = place.stores(3);
    let odd: [(&str, Options); 9] = [
        ("replicas", Options { replicas: 3, ..usual() }),
        ("chunk", Options { chunking: Chunking::Fixed(512), ..usual() }),
        ("chunk", Options { chunking: Chunking::Content(CHUNK_BYTES as u32), ..usual() }),
        ("duplicates", Options { duplicates: Duplicates::Local, ..usual() }),
        ("static partners", Options { by_load: false, ..usual() }),
        ("table", Options { table: 7, ..usual() }),
        ("window", Options { window: 5000, ..usual() }),
        ("version", Options { version: Some(1), ..usual() }),
        ("keep", Options { keep: NonZeroU32::new(2), ..usual() }),
    ];
    for (option, odd) in odd {
        assert_told(&dump_all(&stores, |rank| if rank == ODD_RANK { odd } else { usual() }), option);
    }
    assert!(stores.iter().all(|store| gc::versions(store, "state").unwrap().is_empty()));
    let named = Threads::on(&NODE_OF_RANK).run(|world| {
        let name = if world.rank() == ODD_RANK { "other" } else { "state" };
        dump(world, &stores[world.node() as usize], name, &[b"bytes"], &usual()).map(drop)
    });
    assert_told(&named, "dump");
    assert!(dump_all(&stores, |_| usual()).iter().all(Result::is_ok));
}

#[test]
fn a_restore_of_ranks_with_different_options_is_refused_by_all() {
    let mut place = Place::new();
    let stores = place.stores(3);
    assert!(dump_all(&stores, |_| usual()).iter().all(Result::is_ok));
    let odd =
        [("version", ("state", Some(0), 3000)), ("window", ("state", None, 4000)), ("dump", ("other", None, 3000))];
    for (option, odd) in odd {
        assert_told(&restore_all(&stores, |rank| if rank == ODD_RANK { odd } else { ("state", None, 3000) }), option);
    }
    assert!(restore_all(&stores, |_| ("state", None, 3000)).into_iter().all(|whole| whole.unwrap()));
    let both = Threads::on(&NODE_OF_RANK).run(|world| {
        let store = &stores[world.node() as usize];
        match world.rank() {
            ODD_RANK => restore(world, store, "state", None, Wanted::Dealt, 3000).map(drop),
            _ => dump(world, store, "state", &[b"bytes"], &usual()).map(drop),
        }
    });
    assert_told(&both, "call");
}

/// Once, a window of no bytes asked no rank for anything and reported everything as lost, and a window of a few bytes
/// took a round for every few bytes.
#[test]
fn a_window_that_no_chunk_fits_is_refused() {
    let mut place = Place::new();
    let stores = place.stores(3);
    for options in [
        Options { window: CHUNK_BYTES - 1, ..usual() },
        Options { window: 4 * CHUNK_BYTES - 1, chunking: Chunking::Content(CHUNK_BYTES as u32), ..usual() },
    ] {
        assert!(dump_all(&stores, |_| options).iter().all(|told| matches!(told, Err(Error::Refused(_)))));
    }
    assert!(dump_all(&stores, |_| Options { window: CHUNK_BYTES, ..usual() }).iter().all(Result::is_ok));
    let refused = restore_all(&stores, |_| ("state", None, 0));
    assert!(refused.iter().all(|told| matches!(told, Err(Error::Refused(_)))), "{refused:?}");
    assert!(restore_all(&stores, |_| ("state", None, CHUNK_BYTES)).into_iter().all(|whole| whole.unwrap()));
}
