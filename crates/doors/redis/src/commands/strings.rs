//! Strings.

use super::expiry::{ExpiryUnit, resolve_expiry};
use super::{ALL_KEYS, Call, Done, ONE_KEY, PAIRS_WITH_KEYS, Verb, reading, writing};
use crate::client_memory::REPLY_TOO_LONG;
use crate::clock::Moment;
use crate::datum::{Datum, DatumKind};
use crate::held::Held;
use crate::number::{add_decimals, parse_integer, resolve_range};
use crate::problem::{Problem, SYNTAX_ERROR, WRONG_TYPE, said};
use crate::request::MAX_WORD_BYTES;
use crate::resp::Resp;

pub const COMMAND_TABLE: &[Verb] = &[
    reading("get", 2, ONE_KEY, get),
    writing("set", -3, ONE_KEY, set),
    writing("setnx", 3, ONE_KEY, setnx),
    writing("setex", 4, ONE_KEY, |call| set_expiring(call, ExpiryUnit::Seconds)),
    writing("psetex", 4, ONE_KEY, |call| set_expiring(call, ExpiryUnit::Millis)),
    writing("getset", 3, ONE_KEY, getset),
    writing("getdel", 2, ONE_KEY, getdel),
    writing("getex", -2, ONE_KEY, getex),
    reading("mget", -2, ALL_KEYS, mget),
    writing("mset", -3, PAIRS_WITH_KEYS, mset),
    writing("msetnx", -3, PAIRS_WITH_KEYS, msetnx),
    writing("append", 3, ONE_KEY, append),
    reading("strlen", 2, ONE_KEY, strlen),
    reading("getrange", 4, ONE_KEY, getrange),
    reading("substr", 4, ONE_KEY, getrange),
    writing("setrange", 4, ONE_KEY, setrange),
    writing("incr", 2, ONE_KEY, |call| increase(call, Ok(1))),
    writing("decr", 2, ONE_KEY, |call| increase(call, Ok(-1))),
    writing("incrby", 3, ONE_KEY, |call| increase(call, call.integer(2))),
    writing("decrby", 3, ONE_KEY, decrby),
    writing("incrbyfloat", 3, ONE_KEY, incrbyfloat),
];

/// The value of a string; none if the key does not exist.
pub fn string(call: &mut Call<'_, '_>, key: &[u8]) -> Result<Option<Vec<u8>>, Problem> {
    Ok(call.pass.value::<Vec<u8>>(call.db, key)?.map(|bytes| bytes.clone()))
}

/// Refuses a string that no reply could hold.
pub fn check_string_length(length: usize) -> Result<(), Problem> {
    match length > MAX_WORD_BYTES {
        true => Err(said("ERR string exceeds maximum allowed size (proto-max-bulk-len)")),
        false => Ok(()),
    }
}

fn new_string(bytes: &[u8], expiry: Option<Moment>) -> Held {
    Held::new(Datum::String(bytes.to_vec()), expiry)
}

fn get(call: &mut Call<'_, '_>) -> Done {
    Ok(Resp::bulk_or_nil(string(call, call.key())?))
}

fn set(call: &mut Call<'_, '_>) -> Done {
    let (mut only_new, mut only_old, mut returns_old, mut keeps_expiry, mut expiry) =
        (false, false, false, false, None);
    call.options(3, |name, at| {
        let unit = match name {
            b"NX" if !only_old => {
                only_new = true;
                return Ok(1);
            }
            b"XX" if !only_new => {
                only_old = true;
                return Ok(1);
            }
            b"GET" => {
                returns_old = true;
                return Ok(1);
            }
            b"KEEPTTL" if expiry.is_none() => {
                keeps_expiry = true;
                return Ok(1);
            }
            _ => ExpiryUnit::of_option(name).ok_or(SYNTAX_ERROR)?,
        };
        if keeps_expiry || expiry.is_some() || at + 1 >= call.words.len() {
            return Err(SYNTAX_ERROR);
        }
        expiry = Some((unit, at + 1));
        Ok(2)
    })?;
    let (key, value) = (call.key(), call.word(2));
    let expiry = match expiry {
        Some((unit, at)) => Some(positive_expiry(call, unit, at)?),
        None => None,
    };
    let looks = only_new || only_old || keeps_expiry || returns_old;
    let old = if returns_old { Some(string(call, key)?) } else { None };
    let (exists, kept) = match looks {
        true => call.pass.peek(call.db, key)?.map_or((false, None), |held| (true, held.expiry)),
        false => (false, None),
    };
    let is_refused = (only_new && exists) || (only_old && !exists);
    if !is_refused {
        let expiry = if keeps_expiry { kept } else { expiry };
        call.pass.put_or_expire(call.db, key, new_string(value, expiry))?;
    }
    Ok(match (old, is_refused) {
        (Some(old), _) => Resp::bulk_or_nil(old),
        (None, true) => Resp::Nil,
        (None, false) => Resp::OK_REPLY,
    })
}

