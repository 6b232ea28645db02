//! [`BareLog`]: etcd alone, with the requests that nodes make.

use std::sync::Arc;

use anyhow::{Result, ensure};
use terrace_order::{Answer, Append, Order, OrderError};
use terrace_testkit::EtcdCluster;

/// A log in etcd whose records nobody follows.
pub struct BareLog {
    order: Box<dyn Order + Send + Sync>,
    incarnation: u64,
    /// The number of records so far.
    count: u64,
}

impl BareLog {
    /// Makes the log with this number.
    pub fn make(etcd: &EtcdCluster, number: u64) -> Result<BareLog> {
        let servers = etcd.ports().iter().map(|port| format!("http://127.0.0.1:{port}")).collect();
        let order = open(servers, number)?;
        Ok(BareLog { incarnation: order.join(None)?, order, count: 0 })
    }

    /// Appends a record by the transaction that a node sends: it compares the node's fence and the log's format, and puts the record,
    /// the head and the fence.
    pub fn append(&mut self, record: &Arc<[u8]>) -> Result<()> {
        let append = Append { incarnation: self.incarnation, number: self.count, record: record.clone() };
        loop {
            match self.order.append(&append) {
                Ok(answer) => {
                    ensure!(matches!(answer, Answer::At(_)), "a record was not appended: {answer:?}");
                    self.count += 1;
                    return Ok(());
                }
                Err(OrderError::NoAnswer { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads the log's end, as nodes do for processes that ask for all that was acknowledged.
    pub fn read_head(&self) -> Result<u64> {
        Ok(self.order.head()?)
    }
}

impl Drop for BareLog {
    fn drop(&mut self) {
        // Otherwise the fence ends with its lease.
        let _ = self.order.leave(self.incarnation);
    }
}

#[cfg(feature = "cluster")]
fn open(servers: Vec<String>, number: u64) -> Result<Box<dyn Order + Send + Sync>> {
    let options = terrace_order::EtcdOptions::new(servers, number, "bare");
    terrace_order::Etcd::make(&options)?;
    Ok(Box::new(terrace_order::Etcd::open(options)?))
}

#[cfg(not(feature = "cluster"))]
fn open(_: Vec<String>, _: u64) -> Result<Box<dyn Order + Send + Sync>> {
    anyhow::bail!("this program was built without the feature `cluster`")
}
