//! The keys of one store in etcd, and the values of those that have one.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use terrace_system::fail;

use crate::OrderError;

/// The newest format of a log that this version reads and writes.
const NEWEST_LOG_FORMAT: u32 = 1;

/// The keys of one store. All begin with `/terrace/<store>/`.
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(store: u64) -> Keys {
        Keys { prefix: format!("/terrace/{store:016x}/") }
    }

    /// The prefix of all keys.
    pub(super) fn all(&self) -> String {
        self.prefix.clone()
    }

    /// [`Format`]. Appends need its present revision, so a change of the format stops all who do not know it.
    pub(super) fn format(&self) -> String {
        self.key("v")
    }

    /// [`LogIdentity`](crate::LogIdentity): a random number that is made with the log. Another number is another log.
    pub(super) fn council(&self) -> String {
        self.key("council")
    }

    /// Empty, and put by every append: its version is the slot of the last record. It is never deleted.
    pub(super) fn head(&self) -> String {
        self.key("h")
    }

    /// [`TrimmedTo`].
    pub(super) fn trimmed(&self) -> String {
        self.key("t")
    }

    /// The incarnation of the keeper, in hexadecimal, with the lease of its fence.
    pub(super) fn keeper(&self) -> String {
        self.key("k")
    }

    /// [`OfferedSnapshot`](crate::OfferedSnapshot).
    pub(super) fn snapshot(&self, node: &str) -> String {
        self.key(&format!("s/{node}"))
    }

    /// The node of the key of a snapshot or a fence.
    pub(super) fn parse_node(&self, key: &[u8]) -> Option<String> {
        let name = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?;
        Some(name.strip_prefix("s/").or_else(|| name.strip_prefix("n/"))?.to_owned())
    }

    /// A node's fence, which has the node's lease. Its create revision is the incarnation. The join puts it, and so does each append:
    /// its version is one more than the number of records.
    pub(super) fn fence(&self, node: &str) -> String {
        self.key(&format!("n/{node}"))
    }

    pub(super) fn record(&self, incarnation: u64, number: u64) -> String {
        self.key(&format!("l/{incarnation:016x}/{number:016x}"))
    }

    /// The keys of all records: from the first, to the second exclusively.
    pub(super) fn all_records(&self) -> (String, String) {
        (self.key("l/"), self.key("l0"))
    }

    /// A range that has all records and the head.
    pub(super) fn watched(&self) -> (String, String) {
        (self.head(), self.key("m"))
    }

    /// The incarnation and the number of the record with this key.
    pub(super) fn parse_record(&self, key: &[u8]) -> Option<(u64, u64)> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?.strip_prefix("l/")?;
        let (incarnation, number) = rest.split_once('/')?;
        let hex = |digits: &str| (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok()).flatten();
        Some((hex(incarnation)?, hex(number)?))
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

/// The formats of a log. Also the value of a fence: what its node reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Format {
    /// A node must know this format to read the log.
    pub least_reader: u32,
    /// The format of new records.
    pub writer: u32,
}

impl Format {
    /// The newest format that this version knows.
    pub(super) fn newest_known() -> Format {
        // Tests let a program know another one.
        let newest = fail::limit("TERRACE_LOG_FORMAT", NEWEST_LOG_FORMAT.into()) as u32;
        Format { least_reader: newest, writer: newest }
    }

    /// Checks that this version knows the format.
    pub(super) fn check(self) -> Result<(), OrderError> {
        let (found, known) = (self.least_reader.max(self.writer), Format::newest_known().writer);
        if found > known {
            return Err(OrderError::Newer { found, known });
        }
        Ok(())
    }
}

/// How far the log is trimmed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TrimmedTo {
    /// All records up to this slot may be gone.
    pub slot: u64,
    /// The number of the next record of each incarnation, as of that slot. A record with a lower number was in the log.
    pub next: BTreeMap<u64, u64>,
}

impl TrimmedTo {
    /// Returns whether a record was in the log up to the slot.
    pub(super) fn has(&self, incarnation: u64, number: u64) -> bool {
        self.next.get(&incarnation).is_some_and(|next| number < *next)
    }
}

pub(super) fn encode(value: &impl Serialize) -> Vec<u8> {
    // Encoding into memory fails for types without a known length only, and there are none.
    postcard::to_stdvec(value).unwrap_or_default()
}

pub(super) fn decode<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, OrderError> {
    postcard::from_bytes(value)
        .map_err(|e| OrderError::Damaged { what: format!("the value of {key} does not decode: {e}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcd::state::encode_identity;
    use crate::{LogIdentity, LostLog, OfferedSnapshot};

    /// Other nodes, and later versions, read what is in etcd.
    #[test]
    fn values_are_written_as_ever() {
        let format = Format { least_reader: 1, writer: 300 };
        assert_eq!(encode(&format), [1, 0xac, 2]);
        assert_eq!(decode::<Format>("v", &[1, 0xac, 2]).unwrap(), format);
        let trimmed = TrimmedTo { slot: 300, next: BTreeMap::from([(7, 1), (200, 2)]) };
        let bytes = [0xac, 2, 2, 7, 1, 0xc8, 1, 2];
        assert_eq!(encode(&trimmed), bytes);
        assert_eq!(decode::<TrimmedTo>("t", &bytes).unwrap(), trimmed);
        let snapshot = OfferedSnapshot { slot: 300, chain: 200, length: 7, place: "a:1".to_owned() };
        let bytes = [0xac, 2, 0xc8, 1, 7, 3, b'a', b':', b'1'];
        assert_eq!(encode(&snapshot), bytes);
        assert_eq!(decode::<OfferedSnapshot>("s", &bytes).unwrap(), snapshot);
        let before = LostLog { number: 7, slot: 300 };
        assert_eq!(encode_identity(LogIdentity { number: 255, before: None }), "00000000000000ff");
        let text = "00000000000000ff 0000000000000007 000000000000012c";
        assert_eq!(encode_identity(LogIdentity { number: 255, before: Some(before) }), text);
    }

    #[test]
    fn the_key_of_a_record_is_read_back_and_no_other_key_is() {
        let keys = Keys::new(7);
        let key = keys.record(u64::MAX, 3);
        assert_eq!(key, "/terrace/0000000000000007/l/ffffffffffffffff/0000000000000003");
        assert_eq!(keys.parse_record(key.as_bytes()), Some((u64::MAX, 3)));
        let others = [&key[1..], &key[..key.len() - 1], &keys.head(), &keys.fence("a"), &Keys::new(8).record(1, 1)];
        for other in others {
            assert_eq!(keys.parse_record(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn the_watched_range_has_the_head_and_all_records_and_no_fence() {
        let keys = Keys::new(7);
        let (from, to) = keys.watched();
        let is_watched = |key: String| from <= key && key < to;
        assert!(
            is_watched(keys.head()) && is_watched(keys.record(0, 0)) && is_watched(keys.record(u64::MAX, u64::MAX))
        );
        assert!(![keys.fence("a"), keys.trimmed(), keys.format(), keys.council()].into_iter().any(is_watched));
        let (first, end) = keys.all_records();
        assert!(first < keys.record(0, 0) && keys.record(u64::MAX, u64::MAX) < end);
    }
}