fn positive_expiry(call: &Call<'_, '_>, unit: ExpiryUnit, at: usize) -> Result<Moment, Problem> {
    let time = call.integer(at)?;
    let name = call.name();
    let invalid = || Problem::from(format!("ERR invalid expire time in '{name}' command"));
    if time <= 0 {
        return Err(invalid());
    }
    resolve_expiry(time, unit, call.pass.now).ok_or_else(invalid)
}

fn setnx(call: &mut Call<'_, '_>) -> Done {
    if call.pass.peek(call.db, call.key())?.is_some() {
        return Ok(Resp::Number(0));
    }
    call.pass.put(call.db, call.key(), new_string(call.word(2), None))?;
    Ok(Resp::Number(1))
}

fn set_expiring(call: &mut Call<'_, '_>, unit: ExpiryUnit) -> Done {
    let expiry = positive_expiry(call, unit, 2)?;
    call.pass.put_or_expire(call.db, call.key(), new_string(call.word(3), Some(expiry)))?;
    Ok(Resp::OK_REPLY)
}

fn getset(call: &mut Call<'_, '_>) -> Done {
    let old = string(call, call.key())?;
    call.pass.put(call.db, call.key(), new_string(call.word(2), None))?;
    Ok(Resp::bulk_or_nil(old))
}

fn getdel(call: &mut Call<'_, '_>) -> Done {
    let old = string(call, call.key())?;
    call.pass.remove(call.db, call.key())?;
    Ok(Resp::bulk_or_nil(old))
}

fn getex(call: &mut Call<'_, '_>) -> Done {
    let mut wanted = None;
    call.options(2, |name, at| {
        let unit = match name {
            _ if wanted.is_some() => return Err(SYNTAX_ERROR),
            b"PERSIST" => {
                wanted = Some(None);
                return Ok(1);
            }
            _ => ExpiryUnit::of_option(name).ok_or(SYNTAX_ERROR)?,
        };
        wanted = Some(Some((unit, at + 1)));
        Ok(2)
    })?;
    let wanted = match wanted {
        Some(Some((unit, at))) => Some(Some(positive_expiry(call, unit, at)?)),
        Some(None) => Some(None),
        None => None,
    };
    let value = string(call, call.key())?;
    match wanted {
        Some(Some(expiry)) if expiry <= call.pass.now => {
            call.pass.remove(call.db, call.key())?;
        }
        Some(expiry) => call.pass.set_expiry(call.db, call.key(), expiry)?,
        None => {}
    }
    Ok(Resp::bulk_or_nil(value))
}

fn mget(call: &mut Call<'_, '_>) -> Done {
    let (mut values, mut length) = (Vec::new(), 0);
    for key in call.words_from(1) {
        values.push(match string(call, key) {
            Ok(value) => {
                // A short request may name a long value a million times.
                length += value.as_ref().map_or(0, Vec::len);
                if length > call.server.memory.max_reply_bytes() {
                    return Err(said(REPLY_TOO_LONG));
                }
                Resp::bulk_or_nil(value)
            }
            // Keys with other types count as missing.
            Err(Problem::Said(text)) if text.starts_with("WRONGTYPE") => Resp::Nil,
            Err(problem) => return Err(problem),
        });
    }
    Ok(Resp::Array(values))
}

fn check_pairs(call: &Call<'_, '_>) -> Result<(), Problem> {
    match call.words.len() % 2 {
        1 => Ok(()),
        _ => {
            let name = call.name();
            Err(format!("ERR wrong number of arguments for '{name}' command").into())
        }
    }
}

fn put_pairs(call: &mut Call<'_, '_>) -> Result<(), Problem> {
    for pair in call.words_from(1).chunks_exact(2) {
        call.pass.put(call.db, &pair[0], new_string(&pair[1], None))?;
    }
    Ok(())
}

