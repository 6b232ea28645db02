//! Values as bytes that another server can restore.

use super::expiry::{ExpiryUnit, resolve_expiry};
use super::{Call, Done, ONE_KEY, Verb, reading, writing};
use crate::datum::{Datum, DatumKind};
use crate::held::Held;
use crate::problem::{SYNTAX_ERROR, said};
use crate::resp::Resp;

pub const COMMAND_TABLE: &[Verb] = &[reading("dump", 2, ONE_KEY, dump), writing("restore", -4, ONE_KEY, restore)];

/// Begins a dumped value. Those of Redis, which have another format, are refused.
const DUMP_MAGIC: &[u8] = b"TRRD1";
/// The checksum behind the value.
const CHECKSUM_BYTES: usize = 4;
/// The kinds of values, by their numbers in dumps.
const DUMPED_KINDS: [DatumKind; 5] =
    [DatumKind::String, DatumKind::Hash, DatumKind::List, DatumKind::Set, DatumKind::SortedSet];

fn encode(datum: &Datum) -> Vec<u8> {
    let kind = DUMPED_KINDS.iter().position(|kind| *kind == datum.kind()).unwrap_or_default();
    let mut bytes = [DUMP_MAGIC, &[kind as u8], &datum.encode()].concat();
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<Datum> {
    let (checked, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM_BYTES)?)?;
    if checksum != crc32c::crc32c(checked).to_le_bytes() {
        return None;
    }
    let (kind, value) = checked.strip_prefix(DUMP_MAGIC)?.split_first()?;
    Datum::decode(*DUMPED_KINDS.get(usize::from(*kind))?, value.to_vec()).filter(|datum| !datum.is_gone())
}

fn dump(call: &mut Call<'_, '_>) -> Done {
    let datum = call.pass.datum(call.db, call.key())?;
    Ok(datum.map_or(Resp::Nil, |datum| Resp::Bulk(encode(datum))))
}

fn restore(call: &mut Call<'_, '_>) -> Done {
    let (mut replaces, mut is_moment) = (false, false);
    call.options(4, |name, at| match name {
        b"REPLACE" => {
            replaces = true;
            Ok(1)
        }
        b"ABSTTL" => {
            is_moment = true;
            Ok(1)
        }
        // The store counts reads itself.
        b"IDLETIME" | b"FREQ" if at + 1 < call.words.len() => match call.integer(at + 1)? {
            0.. => Ok(2),
            _ => Err(said("ERR Invalid IDLETIME or FREQ value, must be >= 0")),
        },
        _ => Err(SYNTAX_ERROR),
    })?;
    if !replaces && call.pass.peek(call.db, call.key())?.is_some() {
        return Err(said("BUSYKEY Target key name already exists."));
    }
    let time = call.integer(2)?;
    if time < 0 {
        return Err(said("ERR Invalid TTL value, must be >= 0"));
    }
    let datum = decode(call.word(3)).ok_or(said("ERR DUMP payload version or checksum are wrong"))?;
    let unit = if is_moment { ExpiryUnit::AtMilli } else { ExpiryUnit::Millis };
    let expiry = match time {
        0 => None,
        _ => Some(resolve_expiry(time, unit, call.pass.now).ok_or(said("ERR Invalid TTL value"))?),
    };
    match expiry.is_some_and(|expiry| expiry <= call.pass.now) {
        true => drop(call.pass.remove(call.db, call.key())?),
        false => call.pass.put(call.db, call.key(), Held::new(datum, expiry))?,
    }
    Ok(Resp::OK_REPLY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_that_was_changed_is_refused() {
        let datum = Datum::Set([b"a".to_vec(), b"b".to_vec()].into());
        let good = encode(&datum);
        assert_eq!(decode(&good), Some(datum));
        for at in 0..good.len() {
            let mut wrong = good.clone();
            wrong[at] ^= 1;
            assert_eq!(decode(&wrong), None);
            assert_eq!(decode(&good[..at]), None);
        }
        assert_eq!(decode(b"\x00\x011\x0a\x00\xdf\xd5\x91\x1b\x1c\xb6\x3d\x11"), None, "a value of Redis");
    }
}
