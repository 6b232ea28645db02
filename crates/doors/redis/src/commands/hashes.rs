//! Hashes.

use super::{Call, Done, ONE_KEY, Verb, reading, writing};
use crate::datum::Fields;
use crate::number::{add_decimals, parse_integer};
use crate::problem::{Problem, SYNTAX_ERROR, said};
use crate::random::choose;
use crate::resp::{Protocol, Resp};

pub const COMMAND_TABLE: &[Verb] = &[
    writing("hset", -4, ONE_KEY, hset),
    writing("hmset", -4, ONE_KEY, |call| hset(call).map(|_| Resp::OK_REPLY)),
    writing("hsetnx", 4, ONE_KEY, hsetnx),
    reading("hget", 3, ONE_KEY, hget),
    reading("hmget", -3, ONE_KEY, hmget),
    writing("hdel", -3, ONE_KEY, hdel),
    reading("hlen", 2, ONE_KEY, |call| with_fields(call, |fields| Resp::count(fields.len()))),
    reading("hstrlen", 3, ONE_KEY, hstrlen),
    reading("hexists", 3, ONE_KEY, hexists),
    reading("hkeys", 2, ONE_KEY, |call| with_fields(call, |fields| Resp::bulks(fields.keys().cloned()))),
    reading("hvals", 2, ONE_KEY, |call| with_fields(call, |fields| Resp::bulks(fields.values().cloned()))),
    reading("hgetall", 2, ONE_KEY, |call| with_fields(call, hgetall)),
    writing("hincrby", 4, ONE_KEY, hincrby),
    writing("hincrbyfloat", 4, ONE_KEY, hincrbyfloat),
    reading("hrandfield", -2, ONE_KEY, hrandfield),
];

fn with_fields(call: &mut Call<'_, '_>, reply: impl FnOnce(&Fields) -> Resp) -> Done {
    match call.pass.value::<Fields>(call.db, call.key())? {
        Some(fields) => Ok(reply(fields)),
        None => Ok(reply(&Fields::new())),
    }
}

fn field(call: &mut Call<'_, '_>, name: &[u8]) -> Result<Option<Vec<u8>>, Problem> {
    let fields = call.pass.value::<Fields>(call.db, call.key())?;
    Ok(fields.and_then(|fields| fields.get(name).cloned()))
}

fn put_field(call: &mut Call<'_, '_>, name: &[u8], value: Vec<u8>) -> Result<(), Problem> {
    call.pass.value_or_new::<Fields>(call.db, call.key())?.insert(name.to_vec(), value);
    call.pass.note_change(call.db, call.key());
    Ok(())
}

