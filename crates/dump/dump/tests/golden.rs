//! Dumps in a golden store of an older version, which every later version must read. `make golden` writes missing
//! archives.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{CHUNK_BYTES, buffers, slices};
use terrace::{Config, Store};
use terrace_dump::chunk::Chunking;
use terrace_dump::transport::World;
use terrace_dump::transport::threads::Threads;
use terrace_dump::{Options, Wanted, dump, restore};
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

#[test]
fn both_versions_of_a_golden_dump_are_restored_also_from_one_store() {
    let archive = archive(env!("CARGO_MANIFEST_DIR"), "dump");
    if is_wanted(&archive) {
        write(tempfile::tempdir().unwrap().path(), &archive);
    }
    let dir = tempfile::tempdir().unwrap();
    unpack(&archive, dir.path());
    let stores = ["0", "1"].map(|node| {
        let node = dir.path().join(node);
        fs::write(node.join("store/terrace.toml"), config(&node).to_toml()).unwrap();
        Store::open(&node.join("store")).unwrap()
    });
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
