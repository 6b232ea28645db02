//! Dumps in a golden store of an older version, which every later version must read. `make golden` writes missing
//! archives.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use common::{CHUNK_BYTES, buffers, slices};
use terrace::{Config, Store};
use terrace_dump::archive::Archive;
use terrace_dump::chunk::Chunking;
use terrace_dump::regions::{Protected, Split, checkpoint, restart};
use terrace_dump::transport::World;
use terrace_dump::transport::threads::Threads;
use terrace_dump::{Options, Restored, Wanted, dump, flow, gc, restore, restore_whole};
use terrace_testkit::golden::{archive, is_wanted, pack, unpack};

const WINDOW_BYTES: usize = 3000;
const NODE_OF_EACH_RANK: [u32; 4] = [0, 0, 1, 1];

fn config(node: &Path) -> Config {
    let disk = node.join("disk");
    let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", disk.display());
    Config::parse(&text, "golden").unwrap()
}

/// Dumps twice with four ranks on two nodes.
fn write(dir: &Path, archive: &Path) {
    let node = |node: &str| Store::init(&dir.join(node).join("store"), &config(&dir.join(node))).unwrap();
    let stores = ["0", "1"].map(node);
    let options = Options {
        replicas: 2,
        chunking: Chunking::Fixed(CHUNK_BYTES as u32),
        window: WINDOW_BYTES,
        ..Options::default()
    };
    for round in 0..2 {
        let dumped = Threads::on(&NODE_OF_EACH_RANK).run(|world| {
            let buffers = buffers(world.rank(), round);
            dump(world, &stores[world.node() as usize], "state", &slices(&buffers), &options)
        });
        for dumped in dumped {
            dumped.unwrap();
        }
    }
    stores.into_iter().for_each(|store| store.close().unwrap());
    pack(dir, archive);
}

const ARRAY_BYTES: usize = 1000;

/// Protects a region that is the same on all ranks, and a part of an array that all share.
fn regions<'b>(rank: u32, ranks: u32, step: &'b [u8], array: &'b [u8]) -> BTreeMap<u32, Protected<&'b [u8]>> {
    let part = part_of(rank, ranks);
    BTreeMap::from([
        (1, Protected { split: Split::Same, bytes: step }),
        (2, Protected { split: Split::Part { start: part.start as u64 }, bytes: &array[part] }),
    ])
}

fn part_of(rank: u32, ranks: u32) -> Range<usize> {
    let cut = |rank: u32| ARRAY_BYTES * rank as usize / ranks as usize;
    cut(rank)..cut(rank + 1)
}

fn array() -> Vec<u8> {
    (0..ARRAY_BYTES).map(|at| (at % 241) as u8).collect()
}

/// Makes a checkpoint of regions that four ranks on two nodes share, and one of a region that each has for itself.
fn write_regions(dir: &Path, archive: &Path) {
    let node = |node: &str| Store::init(&dir.join(node).join("store"), &config(&dir.join(node))).unwrap();
    let stores = ["0", "1"].map(node);
    let options = Options { replicas: 2, window: WINDOW_BYTES * 2, ..Options::default() };
    let made = Threads::on(&NODE_OF_EACH_RANK).run(|world| {
        let (store, array) = (&stores[world.node() as usize], array());
        checkpoint(world, store, "shared", &regions(world.rank(), 4, b"a step", &array), &options)?;
        let own = [world.rank() as u8; 300];
        checkpoint(world, store, "own", &BTreeMap::from([(5, Protected::own(&own[..]))]), &options)
    });
    assert!(made.iter().all(Result::is_ok));
    stores.into_iter().for_each(|store| store.close().unwrap());
    pack(dir, archive);
}

