//! Keys of any type.

use super::{ALL_KEYS, Call, Done, KEY_AFTER_SUBCOMMAND, NO_KEYS, ONE_KEY, TWO_KEYS, Verb, reading, writing};
use crate::encoding_names::encoding_name;
use crate::held::Held;
use crate::pattern::matches;
use crate::problem::{NO_SUCH_KEY, Problem, SYNTAX_ERROR, said};
use crate::random::random_below;
use crate::resp::Resp;

pub const COMMAND_TABLE: &[Verb] = &[
    writing("del", -2, ALL_KEYS, del),
    writing("unlink", -2, ALL_KEYS, del),
    reading("exists", -2, ALL_KEYS, exists),
    reading("touch", -2, ALL_KEYS, exists),
    reading("type", 2, ONE_KEY, kind),
    reading("keys", 2, NO_KEYS, keys),
    reading("randomkey", 1, NO_KEYS, random_key),
    reading("dbsize", 1, NO_KEYS, dbsize),
    writing("rename", 3, TWO_KEYS, rename),
    writing("renamenx", 3, TWO_KEYS, renamenx),
    writing("copy", -3, TWO_KEYS, copy),
    writing("move", 3, ONE_KEY, shift),
    writing("flushdb", -1, NO_KEYS, flushdb),
    writing("flushall", -1, NO_KEYS, flushall),
    writing("swapdb", 3, NO_KEYS, swapdb),
    reading("object", -2, KEY_AFTER_SUBCOMMAND, object),
    reading("memory", -2, KEY_AFTER_SUBCOMMAND, memory),
];

fn del(call: &mut Call<'_, '_>) -> Done {
    let mut count = 0;
    for key in call.words_from(1) {
        count += usize::from(call.pass.remove(call.db, key)?);
    }
    Ok(Resp::count(count))
}

fn exists(call: &mut Call<'_, '_>) -> Done {
    let mut count = 0;
    for key in call.words_from(1) {
        count += usize::from(call.pass.peek(call.db, key)?.is_some());
    }
    Ok(Resp::count(count))
}

fn kind(call: &mut Call<'_, '_>) -> Done {
    Ok(Resp::Status(call.pass.peek(call.db, call.key())?.map_or("none", |held| held.kind.name())))
}

fn keys(call: &mut Call<'_, '_>) -> Done {
    let mut found = Vec::new();
    call.pass.each_name(call.db, |name| {
        if matches(call.word(1), &name) {
            found.push(Resp::Bulk(name));
        }
        true
    })?;
    Ok(Resp::Array(found))
}

fn dbsize(call: &mut Call<'_, '_>) -> Done {
    // The store does not count the names of a key space, so they are read.
    Ok(Resp::count(call.pass.census(call.db)?.0))
}

fn random_key(call: &mut Call<'_, '_>) -> Done {
    let mut chosen = random_below(call.pass.census(call.db)?.0);
    let mut found = None;
    call.pass.each_name(call.db, |name| {
        found = Some(name);
        let goes_on = chosen > 0;
        chosen = chosen.saturating_sub(1);
        goes_on
    })?;
    Ok(Resp::bulk_or_nil(found))
}

fn rename(call: &mut Call<'_, '_>) -> Done {
    let held = call.pass.take(call.db, call.word(1))?.ok_or(NO_SUCH_KEY)?;
    call.pass.put(call.db, call.word(2), held)?;
    Ok(Resp::OK_REPLY)
}

fn renamenx(call: &mut Call<'_, '_>) -> Done {
    call.pass.peek(call.db, call.word(1))?.ok_or(NO_SUCH_KEY)?;
    if call.pass.peek(call.db, call.word(2))?.is_some() {
        return Ok(Resp::Number(0));
    }
    rename(call)?;
    Ok(Resp::Number(1))
}

/// The value of a key, in memory of its own.
fn duplicate(call: &mut Call<'_, '_>, key: &[u8]) -> Result<Option<Held>, Problem> {
    call.pass.datum(call.db, key)?;
    Ok(call.pass.peek(call.db, key)?.cloned())
}

