//! N5: bytes in etcd, and between etcd and the nodes, for each byte that is stored.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use terrace::{Ack, PutOptions};
use terrace_testkit::EtcdCluster;

use super::nodes::{SharedStore, StoreShape};
use crate::place::random_bytes;
use crate::row::{Better, Row};
use crate::size::Size;

const NODE_COUNT: usize = 3;
const REPLICA_COUNT: u8 = 2;
const OBJECT_BYTES: usize = 32 << 20;
const MAX_PERCENT: f64 = 0.1;
/// Nodes report to the log about once a second.
const IDLE_TIME: Duration = Duration::from_secs(5);

/// Counts of bytes.
#[derive(Clone, Copy)]
struct EtcdTraffic {
    /// Put into etcd, once however many members there are.
    put: f64,
    /// From members to nodes.
    to_nodes: f64,
    /// Between members.
    to_peers: f64,
}

pub fn run(etcd: &mut EtcdCluster) -> Result<Vec<Row>> {
    let shared = SharedStore::start(etcd, StoreShape::new(NODE_COUNT, REPLICA_COUNT))?;
    let store = shared.open(0)?;
    let bytes = random_bytes(OBJECT_BYTES, 1);
    let options = PutOptions { ack: Some(Ack::Replicated), ..PutOptions::default() };
    store.put_bytes(b"first", &bytes, &options)?;
    let extents = store.locate(b"first")?.extents;
    let mean = OBJECT_BYTES as f64 / extents.len().max(1) as f64 / f64::from(1 << 20);
    let before = EtcdTraffic::read(etcd)?;
    thread::sleep(IDLE_TIME);
    let idle = EtcdTraffic::read(etcd)?.since(before);
    let count = Size::get().of(4, 24, 64);
    let before = EtcdTraffic::read(etcd)?;
    for i in 0..count {
        store.put_bytes(format!("objects/{i}").as_bytes(), &bytes, &options)?;
    }
    let traffic = EtcdTraffic::read(etcd)?.since(before);
    let stored = (count * OBJECT_BYTES) as f64;
    let percent = |bytes: f64| bytes * 100.0 / stored;
    let details = |more: &str| {
        format!(
            "{} MiB in objects of 32 MiB, extents of {mean:.2} MiB, {REPLICA_COUNT} replicas, {NODE_COUNT} nodes; {more}",
            stored as u64 >> 20
        )
    };
    let per_second = |bytes: f64| bytes / IDLE_TIME.as_secs_f64();
    Ok(vec![
        Row::new("cluster N5", "bytes put into etcd for each byte stored", percent(traffic.put), "%")
            .goal(MAX_PERCENT, Better::Lower)
            .details(details(&format!(
                "{:.0} bytes an extent, reports of the nodes included; idle: {:.0} B/s",
                traffic.put * mean * f64::from(1 << 20) / stored,
                per_second(idle.put)
            ))),
        Row::new(
            "cluster N5",
            "bytes that etcd sends to all nodes, for each byte stored",
            percent(traffic.to_nodes),
            "%",
        )
        .beside(percent(NODE_COUNT as f64 * traffic.put), Better::Lower)
        .details(details(&format!(
            "beside what was put, once for each node; idle: {:.0} B/s",
            per_second(idle.to_nodes)
        ))),
        Row::new(
            "cluster N5",
            "bytes that etcd's members send each other, for each byte stored",
            percent(traffic.to_peers),
            "%",
        )
        .beside(percent((EtcdCluster::MEMBER_COUNT - 1) as f64 * traffic.put), Better::Lower)
        .details(details(&format!(
            "beside what was put, once for each follower; idle: {:.0} B/s",
            per_second(idle.to_peers)
        ))),
    ])
}

impl EtcdTraffic {
    /// Reads the members' own counts.
    fn read(etcd: &EtcdCluster) -> Result<EtcdTraffic> {
        let all = |name: &str| -> Result<Vec<f64>> {
            let of = |at| etcd.metric(at, name).with_context(|| format!("member {at} of etcd does not say its {name}"));
            (0..EtcdCluster::MEMBER_COUNT).map(of).collect()
        };
        // Each member has all puts, or comes to have them soon.
        let put = all("etcd_debugging_mvcc_total_put_size_in_bytes")?.into_iter().fold(0.0, f64::max);
        let to_nodes = all("etcd_network_client_grpc_sent_bytes_total")?.iter().sum();
        let to_peers = all("etcd_network_peer_sent_bytes_total")?.iter().sum();
        Ok(EtcdTraffic { put, to_nodes, to_peers })
    }

    fn since(self, before: EtcdTraffic) -> EtcdTraffic {
        let EtcdTraffic { put, to_nodes, to_peers } = before;
        EtcdTraffic { put: self.put - put, to_nodes: self.to_nodes - to_nodes, to_peers: self.to_peers - to_peers }
    }
}
