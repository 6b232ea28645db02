//! N1: the time of a small put, beside the transaction that it needs.

use std::sync::Arc;

use anyhow::{Context, Result};
use terrace::{Ack, PutOptions, Store};
use terrace_format::{Proposal, Step};
use terrace_testkit::EtcdCluster;

use super::bare::BareLog;
use super::nodes::{SharedStore, StoreShape};
use crate::claims::h4;
use crate::place::random_bytes;
use crate::row::{Better, Row};
use crate::size::Size;
use crate::timing::{Times, time};

const OBJECT_BYTES: usize = 4 << 10;
const ROUND_COUNT: usize = 6;
/// A put may take this many times as long as the transaction alone.
const MAX_TIMES_BARE: f64 = 1.5;
const BARE_LOG_NUMBER: u64 = 1;

pub fn run(etcd: &mut EtcdCluster) -> Result<Vec<Row>> {
    let shared = SharedStore::start(etcd, StoreShape::new(2, 1))?;
    let (store, mut bare) = (shared.open(0)?, BareLog::make(etcd, BARE_LOG_NUMBER)?);
    let bytes = random_bytes(OBJECT_BYTES, 1);
    put(&store, "first", &bytes)?;
    let record: Arc<[u8]> = random_bytes(record_bytes(&store, "first")?, 2).into();
    let count = Size::get().of(50, 300, 1000);
    let (mut ours, mut alone) = (Vec::new(), Vec::new());
    for round in 0..ROUND_COUNT {
        for i in 0..count {
            ours.push(time(|| put(&store, &format!("{round}/{i}"), &bytes))?.0 * 1e3);
        }
        for _ in 0..count {
            alone.push(time(|| bare.append(&record))?.0 * 1e3);
        }
    }
    let (ours, alone) = (Times::new(ours), Times::new(alone));
    let row = Row::new("cluster N1", "put 4 KiB, placed, on a shared store, beside its transaction alone", ours.median(), "ms")
        .beside(alone.median(), Better::Lower)
        .goal(MAX_TIMES_BARE * alone.median(), Better::Lower)
        .details(format!(
            "p50; p99 {:.1} ms beside {:.1} ms; {} each, {ROUND_COUNT} rounds in turn; a record of {} bytes; two nodes, one replica",
            ours.quantile(0.99),
            alone.quantile(0.99),
            ours.count(),
            record.len()
        ));
    Ok(vec![row])
}

/// Puts an object, and returns once it is placed.
pub fn put(store: &Store, key: &str, bytes: &[u8]) -> Result<()> {
    let options = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
    store.put_bytes(key.as_bytes(), bytes, &options)?;
    Ok(())
}

/// Returns the length of the record with the change that put an object like this one.
fn record_bytes(store: &Store, key: &str) -> Result<usize> {
    let (catalog, id) = (store.catalog(), store.catalog().log().store());
    let replica = h4::first_replica(catalog, key.as_bytes())?.context("an object without a replica")?;
    let change = h4::change_of_put(catalog, key.as_bytes(), |_| replica)?;
    let (incarnation, _) = catalog.members()?.into_iter().next().context("a log without nodes")?;
    let session = catalog.sessions()?.into_iter().next().context("a log without sessions")?;
    let steps = vec![Step::Change { session, number: 1, change }];
    Ok(Proposal { incarnation, number: 100, time: terrace_system::clock::unix_seconds(), steps }.encode(id).len())
}
