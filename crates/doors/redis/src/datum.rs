//! [`Datum`]: the value of a key, and how objects of the store hold it.
//!
//! A string is the bytes of an object. The other types are small documents: an object whose bytes are the encoded value, with
//! the attribute [`TYPE_ATTRIBUTE`]. So each change of one is a change of a whole object.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// The attribute that names the type of a document. Objects without it are strings.
pub const TYPE_ATTRIBUTE: &str = "terrace.redis";

/// The attribute with the number that clients of memcached keep with a value. Objects without it have 0.
pub const FLAGS_ATTRIBUTE: &str = "terrace.flags";

/// A hash. Its fields are in the order in which they were first set.
pub type Fields = IndexMap<Vec<u8>, Vec<u8>>;
/// A list.
pub type Elements = VecDeque<Vec<u8>>;
/// A set.
pub type Members = BTreeSet<Vec<u8>>;
/// A sorted set: members with their scores.
pub type Scores = BTreeMap<Vec<u8>, f64>;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatumKind {
    /// Bytes.
    String,
    /// Fields with values.
    Hash,
    /// A sequence.
    List,
    /// Different members.
    Set,
    /// Members in the order of their scores.
    SortedSet,
}

impl DatumKind {
    /// The name that `TYPE` shows, and that documents have in their attribute.
    pub fn name(self) -> &'static str {
        match self {
            DatumKind::String => "string",
            DatumKind::Hash => "hash",
            DatumKind::List => "list",
            DatumKind::Set => "set",
            DatumKind::SortedSet => "zset",
        }
    }

    /// The kind with this name.
    pub fn named(name: &str) -> Option<DatumKind> {
        let all = [DatumKind::String, DatumKind::Hash, DatumKind::List, DatumKind::Set, DatumKind::SortedSet];
        all.into_iter().find(|kind| kind.name() == name)
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// Bytes.
    String(Vec<u8>),
    /// Fields with values.
    Hash(Fields),
    /// A sequence.
    List(Elements),
    /// Different members.
    Set(Members),
    /// Members with scores.
    SortedSet(Scores),
}

impl Datum {
    /// The type.
    pub fn kind(&self) -> DatumKind {
        match self {
            Datum::String(_) => DatumKind::String,
            Datum::Hash(_) => DatumKind::Hash,
            Datum::List(_) => DatumKind::List,
            Datum::Set(_) => DatumKind::Set,
            Datum::SortedSet(_) => DatumKind::SortedSet,
        }
    }

    /// Whether it is a document without elements. Such a key does not exist.
    pub fn is_gone(&self) -> bool {
        match self {
            Datum::String(_) => false,
            Datum::Hash(fields) => fields.is_empty(),
            Datum::List(elements) => elements.is_empty(),
            Datum::Set(members) => members.is_empty(),
            Datum::SortedSet(scores) => scores.is_empty(),
        }
    }

    /// The bytes of its object: sequences of byte strings, in the format of postcard.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Datum::String(bytes) => bytes.clone(),
            Datum::Hash(fields) => pack(fields.iter().map(|(field, value)| (Packed(field), Packed(value)))),
            Datum::List(elements) => pack(elements.iter().map(|element| Packed(element))),
            Datum::Set(members) => pack(members.iter().map(|member| Packed(member))),
            Datum::SortedSet(scores) => pack(scores.iter().map(|(member, score)| (Packed(member), *score))),
        }
    }

    /// Decodes the bytes of an object; none if they are damaged.
    pub fn decode(kind: DatumKind, bytes: Vec<u8>) -> Option<Datum> {
        let pair = |(a, b): (ByteBuf, ByteBuf)| (a.into_vec(), b.into_vec());
        Some(match kind {
            DatumKind::String => Datum::String(bytes),
            DatumKind::Hash => Datum::Hash(unpack::<(ByteBuf, ByteBuf)>(&bytes)?.into_iter().map(pair).collect()),
            DatumKind::List => Datum::List(unpack::<ByteBuf>(&bytes)?.into_iter().map(ByteBuf::into_vec).collect()),
            DatumKind::Set => Datum::Set(unpack::<ByteBuf>(&bytes)?.into_iter().map(ByteBuf::into_vec).collect()),
            DatumKind::SortedSet => {
                let scores = unpack::<(ByteBuf, f64)>(&bytes)?;
                if scores.iter().any(|(_, score)| score.is_nan()) {
                    return None;
                }
                Datum::SortedSet(scores.into_iter().map(|(member, score)| (member.into_vec(), score)).collect())
            }
        })
    }
}

#[derive(Serialize)]
struct Packed<'a>(#[serde(with = "serde_bytes")] &'a [u8]);

fn pack<T: Serialize>(all: impl Iterator<Item = T>) -> Vec<u8> {
    // Writing to memory cannot fail, and every element can be encoded.
    postcard::to_stdvec(&all.collect::<Vec<T>>()).unwrap_or_default()
}

fn unpack<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<Vec<T>> {
    let (all, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(all)
}

/// The Rust type of each kind of value.
pub trait DatumType: Default {
    /// The value, if it is of this type.
    fn of(datum: &mut Datum) -> Option<&mut Self>;
    /// Makes a value of it.
    fn into_datum(self) -> Datum;
}

macro_rules! datum_types {
    ($($kind:ident: $rust:ty),*) => {$(
        impl DatumType for $rust {
            fn of(datum: &mut Datum) -> Option<&mut Self> {
                if let Datum::$kind(value) = datum { Some(value) } else { None }
            }
            fn into_datum(self) -> Datum {
                Datum::$kind(self)
            }
        }
    )*};
}

datum_types!(String: Vec<u8>, Hash: Fields, List: Elements, Set: Members, SortedSet: Scores);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..9)
    }

    fn datum() -> impl Strategy<Value = Datum> {
        let score = prop_oneof![any::<f64>().prop_filter("no number", |score| !score.is_nan()), Just(f64::INFINITY)];
        prop_oneof![
            bytes().prop_map(Datum::String),
            prop::collection::vec((bytes(), bytes()), 0..5).prop_map(|pairs| Datum::Hash(pairs.into_iter().collect())),
            prop::collection::vec_deque(bytes(), 0..5).prop_map(Datum::List),
            prop::collection::btree_set(bytes(), 0..5).prop_map(Datum::Set),
            prop::collection::btree_map(bytes(), score, 0..5).prop_map(Datum::SortedSet),
        ]
    }

    proptest! {
        #[test]
        fn values_come_back_as_they_were(datum in datum()) {
            prop_assert_eq!(Datum::decode(datum.kind(), datum.encode()), Some(datum.clone()));
            prop_assert_eq!(DatumKind::named(datum.kind().name()), Some(datum.kind()));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..99)) {
            for name in ["hash", "list", "set", "zset"] {
                Datum::decode(DatumKind::named(name).unwrap(), bytes.clone());
            }
        }
    }
}
