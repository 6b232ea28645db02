//! Serialises encodings as their names, for people who read the output.

use serde::{Deserialize, Deserializer, Serializer, de};
use terrace_codec::Encoding;

pub(crate) fn serialize<S: Serializer>(encoding: &Encoding, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(encoding)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Encoding, D::Error> {
    String::deserialize(from)?.parse().map_err(de::Error::custom)
}
