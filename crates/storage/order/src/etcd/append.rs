//! Appends: one transaction, whose comparisons let it through once, and whose other branch decides a lost answer.

use std::sync::atomic::Ordering;

use etcd_client::{Compare, CompareOp, GetOptions, KeyValue, PutOptions, Txn, TxnOp, TxnResponse};

use super::keys::{TrimmedTo, decode};
use super::members::revision;
use super::state::{Core, get, get_key, only_values, ran_back};
use crate::{Answer, Append, OrderError};

/// The reason why an append was not let through.
enum Stopped {
    /// The answer is known.
    Decided(Answer),
    /// The record is in the log since this revision.
    Since(i64),
    /// The format has changed to one that this version knows, so the append may be tried again.
    OtherFormat,
}

impl Core {
    pub(super) async fn append(&self, append: &Append) -> Result<Answer, OrderError> {
        loop {
            let seen = self.head_seen();
            let answer = self.members.txn(self.transaction(append)).await?;
            if answer.succeeded() {
                let [head] = only_values(&answer);
                let slot = head.map_or(0, |head| head.version() as u64);
                if slot <= seen {
                    return Err(ran_back(format!("a new record has slot {slot}, and the log ended at {seen}")));
                }
                self.saw_head(slot);
                return Ok(Answer::At(slot));
            }
            match self.stopped(append, &answer)? {
                Stopped::Decided(answer) => return Ok(answer),
                Stopped::Since(revision) => return self.slot_since(revision).await,
                Stopped::OtherFormat => {}
            }
        }
    }

    fn transaction(&self, append: &Append) -> Txn {
        let Append { incarnation, number, record } = append;
        let keys = &self.keys;
        let (fence, key) = (keys.fence(&self.node), keys.record(*incarnation, *number));
        // The fence's version gives order, idempotence and fencing in one comparison. That the record's key is absent would not do:
        // it is absent again once the log is trimmed, and a copy of this request that comes then would pass.
        let is_mine = [
            Compare::create_revision(fence.clone(), CompareOp::Equal, *incarnation as i64),
            Compare::version(fence.clone(), CompareOp::Equal, *number as i64 + 1),
            Compare::mod_revision(keys.format(), CompareOp::Equal, self.format_revision.load(Ordering::Relaxed)),
        ];
        let keep = PutOptions::new().with_ignore_value().with_ignore_lease();
        let puts = [
            TxnOp::put(key.clone(), record.to_vec(), None),
            TxnOp::put(keys.head(), "", None),
            TxnOp::put(fence.clone(), "", Some(keep)),
            get(keys.head()),
        ];
        let looks = [get_key(fence), get_key(key), get(keys.format()), get(keys.trimmed())];
        Txn::new().when(is_mine).and_then(puts).or_else(looks)
    }

    /// Decides by what was found instead of the fence that the append needs.
    fn stopped(&self, append: &Append, answer: &TxnResponse) -> Result<Stopped, OrderError> {
        let Append { incarnation, number, .. } = *append;
        let [fence, record, format, trimmed] = only_values(answer);
        if let Some(record) = record {
            return Ok(Stopped::Since(record.mod_revision()));
        }
        let trimmed: TrimmedTo = match trimmed {
            Some(value) => decode(&self.keys.trimmed(), value.value())?,
            None => TrimmedTo::default(),
        };
        if trimmed.has(incarnation, number) {
            return Ok(Stopped::Decided(Answer::Trimmed));
        }
        let is_mine = |fence: &KeyValue| fence.create_revision() as u64 == incarnation;
        let Some(fence) = fence.filter(is_mine) else {
            // No copy of this append can pass any more: a revision creates one key at most once.
            return match revision(answer) as u64 {
                now if now < incarnation => {
                    Err(ran_back(format!("etcd is at revision {now}, and was at {incarnation}")))
                }
                _ => Ok(Stopped::Decided(Answer::Fenced)),
            };
        };
        let appended = fence.version() as u64 - 1;
        if appended < number {
            return Err(ran_back(format!("it has {appended} records of incarnation {incarnation}, and had {number}")));
        }
        if appended > number {
            let what = format!("record {number} of incarnation {incarnation} is missing, and later ones are there");
            return Err(OrderError::Damaged { what });
        }
        if !self.adopt_format(format.as_ref())? {
            let what =
                format!("record {number} of incarnation {incarnation} was not let through, and nothing stops it");
            return Err(OrderError::Damaged { what });
        }
        Ok(Stopped::OtherFormat)
    }

    /// The slot of the record that was put at this revision.
    async fn slot_since(&self, revision: i64) -> Result<Answer, OrderError> {
        let then = GetOptions::new().with_revision(revision);
        let head = TxnOp::get(self.keys.head(), Some(then));
        if let Some(answer) = self.members.txn_at(Txn::new().and_then([head])).await? {
            let [head] = only_values(&answer);
            let head = head.ok_or_else(|| OrderError::Damaged { what: "a record came without the head".into() })?;
            return Ok(Answer::At(head.version() as u64));
        }
        // That revision is compacted, but the record may be there: then its slot follows from the number of those behind it.
        let list = self.list().await?;
        let later = list.entries.iter().filter(|entry| entry.revision > revision).count() as u64;
        match list.state.head.saturating_sub(later) {
            // Some of the records behind it are gone, too, so the difference is not its slot; but it is not above this one.
            slot if slot <= list.state.trimmed.slot => Ok(Answer::Trimmed),
            slot => Ok(Answer::At(slot)),
        }
    }
}
