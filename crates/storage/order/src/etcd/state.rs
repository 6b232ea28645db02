//! [`Core`], which all calls share, and the keys that say where the log is.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use etcd_client::{Compare, CompareOp, GetOptions, KeyValue, Txn, TxnOp, TxnOpResponse, TxnResponse};

use super::keys::{Format, Keys, TrimmedTo, decode, encode};
use super::members::{Members, random, revision};
use crate::{LogIdentity, LostLog, OrderError};

/// One store's log in etcd, as one node sees it.
pub(super) struct Core {
    pub members: Arc<Members>,
    pub keys: Keys,
    pub node: String,
    /// Which log this is. A log with another identity is another log.
    pub identity: LogIdentity,
    /// The revision of the format that this node knows. Relaxed, as the comparison in each append is what holds.
    pub format_revision: AtomicI64,
    /// The highest slot of an answer. Relaxed: it is read before a call is sent and raised after the answer.
    head_seen: AtomicU64,
}

/// Where the log is, at one revision.
pub(super) struct State {
    pub revision: i64,
    /// The slot of the last record.
    pub head: u64,
    pub trimmed: TrimmedTo,
    /// The revision of `trimmed`.
    pub trimmed_revision: i64,
}

impl Core {
    /// Makes the log, unless it is there.
    pub(super) async fn make(members: &Members, keys: &Keys) -> Result<(), OrderError> {
        let is_absent = [keys.format(), keys.head()].map(|key| Compare::create_revision(key, CompareOp::Equal, 0));
        let council = encode_identity(LogIdentity { number: random(), before: None });
        let puts = [
            TxnOp::put(keys.format(), encode(&Format::newest_known()), None),
            TxnOp::put(keys.council(), council, None),
        ];
        members.txn(Txn::new().when(is_absent).and_then(puts)).await.map(drop)
    }

    /// Opens the log, which must be there.
    pub(super) async fn open(members: Arc<Members>, keys: Keys, store: u64, node: String) -> Result<Core, OrderError> {
        let gets = [get(keys.format()), get(keys.council())];
        let answer = members.txn(Txn::new().and_then(gets)).await?;
        let [Some(format), Some(council)] = only_values(&answer) else {
            return Err(OrderError::NoLog { store, servers: members.addresses() });
        };
        decode::<Format>(&keys.format(), format.value())?.check()?;
        let (format_revision, identity) = (AtomicI64::new(format.mod_revision()), decode_identity(&keys, &council)?);
        Ok(Core { members, keys, node, identity, format_revision, head_seen: AtomicU64::new(0) })
    }

    /// Returns where the log is now, and checks that it is the log that this node knows.
    pub(super) async fn state(&self) -> Result<State, OrderError> {
        let seen = self.head_seen();
        let keys = &self.keys;
        let gets = [get(keys.head()), get(keys.trimmed()), get(keys.format()), get(keys.council())];
        let answer = self.members.txn(Txn::new().and_then(gets)).await?;
        let [head, trimmed, format, council] = only_values(&answer);
        let council = council.as_ref().map(|council| decode_identity(keys, council)).transpose()?;
        if council != Some(self.identity) {
            return Err(ran_back("another log is in the place of this store's"));
        }
        self.adopt_format(format.as_ref())?;
        let head = head.map_or(0, |head| head.version() as u64);
        if head < seen {
            return Err(ran_back(format!("it ends at record {head}, and ended at {seen}")));
        }
        self.saw_head(head);
        let trimmed_revision = trimmed.as_ref().map_or(0, KeyValue::mod_revision);
        let trimmed = match trimmed {
            Some(value) => decode(&keys.trimmed(), value.value())?,
            None => TrimmedTo::default(),
        };
        Ok(State { revision: revision(&answer), head, trimmed, trimmed_revision })
    }

    /// Goes on with a format that has changed, if this version knows it. Returns false if it has not changed.
    pub(super) fn adopt_format(&self, format: Option<&KeyValue>) -> Result<bool, OrderError> {
        let format = format.ok_or_else(|| ran_back("its format is gone"))?;
        let has_changed = format.mod_revision() != self.format_revision.load(Ordering::Relaxed);
        if has_changed {
            decode::<Format>(&self.keys.format(), format.value())?.check()?;
            self.format_revision.store(format.mod_revision(), Ordering::Relaxed);
        }
        Ok(has_changed)
    }

    pub(super) fn head_seen(&self) -> u64 {
        self.head_seen.load(Ordering::Relaxed)
    }

    pub(super) fn saw_head(&self, head: u64) {
        self.head_seen.fetch_max(head, Ordering::Relaxed);
    }
}

/// The value of the key `council`: numbers in hexadecimal.
pub(super) fn encode_identity(LogIdentity { number, before }: LogIdentity) -> String {
    match before {
        None => format!("{number:016x}"),
        Some(before) => format!("{number:016x} {:016x} {:016x}", before.number, before.slot),
    }
}

pub(super) fn decode_identity(keys: &Keys, council: &KeyValue) -> Result<LogIdentity, OrderError> {
    let wrong = || OrderError::Damaged { what: format!("the value of {} is no number of a log", keys.council()) };
    let text = std::str::from_utf8(council.value()).map_err(|_| wrong())?;
    let numbers: Option<Vec<u64>> = text.split(' ').map(|word| u64::from_str_radix(word, 16).ok()).collect();
    match numbers.as_deref() {
        Some(&[number]) => Ok(LogIdentity { number, before: None }),
        Some(&[number, before, slot]) => Ok(LogIdentity { number, before: Some(LostLog { number: before, slot }) }),
        _ => Err(wrong()),
    }
}

pub(super) fn ran_back(what: impl Into<String>) -> OrderError {
    OrderError::RanBack { what: what.into() }
}

pub(super) fn get(key: impl Into<Vec<u8>>) -> TxnOp {
    TxnOp::get(key, None)
}

pub(super) fn get_key(key: impl Into<Vec<u8>>) -> TxnOp {
    TxnOp::get(key, Some(GetOptions::new().with_keys_only()))
}

/// The values that a transaction's gets of one key each found, in order.
pub(super) fn values(answer: &TxnResponse) -> impl Iterator<Item = Option<KeyValue>> {
    answer.op_responses().into_iter().filter_map(|operation| match operation {
        TxnOpResponse::Get(mut get) => Some(get.take_kvs().into_iter().next()),
        _ => None,
    })
}

/// The values that exactly this many gets found.
pub(super) fn only_values<const N: usize>(answer: &TxnResponse) -> [Option<KeyValue>; N] {
    let mut all = values(answer);
    std::array::from_fn(|_| all.next().flatten())
}
