//! Carries out commands in a pass.

use std::time::Duration;

use super::MEMCACHED_VERSION;
use super::command::{ItemDeed, MemcachedCommand, StoreWay};
use super::item_expiry::item_expiry;
use super::statistics::statistics;
use crate::commands::Done;
use crate::datum::Datum;
use crate::held::Held;
use crate::pass::Pass;
use crate::problem::Problem;
use crate::resp::Resp;
use crate::server_facts::ServerFacts;

/// The database whose strings are the items.
const ITEM_DATABASE: usize = 0;

/// The items of a longer reply are refused: a short line may name one a thousand times. A single item may be longer.
const MAX_GET_REPLY_BYTES: usize = 64 << 20;

const STORED_REPLY: Resp = Resp::Status("STORED");
const NOT_STORED_REPLY: Resp = Resp::Status("NOT_STORED");
const NOT_FOUND_REPLY: Resp = Resp::Status("NOT_FOUND");
const TOO_LONG_REPLY: Resp = Resp::Status("SERVER_ERROR object too large for cache");
const NO_NUMBER_REPLY: Resp = Resp::Status("CLIENT_ERROR cannot increment or decrement non-numeric value");

/// Carries out a command.
pub fn carry_out(pass: &mut Pass<'_>, command: &MemcachedCommand, facts: &ServerFacts) -> Done {
    match &command.deed {
        ItemDeed::Get { keys, with_unique, expiry } => get(pass, keys, *with_unique, *expiry, facts),
        ItemDeed::Store { way, key, flags, expiry, bytes } => {
            let expiry = item_expiry(*expiry, pass.now);
            let mut held = Held::new(Datum::String(bytes.clone()), expiry);
            held.set_flags(*flags);
            store(pass, *way, key, held, facts)
        }
        ItemDeed::StoreTooLong { removes_old, key } => {
            if *removes_old {
                pass.remove(ITEM_DATABASE, key)?;
            }
            Ok(TOO_LONG_REPLY)
        }
        ItemDeed::Count { key, delta, is_decrement } => count(pass, key, *delta, *is_decrement),
        ItemDeed::Touch { key, expiry } => match touch(pass, key, *expiry)? {
            true => Ok(Resp::Status("TOUCHED")),
            false => Ok(NOT_FOUND_REPLY),
        },
        ItemDeed::Delete { key } => match pass.remove(ITEM_DATABASE, key)? {
            true => Ok(Resp::Status("DELETED")),
            false => Ok(NOT_FOUND_REPLY),
        },
        ItemDeed::Flush { delay: 0 } => {
            facts.flush.cancel();
            pass.clear(ITEM_DATABASE)?;
            Ok(Resp::OK_REPLY)
        }
        ItemDeed::Flush { delay } => {
            facts.flush.plan(Duration::from_secs(*delay));
            Ok(Resp::OK_REPLY)
        }
        ItemDeed::Version => Ok(Resp::Plain(format!("VERSION {MEMCACHED_VERSION}\r\n").into_bytes())),
        ItemDeed::Stats => Ok(statistics(facts, pass.now)),
        ItemDeed::Say(line) => Ok(Resp::Status(line)),
        ItemDeed::Quit => Ok(Resp::NO_REPLY),
    }
}

