//! Lists the log's records.

use etcd_client::{GetOptions, Txn, TxnOp, TxnOpResponse};

use super::state::{Core, State};
use crate::OrderError;

/// A page of the list has this many keys. etcd reads the records, too, so a page takes time and memory there.
const KEYS_PER_PAGE: i64 = 64;

/// A record that is in etcd.
pub(super) struct Entry {
    /// The revision that put it. Records have the order of these.
    pub revision: i64,
    pub incarnation: u64,
    pub number: u64,
}

/// All records that are in etcd at the revision of `state`, in order. Those behind the slot to which the log is trimmed are all
/// there, and the last one has the head's slot. Some of the others may be.
pub(super) struct List {
    pub state: State,
    pub entries: Vec<Entry>,
}

impl List {
    /// The records after a slot. None if some of them are gone.
    pub(super) fn after(self, slot: u64) -> Option<Vec<Entry>> {
        let wanted = self.state.head.checked_sub(slot)? as usize;
        let gone = self.entries.len().checked_sub(wanted).filter(|_| slot >= self.state.trimmed.slot)?;
        Some(self.entries.into_iter().skip(gone).collect())
    }
}

impl Core {
    pub(super) async fn list(&self) -> Result<List, OrderError> {
        loop {
            let state = self.state().await?;
            if let Some(mut entries) = self.entries_at(state.revision).await? {
                entries.sort_unstable_by_key(|entry| entry.revision);
                return Ok(List { state, entries });
            }
            // The log was compacted meanwhile.
        }
    }

    /// Pages through all records at a revision. `None` if that is compacted. The pages are ordered by key: in any other order, etcd
    /// would read the whole log for each.
    async fn entries_at(&self, revision: i64) -> Result<Option<Vec<Entry>>, OrderError> {
        let (first, end) = self.keys.all_records();
        let (mut from, mut entries) = (first.into_bytes(), Vec::new());
        loop {
            let options = GetOptions::new().with_range(end.as_str()).with_revision(revision);
            let page = TxnOp::get(from, Some(options.with_limit(KEYS_PER_PAGE).with_keys_only()));
            let Some(answer) = self.members.txn_at(Txn::new().and_then([page])).await? else { return Ok(None) };
            let Some(TxnOpResponse::Get(page)) = answer.op_responses().into_iter().next() else {
                return Ok(Some(entries));
            };
            for found in page.kvs() {
                let (incarnation, number) = self.keys.parse_record(found.key()).ok_or_else(|| OrderError::Damaged {
                    what: format!("{} is no record's key", String::from_utf8_lossy(found.key())),
                })?;
                entries.push(Entry { revision: found.mod_revision(), incarnation, number });
            }
            match page.kvs().last().filter(|_| page.more()) {
                Some(last) => from = [last.key(), &[0]].concat(),
                None => return Ok(Some(entries)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcd::keys::TrimmedTo;

    /// A log with this head, trimmed to this slot. Its last `left` records are there.
    fn list(head: u64, trimmed: u64, left: u64) -> List {
        let trimmed = TrimmedTo { slot: trimmed, ..TrimmedTo::default() };
        let state = State { revision: 100, head, trimmed, trimmed_revision: 0 };
        let entries =
            (head - left..head).map(|n| Entry { revision: n as i64 + 1, incarnation: 1, number: n }).collect();
        List { state, entries }
    }

    #[test]
    fn records_after_a_slot_are_all_or_none() {
        let numbers =
            |list: List, slot| list.after(slot).map(|entries| entries.iter().map(|e| e.number).collect::<Vec<_>>());
        assert_eq!(numbers(list(5, 0, 5), 0), Some(vec![0, 1, 2, 3, 4]));
        assert_eq!(numbers(list(5, 2, 3), 2), Some(vec![2, 3, 4]));
        assert_eq!(numbers(list(5, 2, 3), 5), Some(vec![]));
        // Trimmed, and not all deleted yet.
        assert_eq!(numbers(list(5, 2, 5), 2), Some(vec![2, 3, 4]));
        assert_eq!(numbers(list(5, 2, 5), 1), None);
        // The numbers do not agree.
        assert_eq!(numbers(list(5, 0, 3), 1), None);
        assert_eq!(numbers(list(5, 0, 5), 6), None);
    }
}
