//! Only one job at a time works on a dump of a name.
//!
//! Once, two jobs could dump the same name at once: each took the other's chunks for the remains of an earlier dump and
//! removed them. `gc` during a dump or a restore removed packs that were being read.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::num::NonZeroU32;
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use common::{CHUNK_BYTES, Place, buffers, slices};
use terrace::Store;
use terrace_dump::chunk::Chunking;
use terrace_dump::transport::threads::Threads;
use terrace_dump::transport::{Window, World};
use terrace_dump::{Dumped, Options, Restored, Result, Wanted, dump, gc, restore};

const WINDOW_BYTES: usize = 3000;

fn options() -> Options {
    Options { replicas: 2, chunking: Chunking::Fixed(CHUNK_BYTES as u32), window: WINDOW_BYTES, ..Options::default() }
}

fn dump_in(world: &dyn World, stores: &[Store], round: u64) -> Result<Dumped> {
    let buffers = buffers(world.rank(), round);
    dump(world, &stores[world.node() as usize], "state", &slices(&buffers), &options())
}

fn restore_in(world: &dyn World, stores: &[Store], version: Option<u32>) -> Result<Restored> {
    restore(world, &stores[world.node() as usize], "state", version, Wanted::Dealt, WINDOW_BYTES)
}

/// A gate at which ranks wait until it opens.
#[derive(Default)]
struct Gate {
    /// The number of waiting ranks, and whether the gate is open.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |(_, open)| !*open).unwrap());
    }

    fn wait_for(&self, ranks: usize) {
        drop(self.changed.wait_while(self.state.lock().unwrap(), |(waiting, _)| *waiting < ranks).unwrap());
    }

    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

/// A world whose ranks stop at the gate before they move bytes.
struct Gated<'w> {
    world: &'w dyn World,
    gate: &'w Gate,
}

impl World for Gated<'_> {
    fn rank(&self) -> u32 {
        self.world.rank()
    }

    fn nodes(&self) -> &[u32] {
        self.world.nodes()
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.world.all_gather(mine)
    }

    fn send(&self, to: u32, bytes: &[u8]) -> Result<()> {
        self.world.send(to, bytes)
    }

    fn receive(&self, from: u32) -> Result<Vec<u8>> {
        self.world.receive(from)
    }

    fn window<'b>(&'b self, bytes: usize) -> Result<Box<dyn Window<'b> + 'b>> {
        self.gate.pass();
        self.world.window(bytes)
    }

    fn most(&self, mine: u64) -> Result<u64> {
        self.world.most(mine)
    }
}

/// Returns the first rank's reason, after checking that all ranks have failed.
fn refused<T>(done: Vec<Result<T>>) -> String {
    let reasons: Vec<String> =
        done.into_iter().map(|done| done.err().expect("a rank that fails").to_string()).collect();
    assert!(reasons.iter().all(|reason| reason.contains("wait until that ends")), "{reasons:?}");
    reasons[0].clone()
}

fn is_round(restored: Vec<Result<Restored>>, round: u64) -> bool {
    restored.into_iter().all(|restored| {
        restored.unwrap().whole().unwrap().into_iter().all(|(rank, restored)| restored == buffers(rank, round))
    })
}

#[test]
fn a_dump_locks_its_name() {
    let mut place = Place::new();
    let stores = place.stores(3);
    let nodes = [0, 0, 1, 2];
    let threads = || Threads::on(&nodes);
    assert!(threads().run(|world| dump_in(world, &stores, 0)).iter().all(Result::is_ok));
    let gate = Gate::default();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| threads().run(|world| dump_in(&Gated { world, gate: &gate }, &stores, 1)));
        gate.wait_for(nodes.len());
        refused(threads().run(|world| dump_in(world, &stores, 2)));
        // The lock also covers a dump of only some of the nodes.
        refused(Threads::on(&[0]).run(|world| dump_in(world, &stores[2..], 2)));
        for store in &stores {
            let reason = gc::collect(store, "state", 1).unwrap_err().to_string();
            assert!(reason.contains("a job, or another gc, works on dump \"state\""), "{reason}");
        }
        // Other names and complete dumps are not blocked.
        gc::collect(&stores[0], "other", 1).unwrap();
        assert!(is_round(threads().run(|world| restore_in(world, &stores, None)), 0));
        gate.open();
        assert!(first.join().unwrap().iter().all(Result::is_ok));
    });
    for (version, round) in [(0, 0), (1, 1)] {
        assert!(is_round(threads().run(|world| restore_in(world, &stores, Some(version))), round), "{version}");
    }
    assert_eq!(gc::collect(&stores[0], "state", 1).unwrap().versions, [0]);
}

