//! Servers that come back with older data, or with none.

use std::time::Duration;

use terrace_order::{Answer, Etcd, Order, OrderError, Records};
use terrace_testkit::wait_until;

use crate::fence::append;
use crate::node::options;
use crate::{cluster, servers};

fn assert_ran_back<T: std::fmt::Debug>(what: &str, mut call: impl FnMut() -> Result<T, OrderError>) {
    let mut failed = None;
    // The servers may still be starting.
    wait_until(what, || match call() {
        Err(OrderError::NoAnswer { .. }) => false,
        other => {
            failed = Some(other);
            true
        }
    });
    assert!(matches!(failed, Some(Err(OrderError::RanBack { .. }))), "{what}: {failed:?}");
}

/// Reads until there is an error, or the log is read to this slot.
pub fn read_to(order: &Etcd, slot: &mut u64, to: u64) -> Result<(), OrderError> {
    while *slot < to {
        match order.read(*slot, 64)? {
            Records::Next(records) if records.is_empty() => order.wait(*slot, Duration::from_secs(1))?,
            Records::Next(records) => *slot += records.len() as u64,
            Records::Trimmed => panic!("the log is trimmed beyond {slot}"),
        }
    }
    Ok(())
}

#[test]
fn a_log_that_runs_back_is_an_error() {
    let Some((mut cluster, _only)) = cluster("a log that runs back") else { return };
    let servers = servers(&cluster);
    Etcd::make(&options(&servers, "a")).unwrap();
    let open = |name: &str| Etcd::open(options(&servers, name)).unwrap();
    let (writer, reader, again) = (open("a"), open("b"), open("a"));
    let incarnation = writer.join(None).unwrap();
    let write = |number| loop {
        match writer.append(&append(incarnation, number)) {
            Err(OrderError::NoAnswer { .. }) => {}
            answer => break assert_eq!(answer, Ok(Answer::At(number + 1))),
        }
    };
    (0..5).for_each(write);
    let copy = cluster.copy_data();
    (5..9).for_each(write);
    let mut slot = 0;
    read_to(&reader, &mut slot, 9).unwrap();
    cluster.replace_data(Some(copy.path()));

    assert_ran_back("the head", || writer.head());
    assert_ran_back("an append", || writer.append(&append(incarnation, 9)));
    assert_ran_back("an old append", || again.append(&append(incarnation, 9)));
    assert_ran_back("a watch", || read_to(&reader, &mut slot, 10));
    assert_ran_back("a list", || open("c").read(9, 64));

    cluster.replace_data(None);
    assert_ran_back("the head", || again.head());
    assert_ran_back("an append", || writer.append(&append(incarnation, 9)));
    let mut missing = Ok(());
    wait_until("the empty servers answer", || {
        missing = Etcd::open(options(&servers, "c")).map(drop);
        !matches!(missing, Err(OrderError::NoAnswer { .. }))
    });
    assert!(matches!(missing, Err(OrderError::NoLog { .. })), "{missing:?}");
}
