//! Four nodes' stores, and a place to which versions flow.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::PathBuf;

use tempfile::TempDir;
use terrace::Store;
use terrace_dump::archive::{Archive, newest_version};
use terrace_dump::chunk::Chunking;
use terrace_dump::transport::World;
use terrace_dump::transport::threads::Threads;
use terrace_dump::{Flowed, Options, Restored, Result, Wanted, dump, flow, restore_whole};

use super::{CHUNK_BYTES, Place, buffers, files, slices};

pub const WINDOW_BYTES: usize = 5000;
/// Eight ranks on four nodes.
pub const RANK_NODES: [u32; 8] = [0, 0, 1, 1, 2, 2, 3, 3];

/// Four nodes' stores, and an archive.
pub struct Site {
    pub place: Place,
    pub stores: Vec<Store>,
    pub archive: TempDir,
    pub address: String,
    /// Options of its service.
    pub options: Vec<String>,
}

impl Site {
    pub fn new() -> Site {
        let archive = tempfile::tempdir().unwrap();
        let address = archive.path().display().to_string();
        let mut place = Place::new();
        Site { stores: place.stores(4), place, archive, address, options: Vec::new() }
    }

    pub fn lose_all_stores(&mut self) {
        self.stores = self.place.stores(4);
    }

    /// Calls `check` with the site as it is without the nodes' stores.
    pub fn without_stores(&mut self, check: impl FnOnce(&Site)) {
        let empty = self.place.stores(4);
        let kept = std::mem::replace(&mut self.stores, empty);
        check(self);
        self.stores = kept;
    }

    pub fn archive_of(&self, world: &dyn World) -> (&Store, Archive) {
        let store = &self.stores[world.node() as usize % self.stores.len()];
        (store, Archive::open(store, &self.address, &self.options).unwrap())
    }

    /// Dumps, and returns the version.
    pub fn dump(&self, round: u64) -> u32 {
        let made = Threads::on(&RANK_NODES).run(|world| {
            let (store, archive) = self.archive_of(world);
            let after = newest_version(world, Some(&archive), "state")?;
            let chunking = Chunking::Fixed(CHUNK_BYTES as u32);
            let options = Options { replicas: 2, chunking, window: WINDOW_BYTES, after, ..Options::default() };
            dump(world, store, "state", &slices(&buffers(world.rank(), round)), &options)
        });
        made.into_iter().collect::<Result<Vec<_>>>().unwrap()[0].version
    }

    pub fn try_flow(&self, nodes: &[u32], version: Option<u32>, keep: Option<u32>) -> Result<Flowed> {
        let done = Threads::on(nodes).run(|world| {
            let (store, archive) = self.archive_of(world);
            flow(world, store, "state", version, &archive, keep.and_then(NonZeroU32::new), WINDOW_BYTES)
        });
        let mut done = done.into_iter().collect::<Result<Vec<_>>>()?;
        assert!(done.iter().all(|one| *one == done[0]), "all ranks know the same: {done:?}");
        Ok(done.remove(0))
    }

    pub fn flow(&self, keep: Option<u32>) -> Flowed {
        self.try_flow(&RANK_NODES, None, keep).unwrap()
    }

    pub fn restored_on(&self, nodes: &[u32], version: Option<u32>) -> Vec<Result<Restored>> {
        Threads::on(nodes).run(|world| {
            let (store, archive) = self.archive_of(world);
            restore_whole(world, store, "state", version, Wanted::Dealt, WINDOW_BYTES, Some(&archive))
        })
    }

    /// Restores, compares with the buffers of a round, and returns the version and whether it came from the archive.
    pub fn restore(&self, nodes: &[u32], round: u64) -> (u32, bool) {
        let restored = self.restored_on(nodes, None).into_iter().collect::<Result<Vec<Restored>>>().unwrap();
        let found = (restored[0].version, restored[0].is_archived);
        let all: BTreeMap<u32, _> = restored.into_iter().flat_map(|one| one.whole().unwrap()).collect();
        let expected: BTreeMap<u32, _> = (0..8).map(|rank| (rank, buffers(rank, round))).collect();
        assert!(all == expected, "version {}", found.0);
        found
    }

    pub fn packs(&self) -> BTreeSet<PathBuf> {
        files(&self.archive.path().join("dumps/state/packs")).into_iter().collect()
    }
}

/// The bytes of the distinct chunks of all ranks.
pub fn distinct_bytes(round: u64) -> u64 {
    let chunks = (0..8).flat_map(|rank| buffers(rank, round));
    let chunks: BTreeSet<Vec<u8>> =
        chunks.flat_map(|buffer| buffer.chunks(CHUNK_BYTES).map(<[u8]>::to_vec).collect::<Vec<_>>()).collect();
    chunks.iter().map(|chunk| chunk.len() as u64).sum()
}

pub fn each_chunk_flows_once(mut site: Site) {
    assert_eq!(site.dump(0), 0);
    let first = site.flow(None);
    assert_eq!((first.version, first.sent, first.bytes), (0, first.packs, distinct_bytes(0)), "each chunk once");
    // Of a version that is there, nothing is sent, by any number of ranks.
    for nodes in [&RANK_NODES[..], &[0, 1, 2, 3]] {
        let again = site.try_flow(nodes, None, None).unwrap();
        assert_eq!((again.version, again.packs, again.sent), (0, first.packs, 0));
    }
    assert_eq!(site.dump(1), 1);
    let second = site.flow(None);
    // Each rank has two new chunks.
    assert_eq!((second.version, second.bytes), (1, 8 * 2 * CHUNK_BYTES as u64));
    assert_eq!(site.restore(&RANK_NODES, 1), (1, false), "the stores are nearer");
    site.lose_all_stores();
    for nodes in [&RANK_NODES[..], &[0, 1, 1], &[0; 11]] {
        assert_eq!(site.restore(nodes, 1), (1, true));
    }
    let named = site.restored_on(&RANK_NODES, Some(0));
    assert!(named.iter().all(|one| one.as_ref().unwrap().version == 0));
    // Otherwise new versions would be older than those that are there.
    assert_eq!(site.dump(2), 2);
    site.flow(None);
    site.lose_all_stores();
    assert_eq!(site.restore(&[0, 1], 2), (2, true));
}
