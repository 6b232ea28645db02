//! A shared log on three members of etcd, which are killed and stopped, lose answers, and come back with older data.

#![allow(clippy::panic, clippy::unwrap_used)]

mod back;
mod fence;
mod full;
mod node;
mod proxy;
mod run;
mod silent;
mod trimmed;

use std::sync::{Mutex, MutexGuard, PoisonError};

use proxy::Proxies;
use run::{Nodes, answered, run};
use rustix::process::Signal;
use terrace_order::{Etcd, Order, OrderError};
use terrace_testkit::{EtcdCluster, Random, skip};

/// The number of etcd's members.
const MEMBER_COUNT: usize = EtcdCluster::MEMBER_COUNT;

/// The number of kinds of faults.
const KIND_COUNT: u64 = 6;

/// Each cluster takes what this machine has, so there is one at a time.
static ONE_CLUSTER: Mutex<()> = Mutex::new(());

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

fn seed() -> u64 {
    number("TERRACE_SEED", 1)
}

/// A cluster for a test, or none if it must be skipped.
fn cluster(test: &str) -> Option<(EtcdCluster, MutexGuard<'static, ()>)> {
    cluster_with(test, &[])
}

fn cluster_with(test: &str, arguments: &'static [&'static str]) -> Option<(EtcdCluster, MutexGuard<'static, ()>)> {
    // A test that failed has ended its cluster.
    let only = ONE_CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    match EtcdCluster::start(arguments) {
        Ok(cluster) => Some((cluster, only)),
        Err(missing) => {
            skip(test, &missing);
            None
        }
    }
}

fn servers(cluster: &EtcdCluster) -> Vec<String> {
    cluster.ports().iter().map(|port| format!("http://127.0.0.1:{port}")).collect()
}

#[test]
fn three_nodes_append_and_follow_one_log() {
    let Some((cluster, _only)) = cluster("a shared log") else { return };
    run(&servers(&cluster), seed(), |nodes| nodes.append_more(300));
}

/// Faults of the servers. `TERRACE_FAULTS` is their number.
#[test]
fn killed_and_stopped_members_lose_and_repeat_nothing() {
    let Some((mut cluster, _only)) = cluster("a shared log whose servers fail") else { return };
    let (seed, faults) = (seed(), number("TERRACE_FAULTS", KIND_COUNT));
    println!("seed {seed}, {faults} faults");
    let mut random = Random::new(seed);
    run(&servers(&cluster), seed, |nodes| {
        for fault in 0..faults {
            nodes.append_more(30);
            // Each kind happens once; then they are drawn.
            let kind = if fault < KIND_COUNT { fault } else { random.below(KIND_COUNT) };
            fail(&mut cluster, nodes, kind);
            // The followers have what is trimmed, so none of them is told to load a snapshot.
            answered(|| nodes.orders[random.below(3) as usize].trim(nodes.followed_by_all()));
        }
        nodes.append_more(30);
    });
}

fn fail(cluster: &mut EtcdCluster, nodes: &Nodes<'_>, kind: u64) {
    let leader = cluster.leader().unwrap_or(0);
    match kind {
        0 => cluster.kill(leader),
        1 => cluster.kill((leader + 1) % MEMBER_COUNT),
        2 => {
            cluster.kill_all();
            cluster.start_again();
        }
        3 => cluster.signal(leader, Signal::STOP),
        4 => take_fence(&servers(cluster), "node1"),
        _ => {
            // The leader dies while another is stopped: nobody serves.
            cluster.signal((leader + 1) % MEMBER_COUNT, Signal::STOP);
            cluster.kill(leader);
            cluster.start_again();
            cluster.signal((leader + 1) % MEMBER_COUNT, Signal::CONT);
        }
    }
    nodes.append_more(30);
    if kind == 3 {
        cluster.signal(leader, Signal::CONT);
    }
    cluster.start_again();
}

/// Another process of a node takes its fence, and leaves. The node joins again.
fn take_fence(servers: &[String], node: &str) {
    let other = Etcd::open(node::options(servers, node)).unwrap();
    let mut last = None;
    loop {
        match other.join(last) {
            Ok(incarnation) => break other.leave(incarnation).unwrap(),
            Err(OrderError::Taken { incarnation, .. }) => last = Some(incarnation),
            Err(failed) => panic!("{failed}"),
        }
    }
}

#[test]
fn lost_answers_are_asked_for_again_and_nothing_happens_twice() {
    let Some((cluster, _only)) = cluster("a shared log that loses answers") else { return };
    let seed = seed();
    let proxies = Proxies::start(&cluster.ports(), seed);
    run(&proxies.servers, seed, |nodes| {
        proxies.lose_one_in(15);
        nodes.append_more(20 * number("TERRACE_FAULTS", 5));
        proxies.lose_one_in(0);
    });
    println!("seed {seed}, {} connections have lost an answer", proxies.lost());
    assert!(proxies.lost() > 0);
}