#[test]
fn golden_checkpoints_of_regions_are_restored_also_by_other_numbers_of_ranks() {
    let archive = archive(env!("CARGO_MANIFEST_DIR"), "regions");
    if is_wanted(&archive) {
        write_regions(tempfile::tempdir().unwrap().path(), &archive);
    }
    let dir = tempfile::tempdir().unwrap();
    let stores = unpacked(&archive, dir.path());
    for nodes in [&NODE_OF_EACH_RANK[..], &[0, 1], &[0, 0, 0, 1, 1]] {
        let size = nodes.len() as u32;
        let restored = Threads::on(nodes).run(|world| {
            let store = &stores[world.node() as usize];
            let part = part_of(world.rank(), size);
            let (mut step, mut bytes) = ([0; 6], vec![0; part.len()]);
            let mut regions = BTreeMap::from([
                (1, Protected { split: Split::Same, bytes: &mut step[..] }),
                (2, Protected { split: Split::Part { start: part.start as u64 }, bytes: &mut bytes[..] }),
            ]);
            restart(world, store, "shared", None, &mut regions, WINDOW_BYTES, None)?;
            assert!(&step == b"a step" && bytes == array()[part]);
            let mut own = [0; 300];
            let told = restart(
                world,
                store,
                "own",
                None,
                &mut BTreeMap::from([(5, Protected::own(&mut own[..]))]),
                WINDOW_BYTES,
                None,
            );
            assert_eq!((told.is_ok(), own), (size == 4, [if size == 4 { world.rank() as u8 } else { 0 }; 300]));
            Ok::<_, terrace_dump::Error>(())
        });
        restored.into_iter().for_each(|restored| restored.unwrap());
    }
}

/// Unpacks the stores of two nodes, and opens them.
fn unpacked(archive: &Path, dir: &Path) -> [Store; 2] {
    unpack(archive, dir);
    ["0", "1"].map(|node| {
        let node = dir.join(node);
        fs::write(node.join("store/terrace.toml"), config(&node).to_toml()).unwrap();
        Store::open(&node.join("store")).unwrap()
    })
}

#[test]
fn both_versions_of_a_golden_dump_are_restored_also_from_one_store() {
    let archive = archive(env!("CARGO_MANIFEST_DIR"), "dump");
    if is_wanted(&archive) {
        write(tempfile::tempdir().unwrap().path(), &archive);
    }
    let dir = tempfile::tempdir().unwrap();
    let stores = unpacked(&archive, dir.path());
    for (version, round) in [(Some(0), 0), (Some(1), 1), (None, 1)] {
        for nodes in [NODE_OF_EACH_RANK, [0; 4]] {
            let restored = Threads::on(&nodes).run(|world| {
                restore(world, &stores[world.node() as usize], "state", version, Wanted::Dealt, WINDOW_BYTES)
            });
            let mut ranks = 0;
            for restored in restored {
                for (rank, found) in restored.unwrap().whole().unwrap() {
                    assert!(found == buffers(rank, round), "rank {rank}, version {version:?}");
                    ranks += 1;
                }
            }
            assert_eq!(ranks, NODE_OF_EACH_RANK.len());
        }
    }
}

/// Lets two versions of a dump flow to an archive, and leaves nothing else.
fn write_archive(dir: &Path, archive: &Path) {
    let address = dir.join("archive").display().to_string();
    fs::create_dir(&address).unwrap();
    let stores = ["0", "1"].map(|node| Store::init(&dir.join(node).join("store"), &config(&dir.join(node))).unwrap());
    for round in 0..2 {
        let flowed = Threads::on(&NODE_OF_EACH_RANK).run(|world| {
            let store = &stores[world.node() as usize];
            let chunking = Chunking::Fixed(CHUNK_BYTES as u32);
            let options = Options { replicas: 2, chunking, window: WINDOW_BYTES, ..Options::default() };
            dump(world, store, "state", &slices(&buffers(world.rank(), round)), &options)?;
            flow(world, store, "state", None, &Archive::open(store, &address, &[])?, None, WINDOW_BYTES)
        });
        assert!(flowed.iter().all(Result::is_ok), "{flowed:?}");
    }
    stores.into_iter().for_each(|store| store.close().unwrap());
    ["0", "1"].iter().for_each(|node| fs::remove_dir_all(dir.join(node)).unwrap());
    pack(dir, archive);
}

