//! Watches that end or say nothing, and members that do not answer.

use std::time::Duration;

use rustix::process::Signal;
use terrace_order::{Answer, Etcd, EtcdOptions, Order};
use terrace_testkit::wait_until;

use crate::back::read_to;
use crate::fence::append;
use crate::node::options;
use crate::proxy::Proxies;
use crate::{MEMBER_COUNT, cluster, seed, servers};

#[test]
fn a_watch_that_is_compacted_or_silent_misses_nothing() {
    let Some((cluster, _only)) = cluster("a watch that fails") else { return };
    let proxies = Proxies::start(&cluster.ports(), seed());
    Etcd::make(&options(&proxies.servers, "a")).unwrap();
    let writer = Etcd::open(options(&servers(&cluster), "a")).unwrap();
    let reader = Etcd::open(options(&proxies.servers, "b")).unwrap();
    let incarnation = writer.join(None).unwrap();
    let write = |number| assert_eq!(writer.append(&append(incarnation, number)), Ok(Answer::At(number + 1)));
    let mut slot = 0;
    // One record is listed, and the others come by the watch.
    (0..3).for_each(|number| {
        write(number);
        read_to(&reader, &mut slot, number + 1).unwrap();
    });

    // Its watch cannot go on where it was, but all records that it needs are there.
    proxies.cut(true);
    (3..6).for_each(write);
    writer.trim(3).unwrap();
    proxies.cut(false);
    read_to(&reader, &mut slot, 6).unwrap();
    write(6);
    read_to(&reader, &mut slot, 7).unwrap();

    // Its connections stay open, and nothing comes.
    proxies.hold();
    write(7);
    read_to(&reader, &mut slot, 8).unwrap();
}

/// A call whose time was over after one attempt began with the same member the next time. In a long run, all nodes ended up with a
/// member that was stopped, and called no other.
#[test]
fn a_call_that_has_time_for_one_attempt_leaves_a_stopped_member() {
    let Some((cluster, _only)) = cluster("a member that does not answer") else { return };
    let options = options(&servers(&cluster), "a");
    Etcd::make(&options).unwrap();
    let order = Etcd::open(EtcdOptions { patience: Duration::ZERO, ..options }).unwrap();
    // One of them is the member that it calls.
    for member in 0..MEMBER_COUNT {
        cluster.signal(member, Signal::STOP);
        wait_until("another member answers", || order.head().is_ok());
        cluster.signal(member, Signal::CONT);
    }
}
