//! Servers without room.

use terrace_order::{Answer, Append, Etcd, Order, OrderError};

use crate::fence::append;
use crate::node::options;
use crate::{cluster_with, servers};

#[test]
fn a_full_log_says_so() {
    let Some((cluster, _only)) = cluster_with("a full log", &["--quota-backend-bytes", "8388608"]) else { return };
    let servers = servers(&cluster);
    Etcd::make(&options(&servers, "a")).unwrap();
    let order = Etcd::open(options(&servers, "a")).unwrap();
    let incarnation = order.join(None).unwrap();
    let record: std::sync::Arc<[u8]> = vec![7; 1 << 20].into();
    let first_refused = (0..20).find(|number| {
        let answer = order.append(&Append { record: record.clone(), ..append(incarnation, *number) });
        assert!(matches!(answer, Ok(Answer::At(_)) | Err(OrderError::Full { .. })), "{answer:?}");
        answer.is_err()
    });
    // What is in the log can be read. etcd also says that it is full of the record that has filled it, and keeps that.
    let (refused, head) = (first_refused.unwrap(), order.head().unwrap());
    assert!(head == refused || head == refused + 1, "{head} records, and number {refused} was refused");
    let other = Etcd::open(options(&servers, "b")).unwrap();
    assert!(matches!(other.join(None), Err(OrderError::Full { .. })));
}
