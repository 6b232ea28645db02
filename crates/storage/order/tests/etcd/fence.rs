//! Fences that have run out, are taken, or are left.

use std::time::Duration;

use terrace_format::{Proposal, Step};
use terrace_order::{Answer, Append, Etcd, Order, OrderError, Records};
use terrace_testkit::wait_until;

use crate::node::{STORE_ID, options};
use crate::proxy::Proxies;
use crate::{cluster, seed, servers};

/// An append of one small record.
pub fn append(incarnation: u64, number: u64) -> Append {
    let steps = vec![Step::Begin { session: number }];
    let record = Proposal { incarnation, number, time: 0, steps }.encode(STORE_ID).into();
    Append { incarnation, number, record }
}

#[test]
fn a_node_whose_lease_has_ended_is_refused() {
    let Some((cluster, _only)) = cluster("a fence that runs out") else { return };
    let proxies = Proxies::start(&cluster.ports(), seed());
    let mut short = options(&proxies.servers, "a");
    short.lease = Duration::from_secs(1);
    Etcd::make(&short).unwrap();
    let cut_off = Etcd::open(short).unwrap();
    let first = cut_off.join(None).unwrap();
    assert_eq!(cut_off.append(&append(first, 0)), Ok(Answer::At(1)));

    let other = Etcd::open(options(&servers(&cluster), "a")).unwrap();
    let taken = OrderError::Taken { node: "a".into(), incarnation: first };
    assert_eq!(other.join(None), Err(taken.clone()));
    proxies.cut(true);
    let mut second = Err(taken.clone());
    wait_until("the lease ends", || {
        second = other.join(None);
        second != Err(taken.clone())
    });
    let second = second.unwrap();
    assert!(second > first);
    proxies.cut(false);

    // It does not know that it was silent for too long.
    assert_eq!(cut_off.append(&append(first, 1)), Ok(Answer::Fenced));
    assert_eq!(cut_off.append(&append(first, 0)), Ok(Answer::At(1)), "this one is in the log");
    assert_eq!(other.append(&append(second, 0)), Ok(Answer::At(2)));
    other.leave(second).unwrap();
    assert_eq!(cut_off.append(&append(first, 1)), Ok(Answer::Fenced), "there is no fence at all");
    assert_eq!(cut_off.head(), Ok(2));
    let all = Records::Next(vec![append(first, 0).record, append(second, 0).record]);
    assert_eq!(other.read(0, 9), Ok(all));
}

#[test]
fn a_fence_is_taken_over_by_who_knows_its_incarnation() {
    let Some((cluster, _only)) = cluster("a fence that is taken over") else { return };
    let options = options(&servers(&cluster), "a");
    assert!(matches!(Etcd::open(options.clone()), Err(OrderError::NoLog { .. })));
    Etcd::make(&options).unwrap();
    Etcd::make(&options).unwrap();
    let dead = Etcd::open(options.clone()).unwrap();
    let first = dead.join(None).unwrap();
    let next = Etcd::open(options).unwrap();
    assert_eq!(next.join(Some(first + 1)), Err(OrderError::Taken { node: "a".into(), incarnation: first }));
    let second = next.join(Some(first)).unwrap();
    assert_eq!(dead.append(&append(first, 0)), Ok(Answer::Fenced));
    // One that has gone leaves the fence of the next alone.
    dead.leave(first).unwrap();
    assert_eq!(next.append(&append(second, 0)), Ok(Answer::At(1)));
    assert!(next.join(Some(second)).unwrap() > second);
}
