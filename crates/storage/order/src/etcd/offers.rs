//! Keys by which nodes know each other: their fences, the snapshots that they offer, and the keeper, who trims the log by these.

use std::collections::BTreeMap;

use etcd_client::{Compare, CompareOp, GetOptions, KeyValue, PutOptions, Txn, TxnOp, TxnOpResponse};

use super::keys::{decode, encode};
use super::state::{Core, get, only_values};
use crate::{OfferedSnapshot, OrderError};

impl Core {
    pub(super) async fn offer_snapshot(&self, snapshot: &OfferedSnapshot) -> Result<(), OrderError> {
        let put = [TxnOp::put(self.keys.snapshot(&self.node), encode(snapshot), None)];
        self.members.txn(Txn::new().and_then(put)).await.map(drop)
    }

    pub(super) async fn snapshots(&self) -> Result<BTreeMap<String, OfferedSnapshot>, OrderError> {
        let found = self.of_all_nodes(self.keys.snapshot("")).await?.into_iter();
        found.map(|(node, found)| Ok((node, decode(&String::from_utf8_lossy(found.key()), found.value())?))).collect()
    }

    pub(super) async fn fences(&self) -> Result<BTreeMap<String, u64>, OrderError> {
        let found = self.of_all_nodes(self.keys.fence("")).await?.into_iter();
        Ok(found.map(|(node, fence)| (node, fence.create_revision() as u64)).collect())
    }

    /// The values below a prefix, by the names of their nodes.
    pub(super) async fn of_all_nodes(&self, prefix: String) -> Result<Vec<(String, KeyValue)>, OrderError> {
        let all = TxnOp::get(prefix, Some(GetOptions::new().with_prefix()));
        let answer = self.members.txn(Txn::new().and_then([all])).await?;
        let Some(TxnOpResponse::Get(mut found)) = answer.op_responses().into_iter().next() else {
            return Ok(Vec::new());
        };
        let found = found.take_kvs().into_iter();
        Ok(found.filter_map(|found| Some((self.keys.parse_node(found.key())?, found))).collect())
    }

    /// Makes this node the keeper, with the lease of its fence, if there is none.
    pub(super) async fn keep(&self, incarnation: u64, lease: i64) -> Result<bool, OrderError> {
        let (key, value) = (self.keys.keeper(), format!("{incarnation:016x}"));
        let fence = self.keys.fence(&self.node);
        let is_free = [
            Compare::create_revision(key.clone(), CompareOp::Equal, 0),
            Compare::create_revision(fence, CompareOp::Equal, incarnation as i64),
        ];
        let put = [TxnOp::put(key.clone(), value.clone(), Some(PutOptions::new().with_lease(lease)))];
        let answer = self.members.txn(Txn::new().when(is_free).and_then(put).or_else([get(key)])).await?;
        let [keeper] = only_values(&answer);
        Ok(answer.succeeded() || keeper.is_some_and(|keeper| keeper.value() == value.as_bytes()))
    }
}