#[test]
fn gc_does_not_remove_versions_being_restored() {
    let mut place = Place::new();
    let stores = place.stores(2);
    let threads = || Threads::on(&[0, 1]);
    for round in 0..2 {
        assert!(threads().run(|world| dump_in(world, &stores, round)).iter().all(Result::is_ok));
    }
    let gate = Gate::default();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| threads().run(|world| restore_in(&Gated { world, gate: &gate }, &stores, Some(0))));
        gate.wait_for(2);
        let reason = gc::collect(&stores[0], "state", 1).unwrap_err().to_string();
        assert!(reason.contains("a job restores or copies dump \"state\""), "{reason}");
        gate.open();
        assert!(is_round(first.join().unwrap(), 0));
    });
    assert_eq!(gc::collect(&stores[0], "state", 1).unwrap().versions, [0]);
}

#[test]
fn a_dump_does_not_drop_versions_being_restored() {
    let mut place = Place::new();
    let stores = place.stores(2);
    let threads = || Threads::on(&[0, 1]);
    let dump_and_keep_one = |round| {
        let done = threads().run(|world| {
            let (buffers, keep) = (buffers(world.rank(), round), NonZeroU32::new(1));
            let store = &stores[world.node() as usize];
            dump(world, store, "state", &slices(&buffers), &Options { keep, ..options() })
        });
        done.into_iter().map(|done| done.unwrap().dropped).collect::<Vec<_>>()
    };
    assert_eq!(dump_and_keep_one(0), [0, 0]);
    let gate = Gate::default();
    std::thread::scope(|scope| {
        // It restores from one of the two stores.
        let first =
            scope.spawn(|| Threads::on(&[0]).run(|world| restore_in(&Gated { world, gate: &gate }, &stores, Some(0))));
        gate.wait_for(1);
        assert_eq!(dump_and_keep_one(1), [0, 0]);
        assert!(stores.iter().all(|store| gc::versions(store, "state").unwrap() == [0, 1]));
        gate.open();
        assert!(is_round(first.join().unwrap(), 0));
    });
    assert_eq!(dump_and_keep_one(2), [2, 2]);
    assert!(stores.iter().all(|store| gc::versions(store, "state").unwrap() == [2]));
}

#[test]
fn concurrent_jobs_leave_only_whole_dumps() {
    let mut place = Place::new();
    let stores = place.stores(2);
    let mut made = std::collections::BTreeMap::new();
    for round in 0..8 {
        let job = |round| Threads::on(&[0, 1]).run(|world| dump_in(world, &stores, round));
        let both = std::thread::scope(|scope| {
            let other = scope.spawn(move || job(2 * round + 1));
            [(2 * round, job(2 * round)), (2 * round + 1, other.join().unwrap())]
        });
        for (round, done) in both {
            match done.iter().all(Result::is_ok) {
                true => drop(made.insert(done[0].as_ref().unwrap().version, round)),
                false => drop(refused(done)),
            }
        }
    }
    for (version, round) in made {
        let restored = Threads::on(&[0, 1]).run(|world| restore_in(world, &stores, Some(version)));
        assert!(is_round(restored, round), "version {version}");
    }
}

/// The next test runs this as a separate process: it dumps and never passes the gate.
#[test]
fn dumps_until_it_is_killed() {
    let Ok(dir) = std::env::var("TERRACE_TEST_DUMP") else { return };
    let stores = [Store::open(std::path::Path::new(&dir)).unwrap()];
    let gate = Gate::default();
    // The other process looks for the lock by taking it: a dump that begins then is refused, and begins again.
    loop {
        Threads::on(&[0, 0]).run(|world| dump_in(&Gated { world, gate: &gate }, &stores, 0));
    }
}

#[test]
fn a_killed_job_leaves_no_lock() {
    let mut place = Place::new();
    let stores = place.stores(1);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "dumps_until_it_is_killed"])
        .env("TERRACE_TEST_DUMP", stores[0].dir())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while gc::collect(&stores[0], "state", 1).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the other process does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let done = Threads::on(&[0, 0]).run(|world| dump_in(world, &stores, 1));
    assert!(done.iter().all(Result::is_ok), "{:?}", done.iter().filter_map(|done| done.as_ref().err()).next());
    assert!(is_round(Threads::on(&[0, 0]).run(|world| restore_in(world, &stores, None)), 1));
}