fn get(pass: &mut Pass<'_>, keys: &[Vec<u8>], with_unique: bool, expiry: Option<i64>, facts: &ServerFacts) -> Done {
    let mut reply = Vec::new();
    for key in keys {
        let found = pass.read_held(ITEM_DATABASE, key)?;
        // Values of the other types of Redis are no items.
        let Some((held, bytes)) = found.and_then(|held| Some((held, held.string()?))) else {
            ServerFacts::count(&facts.misses);
            continue;
        };
        if !reply.is_empty() && reply.len() + bytes.len() > MAX_GET_REPLY_BYTES {
            return Ok(Resp::Status("SERVER_ERROR out of memory writing get response"));
        }
        ServerFacts::count(&facts.hits);
        reply.extend_from_slice(b"VALUE ");
        reply.extend_from_slice(key);
        reply.extend_from_slice(format!(" {} {}", held.flags(), bytes.len()).as_bytes());
        if with_unique {
            reply.extend_from_slice(format!(" {}", held.generation.unwrap_or_default()).as_bytes());
        }
        reply.extend_from_slice(b"\r\n");
        reply.extend_from_slice(bytes);
        reply.extend_from_slice(b"\r\n");
        if let Some(expiry) = expiry {
            touch(pass, key, expiry)?;
        }
    }
    reply.extend_from_slice(b"END\r\n");
    Ok(Resp::Plain(reply))
}

fn store(pass: &mut Pass<'_>, way: StoreWay, key: &[u8], held: Held, facts: &ServerFacts) -> Done {
    let old = if way == StoreWay::Set { None } else { pass.peek(ITEM_DATABASE, key)? };
    match (way, old) {
        (StoreWay::Add, Some(_)) | (StoreWay::Replace | StoreWay::Append | StoreWay::Prepend, None) => {
            return Ok(NOT_STORED_REPLY);
        }
        (StoreWay::IfUnchanged(_), None) => return Ok(NOT_FOUND_REPLY),
        (StoreWay::IfUnchanged(unique), Some(old)) if old.generation != Some(unique) => {
            return Ok(Resp::Status("EXISTS"));
        }
        _ => {}
    }
    match way {
        StoreWay::Append | StoreWay::Prepend => {
            return extend(pass, way, key, held.string().unwrap_or_default(), facts);
        }
        _ => pass.put_or_expire(ITEM_DATABASE, key, held)?,
    }
    Ok(STORED_REPLY)
}

/// Adds bytes to a value, which keeps its flags and its time to live.
fn extend(pass: &mut Pass<'_>, way: StoreWay, key: &[u8], more: &[u8], facts: &ServerFacts) -> Done {
    let Some(bytes) = pass.value::<Vec<u8>>(ITEM_DATABASE, key)? else { return Ok(NOT_STORED_REPLY) };
    if bytes.len() + more.len() > facts.max_item_bytes() {
        return Ok(TOO_LONG_REPLY);
    }
    let at = if way == StoreWay::Prepend { 0 } else { bytes.len() };
    bytes.splice(at..at, more.iter().copied());
    pass.note_change(ITEM_DATABASE, key);
    Ok(STORED_REPLY)
}

/// Adds to a number, which begins again at 0 behind its largest value, or takes away from it as far as 0.
fn count(pass: &mut Pass<'_>, key: &[u8], delta: u64, is_decrement: bool) -> Done {
    let Some(bytes) = pass.value::<Vec<u8>>(ITEM_DATABASE, key)? else { return Ok(NOT_FOUND_REPLY) };
    let number = std::str::from_utf8(bytes.trim_ascii()).ok().and_then(|text| text.parse::<u64>().ok());
    let Some(number) = number else { return Ok(NO_NUMBER_REPLY) };
    let number = if is_decrement { number.saturating_sub(delta) } else { number.wrapping_add(delta) };
    *bytes = number.to_string().into_bytes();
    pass.note_change(ITEM_DATABASE, key);
    Ok(Resp::Plain(format!("{number}\r\n").into_bytes()))
}

/// Gives an item another time to live. Returns whether there is one.
fn touch(pass: &mut Pass<'_>, key: &[u8], expiry: i64) -> Result<bool, Problem> {
    if pass.peek(ITEM_DATABASE, key)?.is_none() {
        return Ok(false);
    }
    match item_expiry(expiry, pass.now) {
        Some(expiry) if expiry <= pass.now => drop(pass.remove(ITEM_DATABASE, key)?),
        expiry => pass.set_expiry(ITEM_DATABASE, key, expiry)?,
    }
    Ok(true)
}
