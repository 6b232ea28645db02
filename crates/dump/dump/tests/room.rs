//! Stores that have room for one version more than stay.

#![allow(clippy::unwrap_used)]

use std::num::NonZeroU32;

use tempfile::TempDir;
use terrace::{Config, Store};
use terrace_dump::transport::World;
use terrace_dump::transport::threads::Threads;
use terrace_dump::{Dumped, Options, Result, Wanted, dump, gc, restore_whole};
use terrace_testkit::{SmallDisk, noise};

const NODE_OF_RANK: [u32; 4] = [0, 0, 1, 1];
/// Each node has all bytes of the four ranks. A disk has room for three versions.
const RANK_BYTES: usize = 1_000_000;
const DISK_OPTIONS: &str = "size=14m";
const WINDOW_BYTES: usize = 1 << 20;

/// Two nodes with small disks.
struct Small {
    stores: Vec<Store>,
    disks: Vec<SmallDisk>,
    dir: TempDir,
}

impl Small {
    /// None, with a counted skip, where this user may not mount.
    fn new(test: &str) -> Option<Small> {
        let mut small = Small { stores: Vec::new(), disks: Vec::new(), dir: tempfile::tempdir().unwrap() };
        for node in 0..2 {
            let at = small.dir.path().join(node.to_string());
            small.disks.push(SmallDisk::mount(test, &at, DISK_OPTIONS)?);
            small.stores.push(small.make_store(&format!("{node}/disk")));
        }
        Some(small)
    }

    fn make_store(&self, disk: &str) -> Store {
        let (disk, dir) = (self.dir.path().join(disk), self.dir.path().join(disk.replace('/', "-")));
        let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", disk.display());
        Store::init(&dir, &Config::parse(&text, "test").unwrap()).unwrap()
    }

    fn dump(&self, threads: &Threads, replicas: u32, keep: u32, round: u64) -> Vec<Result<Dumped>> {
        let options = Options { replicas, keep: NonZeroU32::new(keep), window: WINDOW_BYTES, ..Options::default() };
        let on = |world: &dyn World| dump(world, self.store(world), "state", &[&bytes(world.rank(), round)], &options);
        threads.run(|world| on(world))
    }

    fn store(&self, world: &dyn World) -> &Store {
        &self.stores[world.node() as usize]
    }

    /// Dumps on all ranks with success. Returns what the first rank is told.
    fn dump_well(&self, keep: u32, round: u64) -> Dumped {
        let done = self.dump(&Threads::on(&NODE_OF_RANK), 2, keep, round).into_iter().collect::<Result<Vec<_>>>();
        done.unwrap().swap_remove(0)
    }

    fn versions(&self) -> Vec<u32> {
        gc::versions(&self.stores[0], "state").unwrap()
    }

    /// Restores the newest version that is whole. Returns its number and its round.
    fn restored(&self) -> (u32, u64) {
        let restore = |world: &dyn World| {
            let restored =
                restore_whole(world, self.store(world), "state", None, Wanted::Dealt, WINDOW_BYTES, None).unwrap();
            let (version, mut buffers) = (restored.version, restored.whole().unwrap());
            let bytes = buffers.remove(&world.rank()).unwrap().swap_remove(0);
            (version, u64::from_le_bytes(bytes[..8].try_into().unwrap()), bytes)
        };
        let restored = Threads::on(&NODE_OF_RANK).run(|world| restore(world));
        for (rank, (_, round, bytes)) in (0..).zip(&restored) {
            assert!(*bytes == self::bytes(rank, *round), "rank {rank}");
        }
        (restored[0].0, restored[0].1)
    }
}

/// The bytes of a rank, which begin with the number of the round.
fn bytes(rank: u32, round: u64) -> Vec<u8> {
    let mut bytes = noise(RANK_BYTES, 20 * round + 2 * u64::from(rank));
    bytes[..8].copy_from_slice(&round.to_le_bytes());
    bytes
}

/// A dump that was killed before it dropped the oldest version, or that found it in use, let no further one find room.
#[test]
fn versions_that_are_too_many_are_dropped_from_a_full_store() {
    let Some(small) = Small::new("dumps to full stores") else { return };
    for round in 0..3 {
        small.dump_well(3, round);
    }
    assert_eq!(small.versions(), [0, 1, 2]);
    let done = small.dump_well(2, 3);
    assert_eq!((done.version, done.dropped, small.versions()), (3, 2, vec![2, 3]));
    assert_eq!(small.restored(), (3, 3));
    // With room, none is dropped before the dump is durable, and without `keep` never.
    assert_eq!(small.dump_well(2, 4).dropped, 1);
    small.dump_well(3, 5);
    let full = small.dump(&Threads::on(&NODE_OF_RANK), 2, 9, 6);
    assert!(full.iter().all(Result::is_err) && small.versions() == [3, 4, 5], "{full:?}");
    assert_eq!(small.restored(), (5, 5));
}

#[test]
fn the_only_version_that_is_whole_is_not_dropped_to_make_room() {
    let Some(mut small) = Small::new("dumps to full stores with losses") else { return };
    let threads = Threads::on(&NODE_OF_RANK);
    for (round, replicas) in [(0, 2), (1, 1), (2, 1)] {
        assert!(small.dump(&threads, replicas, 9, round).iter().all(Result::is_ok));
    }
    // The second node is lost, and with it half of two versions.
    small.stores[1] = small.make_store("another/disk");
    small.disks[0].fill_but(1 << 20);
    let full = small.dump(&threads, 2, 2, 3);
    assert!(full.iter().all(Result::is_err) && small.versions() == [0, 1, 2], "{full:?}");
    assert_eq!(small.restored(), (0, 0));
    small.disks[0].make_room();
    assert_eq!(small.dump_well(2, 3).version, 3);
    assert_eq!((small.restored(), small.versions()), ((3, 3), vec![2, 3]));
}

/// Ranks die at calls of a dump that makes room.
#[test]
fn a_rank_that_dies_while_room_is_made_leaves_a_whole_version() {
    let Some(small) = Small::new("killed dumps to full stores") else { return };
    let mut round = 0;
    for call in (0..).step_by(31) {
        while small.versions().len() < 3 {
            round += 1;
            small.dump_well(3, round);
        }
        let (before, _) = small.restored();
        let done = small.dump(&Threads::on(&NODE_OF_RANK).kill(2, call), 2, 1, round + 1);
        let well = done.iter().filter(|done| done.is_ok()).count();
        let (version, restored) = small.restored();
        let exists = version > before;
        assert_eq!(restored, round + u64::from(exists), "call {call}: {done:?}");
        round += u64::from(exists);
        if well == NODE_OF_RANK.len() {
            assert!(call > 50 && small.versions() == [version], "{call} calls");
            return;
        }
    }
}
