//! Raises the format of a log to the newest one that all nodes know.

use std::collections::BTreeMap;

use etcd_client::{Compare, CompareOp, KeyValue, Txn, TxnOp};

use super::keys::{Format, decode, encode};
use super::state::{Core, get, only_values, ran_back};
use crate::OrderError;

/// The format of a log, and what its nodes know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFormat {
    /// The format before an upgrade.
    pub before: u32,
    /// The format now.
    pub now: u32,
    /// The newest format that the program that asked knows.
    pub known: u32,
    /// The newest format that each node knows, by the node's name. Nodes without a fence, which are away, are left out.
    pub nodes: BTreeMap<String, u32>,
}

impl Core {
    /// Raises the format to the newest one that this program and all nodes with a fence know.
    pub(super) async fn raise_format(&self) -> Result<LogFormat, OrderError> {
        let key = self.keys.format();
        loop {
            let answer = self.members.txn(Txn::new().and_then([get(key.clone())])).await?;
            let [format] = only_values(&answer);
            let format = format.ok_or_else(|| ran_back("its format is gone"))?;
            let before: Format = decode(&key, format.value())?;
            before.check()?;
            let nodes = self.formats().await?;
            let own = Format::newest_known().writer;
            let newest = nodes.values().copied().fold(own, u32::min).max(before.writer);
            let found = LogFormat { before: before.writer, now: newest, known: own, nodes };
            if newest == before.writer {
                return Ok(found);
            }
            // A node of an older version that joins now stops at its next append, or when it looks where the log ends: both
            // look at the format.
            let is_same = [Compare::mod_revision(key.clone(), CompareOp::Equal, format.mod_revision())];
            let put = [TxnOp::put(key.clone(), encode(&Format { least_reader: newest, writer: newest }), None)];
            if self.members.txn(Txn::new().when(is_same).and_then(put)).await?.succeeded() {
                return Ok(found);
            }
        }
    }

    /// Returns the newest format that each node with a fence knows.
    async fn formats(&self) -> Result<BTreeMap<String, u32>, OrderError> {
        let fences = self.of_all_nodes(self.keys.fence("")).await?;
        let newest = |(node, fence): (String, KeyValue)| {
            let known: Format = decode(&String::from_utf8_lossy(fence.key()), fence.value())?;
            Ok((node, known.writer))
        };
        fences.into_iter().map(newest).collect()
    }
}
