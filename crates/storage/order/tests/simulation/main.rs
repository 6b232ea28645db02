//! Nodes, clients and a log, with every delay and fault that a seed draws. After each run the laws of the shared log are checked.

#![allow(clippy::panic, clippy::unwrap_used)]

mod clients;
mod disk;
mod duties;
mod laws;
mod members;
mod node;
mod reference;
mod world;

use world::World;

/// The number of actions in one run.
const ACTIONS_PER_RUN: usize = 1500;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// `TERRACE_RUNS` runs from seed `TERRACE_SEED` on.
#[test]
fn a_shared_log_is_one_history() {
    let (first, runs) = (number("TERRACE_SEED", 1), number("TERRACE_RUNS", 30));
    let mut counts = world::Counts::default();
    for seed in first..first + runs {
        println!("seed {seed}");
        let mut world = World::new(seed);
        (0..ACTIONS_PER_RUN).for_each(|_| world.act());
        world.end();
        counts.add(&world.counts);
    }
    println!("{runs} runs: {counts:?}");
    assert_eq!(counts.missing(), Vec::<&str>::new(), "these never happened");
}
