//! Trims the log: first `t` says so, then the records are deleted, then etcd forgets them.

use std::collections::BTreeMap;

use etcd_client::{Compare, CompareOp, DeleteOptions, Txn, TxnOp};

use super::keys::encode;
use super::list::Entry;
use super::members::revision;
use super::state::{Core, ran_back};
use crate::OrderError;

/// Deletes at most this many records at once: etcd does nothing else meanwhile.
const RECORDS_PER_DELETE: u64 = 10_000;

impl Core {
    /// Removes all records up to this slot.
    pub(super) async fn trim(&self, to: u64) -> Result<(), OrderError> {
        loop {
            let list = self.list().await?;
            let state = list.state;
            if to > state.head {
                return Err(ran_back(format!("it ends at record {}, and a snapshot covers {to}", state.head)));
            }
            let left = (state.head - to.max(state.trimmed.slot)) as usize;
            let gone = list.entries.len().saturating_sub(left);
            let gone = numbers(&list.entries[..gone]);
            let mut trimmed = state.trimmed;
            trimmed.slot = trimmed.slot.max(to);
            for (incarnation, (_, last)) in &gone {
                let next = trimmed.next.entry(*incarnation).or_default();
                *next = (*next).max(last + 1);
            }
            // Another node may have trimmed meanwhile, and further.
            let key = self.keys.trimmed();
            let is_same = [Compare::mod_revision(key.clone(), CompareOp::Equal, state.trimmed_revision)];
            let put = [TxnOp::put(key, encode(&trimmed), None)];
            let answer = self.members.txn(Txn::new().when(is_same).and_then(put)).await?;
            if answer.succeeded() {
                self.delete(&gone).await?;
                return self.compact(revision(&answer)).await;
            }
        }
    }

    /// Deletes these records. `t` has them, so who asks for one is told that it was in the log.
    async fn delete(&self, gone: &BTreeMap<u64, (u64, u64)>) -> Result<(), OrderError> {
        for (incarnation, (first, last)) in gone {
            for from in (*first..=*last).step_by(RECORDS_PER_DELETE as usize) {
                let end = self.keys.record(*incarnation, (from + RECORDS_PER_DELETE).min(last + 1));
                let range = DeleteOptions::new().with_range(end);
                let delete = [TxnOp::delete(self.keys.record(*incarnation, from), Some(range))];
                self.members.txn(Txn::new().and_then(delete)).await?;
            }
        }
        Ok(())
    }

    /// Lets etcd forget what was deleted and overwritten up to a revision. Records that were not are kept.
    async fn compact(&self, revision: i64) -> Result<(), OrderError> {
        let compact = self
            .members
            .call(async |mut member| super::members::compacted_to_none(member.kv.compact(revision, None).await));
        // Another node may have compacted further.
        compact.await.map(drop)
    }
}

/// The first and the last number of each incarnation's records.
fn numbers(entries: &[Entry]) -> BTreeMap<u64, (u64, u64)> {
    let mut all = BTreeMap::new();
    for Entry { incarnation, number, .. } in entries {
        let (first, last) = all.entry(*incarnation).or_insert((*number, *number));
        (*first, *last) = ((*first).min(*number), (*last).max(*number));
    }
    all
}
