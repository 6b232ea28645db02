//! Parses lines of memcached's text protocol.

use super::command::{ItemDeed, MemcachedCommand, StoreWay};

/// The longest name of an item.
const MAX_KEY_BYTES: usize = 250;
/// The longest block of data that a command may announce. memcached counts it and the line's end after it by 32 bits with a sign.
const MAX_BLOCK_BYTES: usize = i32::MAX as usize - 2;

const UNKNOWN_COMMAND: &str = "ERROR";
const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
const BAD_EXPIRY: &str = "CLIENT_ERROR invalid exptime argument";
const BAD_DELTA: &str = "CLIENT_ERROR invalid numeric delta argument";
const BAD_DELETE: &str = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";

/// The meaning of a line.
#[derive(Debug)]
pub enum Line {
    /// A command.
    Whole(MemcachedCommand),
    /// A command whose value is a block of this length behind the line.
    WithBlock(MemcachedCommand, usize),
    /// A wrong command. The block of this length behind it is skipped.
    WrongWithBlock(&'static str, usize),
}

/// Parses a line.
pub fn parse_line(line: &[u8]) -> Line {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
    let Some((name, arguments)) = words.split_first() else { return whole(ItemDeed::Say(UNKNOWN_COMMAND), false) };
    let is_silent = arguments.last().is_some_and(|word| *word == b"noreply");
    let way = match *name {
        b"set" => StoreWay::Set,
        b"add" => StoreWay::Add,
        b"replace" => StoreWay::Replace,
        b"append" => StoreWay::Append,
        b"prepend" => StoreWay::Prepend,
        b"cas" => StoreWay::IfUnchanged(0),
        b"incr" | b"decr" | b"touch" | b"delete" | b"flush_all" | b"verbosity" => {
            let arguments = if is_silent { &arguments[..arguments.len() - 1] } else { arguments };
            return whole(parse_change(name, arguments, is_silent).unwrap_or_else(ItemDeed::Say), is_silent);
        }
        _ => return whole(parse_question(name, arguments).unwrap_or_else(ItemDeed::Say), false),
    };
    parse_store(way, arguments, is_silent)
}

fn whole(deed: ItemDeed, is_silent: bool) -> Line {
    Line::Whole(MemcachedCommand { deed, is_silent })
}

/// Parses `KEY FLAGS EXPIRY LENGTH [UNIQUE] [noreply]`. The last word may be any other: memcached accepts it.
fn parse_store(way: StoreWay, arguments: &[&[u8]], is_silent: bool) -> Line {
    let least = if matches!(way, StoreWay::IfUnchanged(_)) { 5 } else { 4 };
    if arguments.len() < least || arguments.len() > least + 1 {
        return whole(ItemDeed::Say(UNKNOWN_COMMAND), false);
    }
    let length = number::<i64>(arguments[3]).and_then(|length| usize::try_from(length).ok());
    let Some(length) = length.filter(|length| *length <= MAX_BLOCK_BYTES) else {
        return whole(ItemDeed::Say(BAD_FORMAT), is_silent);
    };
    let parse = || {
        let key = check_key(arguments[0])?;
        let (flags, expiry) = (number(arguments[1]).ok_or(BAD_FORMAT)?, number(arguments[2]).ok_or(BAD_FORMAT)?);
        let way = match way {
            StoreWay::IfUnchanged(_) => StoreWay::IfUnchanged(number(arguments[4]).ok_or(BAD_FORMAT)?),
            way => way,
        };
        Ok(ItemDeed::Store { way, key, flags, expiry, bytes: Vec::new() })
    };
    match parse() {
        Ok(deed) => Line::WithBlock(MemcachedCommand { deed, is_silent }, length),
        // The block of a refused command must not be taken for commands: it may come from somebody whom the client does not trust.
        Err(reply) => Line::WrongWithBlock(reply, length),
    }
}

/// Parses a command that may ask for no reply. The arguments are those without `noreply`.
fn parse_change(name: &[u8], arguments: &[&[u8]], is_silent: bool) -> Result<ItemDeed, &'static str> {
    Ok(match (name, arguments) {
        (b"incr" | b"decr", [key, delta]) => {
            let (key, delta) = (check_key(key)?, number(delta).ok_or(BAD_DELTA)?);
            ItemDeed::Count { key, delta, is_decrement: name == b"decr" }
        }
        (b"touch", [key, expiry]) => {
            ItemDeed::Touch { key: check_key(key)?, expiry: number(expiry).ok_or(BAD_EXPIRY)? }
        }
        // Old clients send a time, which must be 0.
        (b"delete", [key] | [key, b"0"]) => ItemDeed::Delete { key: check_key(key)? },
        (b"delete", [_, _]) => return Err(BAD_DELETE),
        (b"flush_all", []) => ItemDeed::Flush { delay: 0 },
        (b"flush_all", [delay, ..]) => {
            let delay: i64 = number(delay).ok_or(BAD_EXPIRY)?;
            ItemDeed::Flush { delay: u64::try_from(delay).unwrap_or(0) }
        }
        (b"verbosity", [level, ..]) if number::<u64>(level).is_none() => return Err(BAD_FORMAT),
        (b"verbosity", _) if is_silent || !arguments.is_empty() => ItemDeed::Say("OK"),
        _ => return Err(UNKNOWN_COMMAND),
    })
}

/// Parses a command that always gets a reply.
fn parse_question(name: &[u8], arguments: &[&[u8]]) -> Result<ItemDeed, &'static str> {
    Ok(match (name, arguments) {
        (b"get" | b"gets", [_, ..]) => {
            ItemDeed::Get { keys: check_keys(arguments)?, with_unique: name == b"gets", expiry: None }
        }
        (b"gat" | b"gats", [expiry, keys @ ..]) => {
            let expiry = Some(number(expiry).ok_or(BAD_EXPIRY)?);
            ItemDeed::Get { keys: check_keys(keys)?, with_unique: name == b"gats", expiry }
        }
        (b"version", []) => ItemDeed::Version,
        (b"stats", []) => ItemDeed::Stats,
        (b"quit", []) => ItemDeed::Quit,
        _ => return Err(UNKNOWN_COMMAND),
    })
}

fn check_key(key: &[u8]) -> Result<Vec<u8>, &'static str> {
    if key.len() <= MAX_KEY_BYTES { Ok(key.to_vec()) } else { Err(BAD_FORMAT) }
}

fn check_keys(keys: &[&[u8]]) -> Result<Vec<Vec<u8>>, &'static str> {
    keys.iter().map(|key| check_key(key)).collect()
}

fn number<N: std::str::FromStr>(word: &[u8]) -> Option<N> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
