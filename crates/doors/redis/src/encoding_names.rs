//! The names of encodings that `OBJECT ENCODING` shows: those that Redis 7.0 would use. Clients and tests of Redis ask for them; the
//! store's own encodings are shown by `terrace locate`.

use crate::datum::Datum;
use crate::number::parse_integer;

/// The longest string that Redis keeps beside its header.
const MAX_EMBEDDED_BYTES: usize = 44;

/// The lengths up to which Redis uses its compact forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodingLimits {
    /// Elements of a hash.
    pub hash_entries: i64,
    /// Bytes of a field or value of a hash.
    pub hash_value: i64,
    /// The size of a node of a list. A list has one encoding, whatever this is.
    pub list_size: i64,
    /// The nodes at the ends of a list that are not compressed. A list has one encoding, whatever this is.
    pub list_depth: i64,
    /// Members of a set of whole numbers.
    pub set_entries: i64,
    /// Members of a sorted set.
    pub zset_entries: i64,
    /// Bytes of a member of a sorted set.
    pub zset_value: i64,
}

impl Default for EncodingLimits {
    fn default() -> EncodingLimits {
        EncodingLimits {
            hash_entries: 512,
            hash_value: 64,
            list_size: -2,
            list_depth: 0,
            set_entries: 512,
            zset_entries: 128,
            zset_value: 64,
        }
    }
}

/// The name of the encoding.
pub fn encoding_name(datum: &Datum, limits: &EncodingLimits) -> &'static str {
    let fits = |length: usize, limit: i64| i64::try_from(length).is_ok_and(|length| length <= limit);
    match datum {
        Datum::String(bytes) if parse_integer(bytes).is_ok() => "int",
        Datum::String(bytes) if bytes.len() <= MAX_EMBEDDED_BYTES => "embstr",
        Datum::String(_) => "raw",
        Datum::Hash(fields) => {
            let is_short = |bytes: &Vec<u8>| fits(bytes.len(), limits.hash_value);
            let is_small = fits(fields.len(), limits.hash_entries);
            let is_compact = is_small && fields.iter().all(|(field, value)| is_short(field) && is_short(value));
            if is_compact { "listpack" } else { "hashtable" }
        }
        Datum::List(_) => "quicklist",
        Datum::Set(members) => {
            let is_small = fits(members.len(), limits.set_entries);
            let is_compact = is_small && members.iter().all(|member| parse_integer(member).is_ok());
            if is_compact { "intset" } else { "hashtable" }
        }
        Datum::SortedSet(scores) => {
            let is_small = fits(scores.len(), limits.zset_entries);
            let is_compact = is_small && scores.keys().all(|member| fits(member.len(), limits.zset_value));
            if is_compact { "listpack" } else { "skiplist" }
        }
    }
}