fn mset(call: &mut Call<'_, '_>) -> Done {
    check_pairs(call)?;
    put_pairs(call)?;
    Ok(Resp::OK_REPLY)
}

fn msetnx(call: &mut Call<'_, '_>) -> Done {
    check_pairs(call)?;
    for pair in call.words_from(1).chunks_exact(2) {
        if call.pass.peek(call.db, &pair[0])?.is_some() {
            return Ok(Resp::Number(0));
        }
    }
    put_pairs(call)?;
    Ok(Resp::Number(1))
}

fn append(call: &mut Call<'_, '_>) -> Done {
    let (key, more) = (call.key(), call.word(2));
    let length = call.pass.value::<Vec<u8>>(call.db, key)?.map_or(0, |bytes| bytes.len());
    check_string_length(length + more.len())?;
    let bytes = call.pass.value_or_new::<Vec<u8>>(call.db, key)?;
    bytes.extend_from_slice(more);
    let length = bytes.len();
    call.pass.note_change(call.db, key);
    Ok(Resp::count(length))
}

fn strlen(call: &mut Call<'_, '_>) -> Done {
    match call.pass.peek(call.db, call.key())? {
        None => Ok(Resp::Number(0)),
        Some(held) if held.kind == DatumKind::String => Ok(Resp::Number(held.string_length() as i64)),
        Some(_) => Err(WRONG_TYPE),
    }
}

fn getrange(call: &mut Call<'_, '_>) -> Done {
    let (start, stop) = (call.integer(2)?, call.integer(3)?);
    let length = match call.pass.peek(call.db, call.key())? {
        None => 0,
        Some(held) if held.kind == DatumKind::String => held.string_length(),
        Some(_) => return Err(WRONG_TYPE),
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    // With both bounds before the beginning, Redis returns nothing.
    let is_empty = start < 0 && stop < 0 && start > stop;
    match resolve_range(start, stop.max(-(length as i64)), length).filter(|_| !is_empty) {
        Some((first, last)) => Ok(Resp::Bulk(call.pass.range(call.db, call.key(), first as u64, last as u64 + 1)?)),
        None => Ok(Resp::Bulk(Vec::new())),
    }
}

fn setrange(call: &mut Call<'_, '_>) -> Done {
    let (key, more) = (call.key(), call.word(3));
    let offset = usize::try_from(call.integer(2)?).map_err(|_| said("ERR offset is out of range"))?;
    let length = call.pass.value::<Vec<u8>>(call.db, key)?.map_or(0, |bytes| bytes.len());
    if more.is_empty() {
        return Ok(Resp::count(length));
    }
    check_string_length(offset.saturating_add(more.len()))?;
    let bytes = call.pass.value_or_new::<Vec<u8>>(call.db, key)?;
    let end = offset + more.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(more);
    let length = bytes.len();
    call.pass.note_change(call.db, key);
    Ok(Resp::count(length))
}

/// Replaces a string; it keeps its expiry.
fn replace(call: &mut Call<'_, '_>, key: &[u8], text: String) -> Result<(), Problem> {
    *call.pass.value_or_new::<Vec<u8>>(call.db, key)? = text.into_bytes();
    call.pass.note_change(call.db, key);
    Ok(())
}

fn increase(call: &mut Call<'_, '_>, by: Result<i64, Problem>) -> Done {
    let (key, by) = (call.key(), by?);
    let value = string(call, key)?.map_or(Ok(0), |bytes| parse_integer(&bytes))?;
    let value = value.checked_add(by).ok_or(said("ERR increment or decrement would overflow"))?;
    replace(call, key, value.to_string())?;
    Ok(Resp::Number(value))
}

fn decrby(call: &mut Call<'_, '_>) -> Done {
    let by = call.integer(2)?;
    increase(call, by.checked_neg().ok_or(said("ERR decrement would overflow")))
}

fn incrbyfloat(call: &mut Call<'_, '_>) -> Done {
    let key = call.key();
    let value = string(call, key)?.unwrap_or_else(|| b"0".to_vec());
    let sum = add_decimals(&value, call.word(2))?;
    replace(call, key, sum.clone())?;
    Ok(Resp::Bulk(sum.into_bytes()))
}