fn hset(call: &mut Call<'_, '_>) -> Done {
    if !call.words.len().is_multiple_of(2) {
        let name = call.name();
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    let pairs = call.words_from(2).chunks_exact(2);
    let fields = call.pass.value_or_new::<Fields>(call.db, call.key())?;
    let before = fields.len();
    for pair in pairs {
        fields.insert(pair[0].clone(), pair[1].clone());
    }
    let added = fields.len() - before;
    call.pass.note_change(call.db, call.key());
    Ok(Resp::count(added))
}

fn hsetnx(call: &mut Call<'_, '_>) -> Done {
    if field(call, call.word(2))?.is_some() {
        return Ok(Resp::Number(0));
    }
    put_field(call, call.word(2), call.word(3).to_vec())?;
    Ok(Resp::Number(1))
}

fn hget(call: &mut Call<'_, '_>) -> Done {
    Ok(Resp::bulk_or_nil(field(call, call.word(2))?))
}

fn hmget(call: &mut Call<'_, '_>) -> Done {
    let names = call.words_from(2);
    with_fields(call, |fields| {
        Resp::Array(names.iter().map(|name| Resp::bulk_or_nil(fields.get(name).cloned())).collect())
    })
}

fn hdel(call: &mut Call<'_, '_>) -> Done {
    let names = call.words_from(2);
    let Some(fields) = call.pass.value::<Fields>(call.db, call.key())? else { return Ok(Resp::Number(0)) };
    let removed = names.iter().filter(|name| fields.shift_remove(*name).is_some()).count();
    if removed > 0 {
        call.pass.note_change(call.db, call.key());
    }
    Ok(Resp::count(removed))
}

fn hstrlen(call: &mut Call<'_, '_>) -> Done {
    Ok(Resp::count(field(call, call.word(2))?.map_or(0, |value| value.len())))
}

fn hexists(call: &mut Call<'_, '_>) -> Done {
    Ok(Resp::Number(field(call, call.word(2))?.is_some().into()))
}

fn hgetall(fields: &Fields) -> Resp {
    let pair = |(field, value): (&Vec<u8>, &Vec<u8>)| (Resp::Bulk(field.clone()), Resp::Bulk(value.clone()));
    Resp::Map(fields.iter().map(pair).collect())
}

fn hincrby(call: &mut Call<'_, '_>) -> Done {
    let by = call.integer(3)?;
    let value = field(call, call.word(2))?.map_or(Ok(0), |value| parse_integer(&value));
    let value = value.map_err(|_| said("ERR hash value is not an integer"))?;
    let value = value.checked_add(by).ok_or(said("ERR increment or decrement would overflow"))?;
    put_field(call, call.word(2), value.to_string().into_bytes())?;
    Ok(Resp::Number(value))
}

fn hincrbyfloat(call: &mut Call<'_, '_>) -> Done {
    if call.float(3)?.is_infinite() {
        return Err(said("ERR value is NaN or Infinity"));
    }
    let value = field(call, call.word(2))?.unwrap_or_else(|| b"0".to_vec());
    crate::number::parse_float(&value).map_err(|_| said("ERR hash value is not a float"))?;
    let sum = add_decimals(&value, call.word(3))?;
    put_field(call, call.word(2), sum.clone().into_bytes())?;
    Ok(Resp::Bulk(sum.into_bytes()))
}

fn hrandfield(call: &mut Call<'_, '_>) -> Done {
    if call.words.len() == 2 {
        let fields = call.pass.value::<Fields>(call.db, call.key())?;
        let Some(fields) = fields else { return Ok(Resp::Nil) };
        let chosen = choose(fields.len(), 1, false);
        return Ok(Resp::bulk_or_nil(
            chosen.first().and_then(|at| fields.get_index(*at)).map(|(field, _)| field.clone()),
        ));
    }
    let (count, repeats) = random_count(call, 2)?;
    let with_values = match call.words.len() {
        3 => false,
        4 if call.says(3, "withvalues") => true,
        _ => return Err(SYNTAX_ERROR),
    };
    if with_values && count > (i64::MAX / 2) as usize {
        return Err(said("ERR value is out of range"));
    }
    let is_typed = call.protocol == Protocol::Resp3;
    let Some(fields) = call.pass.value::<Fields>(call.db, call.key())? else { return Ok(Resp::Array(Vec::new())) };
    let all: Vec<(&Vec<u8>, &Vec<u8>)> = fields.iter().collect();
    let mut found = Vec::new();
    for at in choose(all.len(), count, repeats) {
        let (field, value) = (Resp::Bulk(all[at].0.clone()), Resp::Bulk(all[at].1.clone()));
        match (with_values, is_typed) {
            (false, _) => found.push(field),
            (true, true) => found.push(Resp::Array(vec![field, value])),
            (true, false) => found.extend([field, value]),
        }
    }
    Ok(Resp::Array(found))
}

/// The most elements that are chosen with repetition: they all are in one reply.
const MAX_CHOSEN: usize = 1 << 20;

/// Reads a count of elements that are chosen at random: negative ones allow repetition.
pub fn random_count(call: &Call<'_, '_>, at: usize) -> Result<(usize, bool), Problem> {
    let count = call.integer(at)?;
    let repeats = count < 0;
    let count = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    match (repeats && count > MAX_CHOSEN) || count > (i64::MAX as usize) {
        true => Err(said("ERR value is out of range")),
        false => Ok((count, repeats)),
    }
}
