//! Snapshots that nodes offer to each other, and the keeper, who trims the log by them.

use std::collections::BTreeMap;

use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp, TxnOpResponse};

use super::keys::{decode, encode};
use super::state::{Core, get, only_values};
use crate::{OfferedSnapshot, OrderError};

impl Core {
    pub(super) async fn offer_snapshot(&self, snapshot: &OfferedSnapshot) -> Result<(), OrderError> {
        let put = [TxnOp::put(self.keys.snapshot(&self.node), encode(snapshot), None)];
        self.members.txn(Txn::new().and_then(put)).await.map(drop)
    }

    pub(super) async fn snapshots(&self) -> Result<BTreeMap<String, OfferedSnapshot>, OrderError> {
        let all = TxnOp::get(self.keys.snapshot(""), Some(GetOptions::new().with_prefix()));
        let answer = self.members.txn(Txn::new().and_then([all])).await?;
        let Some(TxnOpResponse::Get(found)) = answer.op_responses().into_iter().next() else {
            return Ok(BTreeMap::new());
        };
        let offers =
            found.kvs().iter().filter_map(|found| Some((self.keys.parse_snapshot(found.key())?, found.value())));
        offers.map(|(node, value)| Ok((node.clone(), decode(&self.keys.snapshot(&node), value)?))).collect()
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