#[test]
fn both_versions_in_a_golden_archive_are_restored_without_the_stores() {
    let packed = archive(env!("CARGO_MANIFEST_DIR"), "archive");
    if is_wanted(&packed) {
        write_archive(tempfile::tempdir().unwrap().path(), &packed);
    }
    let dir = tempfile::tempdir().unwrap();
    unpack(&packed, dir.path());
    let address = dir.path().join("archive").display().to_string();
    let stores = ["0", "1"].map(|node| {
        let node = dir.path().join(node);
        Store::init(&node.join("store"), &config(&node)).unwrap()
    });
    for (version, round) in [(Some(0), 0), (Some(1), 1), (None, 1)] {
        let restored = Threads::on(&NODE_OF_EACH_RANK).run(|world| {
            let store = &stores[world.node() as usize];
            let archive = Archive::open(store, &address, &[])?;
            restore_whole(world, store, "state", version, Wanted::Dealt, WINDOW_BYTES, Some(&archive))
        });
        let restored: Vec<Restored> = restored.into_iter().map(Result::unwrap).collect();
        assert!(restored.iter().all(|one| one.is_archived));
        let all: BTreeMap<u32, _> = restored.into_iter().flat_map(|one| one.whole().unwrap()).collect();
        let expected: BTreeMap<u32, _> = (0..4).map(|rank| (rank, buffers(rank, round))).collect();
        assert!(all == expected, "version {version:?}");
    }
}

/// Dumps twice with two ranks, and drops the first version: the second one's chunks are in packs that were made again.
fn write_collected(dir: &Path, archive: &Path) {
    let stores = ["0", "1"].map(|node| Store::init(&dir.join(node).join("store"), &config(&dir.join(node))).unwrap());
    let chunking = Chunking::Fixed(CHUNK_BYTES as u32);
    let options = Options { replicas: 1, chunking, window: WINDOW_BYTES, ..Options::default() };
    for round in [30, 0] {
        let dumped = Threads::on(&[0, 1]).run(|world| {
            let buffers = buffers(world.rank(), round);
            dump(world, &stores[world.node() as usize], "state", &slices(&buffers), &options)
        });
        assert!(dumped.iter().all(Result::is_ok));
    }
    for store in stores {
        gc::collect(&store, "state", 1).unwrap();
        store.close().unwrap();
    }
    pack(dir, archive);
}

#[test]
fn a_golden_dump_whose_old_versions_were_dropped_is_restored() {
    let archive = archive(env!("CARGO_MANIFEST_DIR"), "collected");
    if is_wanted(&archive) {
        write_collected(tempfile::tempdir().unwrap().path(), &archive);
    }
    let dir = tempfile::tempdir().unwrap();
    let stores = unpacked(&archive, dir.path());
    for store in &stores {
        let packs = store.list(b"dumps/state/packs", None, 1000).unwrap();
        let is_packed_again = |key: &[u8]| key.windows(3).any(|bytes| bytes == b"/gc" || bytes == b"-gc");
        let names: Vec<String> = packs.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect();
        assert!(packs.iter().any(|(key, _)| is_packed_again(key)), "{names:?}");
        assert_eq!(gc::versions(store, "state").unwrap(), [1]);
    }
    let restored = Threads::on(&[0, 1])
        .run(|world| restore(world, &stores[world.node() as usize], "state", None, Wanted::Dealt, WINDOW_BYTES));
    let all: BTreeMap<u32, _> = restored.into_iter().flat_map(|one| one.unwrap().whole().unwrap()).collect();
    let expected: BTreeMap<u32, _> = (0..2).map(|rank| (rank, buffers(rank, 0))).collect();
    assert!(all == expected);
}
