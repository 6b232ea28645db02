//! When keys expire.

use super::{Call, Done, ONE_KEY, Verb, reading, writing};
use crate::clock::Moment;
use crate::problem::{Problem, said};
use crate::resp::Resp;

pub const COMMAND_TABLE: &[Verb] = &[
    writing("expire", -3, ONE_KEY, |call| expire(call, ExpiryUnit::Seconds)),
    writing("pexpire", -3, ONE_KEY, |call| expire(call, ExpiryUnit::Millis)),
    writing("expireat", -3, ONE_KEY, |call| expire(call, ExpiryUnit::AtSecond)),
    writing("pexpireat", -3, ONE_KEY, |call| expire(call, ExpiryUnit::AtMilli)),
    reading("ttl", 2, ONE_KEY, |call| left(call, |left| (left + 500) / 1000)),
    reading("pttl", 2, ONE_KEY, |call| left(call, |left| left)),
    reading("expiretime", 2, ONE_KEY, |call| expires(call, 1000)),
    reading("pexpiretime", 2, ONE_KEY, |call| expires(call, 1)),
    writing("persist", 2, ONE_KEY, persist),
];

/// How a time is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryUnit {
    /// Seconds from now.
    Seconds,
    /// Milliseconds from now.
    Millis,
    /// Seconds since 1970.
    AtSecond,
    /// Milliseconds since 1970.
    AtMilli,
}

impl ExpiryUnit {
    /// The unit of the option with this name, in capitals.
    pub fn of_option(name: &[u8]) -> Option<ExpiryUnit> {
        Some(match name {
            b"EX" => ExpiryUnit::Seconds,
            b"PX" => ExpiryUnit::Millis,
            b"EXAT" => ExpiryUnit::AtSecond,
            b"PXAT" => ExpiryUnit::AtMilli,
            _ => return None,
        })
    }
}

/// The moment that a time means; none if it is out of range.
pub fn resolve_expiry(time: i64, unit: ExpiryUnit, now: Moment) -> Option<Moment> {
    let millis = match unit {
        ExpiryUnit::Seconds => time.checked_mul(1000)?.checked_add(now.millis())?,
        ExpiryUnit::Millis => time.checked_add(now.millis())?,
        ExpiryUnit::AtSecond => time.checked_mul(1000)?,
        ExpiryUnit::AtMilli => time,
    };
    // The store counts nanoseconds. What is later than they reach is as good as never.
    Some(Moment::from_millis(millis).unwrap_or(Moment::from_nanos(u64::MAX)))
}

fn expire(call: &mut Call<'_, '_>, unit: ExpiryUnit) -> Done {
    let key = call.key();
    let time = call.integer(2)?;
    let (mut only_without, mut only_with, mut only_later, mut only_earlier) = (false, false, false, false);
    call.options(3, |name, at| {
        match name {
            b"NX" => only_without = true,
            b"XX" => only_with = true,
            b"GT" => only_later = true,
            b"LT" => only_earlier = true,
            _ => {
                let word = String::from_utf8_lossy(call.word(at));
                return Err(Problem::from(format!("ERR Unsupported option {word}")));
            }
        }
        Ok(1)
    })?;
    if only_without && (only_with || only_later || only_earlier) {
        return Err(said("ERR NX and XX, GT or LT options at the same time are not compatible"));
    }
    if only_later && only_earlier {
        return Err(said("ERR GT and LT options at the same time are not compatible"));
    }
    let name = call.name();
    let new = resolve_expiry(time, unit, call.pass.now);
    let new = new.ok_or_else(|| Problem::from(format!("ERR invalid expire time in '{name}' command")))?;
    let Some(held) = call.pass.peek(call.db, key)? else { return Ok(Resp::Number(0)) };
    let is_refused = match held.expiry {
        Some(old) => only_without || (only_later && new <= old) || (only_earlier && new >= old),
        // Without an expiry, a key lives for ever.
        None => only_with || only_later,
    };
    if is_refused {
        return Ok(Resp::Number(0));
    }
    match new <= call.pass.now {
        true => drop(call.pass.remove(call.db, key)?),
        false => call.pass.set_expiry(call.db, key, Some(new))?,
    }
    Ok(Resp::Number(1))
}

fn left(call: &mut Call<'_, '_>, unit: impl Fn(i64) -> i64) -> Done {
    let now = call.pass.now.millis();
    Ok(Resp::Number(match call.pass.peek(call.db, call.key())?.map(|held| held.expiry) {
        None => -2,
        Some(None) => -1,
        Some(Some(expiry)) => unit((expiry.millis() - now).max(0)),
    }))
}

fn expires(call: &mut Call<'_, '_>, millis: i64) -> Done {
    Ok(Resp::Number(match call.pass.peek(call.db, call.key())?.map(|held| held.expiry) {
        None => -2,
        Some(None) => -1,
        Some(Some(expiry)) => expiry.millis() / millis,
    }))
}

fn persist(call: &mut Call<'_, '_>) -> Done {
    match call.pass.peek(call.db, call.key())?.and_then(|held| held.expiry) {
        Some(_) => call.pass.set_expiry(call.db, call.key(), None)?,
        None => return Ok(Resp::Number(0)),
    }
    Ok(Resp::Number(1))
}