fn copy(call: &mut Call<'_, '_>) -> Done {
    let (mut replaces, mut db) = (false, call.db);
    call.options(3, |name, at| match name {
        b"REPLACE" => {
            replaces = true;
            Ok(1)
        }
        b"DB" if at + 1 < call.words.len() => {
            db = call.database(call.word(at + 1))?;
            Ok(2)
        }
        _ => Err(SYNTAX_ERROR),
    })?;
    let (from, to) = (call.word(1), call.word(2));
    if db == call.db && from == to {
        return Err(said("ERR source and destination objects are the same"));
    }
    let Some(held) = duplicate(call, from)? else { return Ok(Resp::Number(0)) };
    if !replaces && call.pass.peek(db, to)?.is_some() {
        return Ok(Resp::Number(0));
    }
    call.pass.put(db, to, held)?;
    Ok(Resp::Number(1))
}

fn shift(call: &mut Call<'_, '_>) -> Done {
    let (key, db) = (call.key(), call.database(call.word(2))?);
    if db == call.db {
        return Err(said("ERR source and destination objects are the same"));
    }
    if call.pass.peek(call.db, key)?.is_none() || call.pass.peek(db, key)?.is_some() {
        return Ok(Resp::Number(0));
    }
    if let Some(held) = call.pass.take(call.db, key)? {
        call.pass.put(db, key, held)?;
    }
    Ok(Resp::Number(1))
}

fn check_flush(call: &Call<'_, '_>) -> Result<(), Problem> {
    let is_known = call.words.len() == 1 || call.words.len() == 2 && (call.says(1, "sync") || call.says(1, "async"));
    if is_known { Ok(()) } else { Err(SYNTAX_ERROR) }
}

fn flushdb(call: &mut Call<'_, '_>) -> Done {
    check_flush(call)?;
    call.pass.clear(call.db)?;
    Ok(Resp::OK_REPLY)
}

fn flushall(call: &mut Call<'_, '_>) -> Done {
    check_flush(call)?;
    (0..call.server.databases()).try_for_each(|db| call.pass.clear(db))?;
    Ok(Resp::OK_REPLY)
}

fn swapdb(call: &mut Call<'_, '_>) -> Done {
    let first = call.database(call.word(1)).map_err(|problem| unclear(problem, "ERR invalid first DB index"))?;
    let second = call.database(call.word(2)).map_err(|problem| unclear(problem, "ERR invalid second DB index"))?;
    if first != second {
        call.pass.swap(first, second)?;
    }
    Ok(Resp::OK_REPLY)
}

/// Says which number is wrong, unless the problem is another one.
fn unclear(problem: Problem, text: &'static str) -> Problem {
    if problem.text().contains("integer") { said(text) } else { problem }
}

fn object(call: &mut Call<'_, '_>) -> Done {
    let key = call.word(2);
    if call.says(1, "help") {
        return Ok(Resp::Array(vec![Resp::Status("OBJECT ENCODING <key>"), Resp::Status("OBJECT REFCOUNT <key>")]));
    }
    if call.words.len() != 3 {
        return Err(said("ERR wrong number of arguments for 'object' command"));
    }
    if call.says(1, "encoding") {
        let limits = call.server.encoding_limits();
        let datum = call.pass.datum(call.db, key)?;
        return Ok(datum.map_or(Resp::Nil, |datum| Resp::text(encoding_name(datum, &limits))));
    }
    if call.says(1, "refcount") {
        return Ok(call.pass.peek(call.db, key)?.map_or(Resp::Nil, |_| Resp::Number(1)));
    }
    if call.says(1, "idletime") || call.says(1, "freq") {
        return Err(said("ERR the store counts how often ranges are read, not when keys were used; see `terrace hot`"));
    }
    let name = String::from_utf8_lossy(call.word(1)).into_owned();
    Err(format!("ERR unknown subcommand '{name}'. Try OBJECT HELP.").into())
}

/// The bytes of an object: the store keeps no values in memory.
fn memory(call: &mut Call<'_, '_>) -> Done {
    if !call.says(1, "usage") || call.words.len() < 3 {
        return Err(said("ERR unknown subcommand or wrong number of arguments for 'memory'. Try MEMORY USAGE."));
    }
    let datum = call.pass.datum(call.db, call.word(2))?;
    Ok(datum.map_or(Resp::Nil, |datum| Resp::count(datum.encode().len())))
}
