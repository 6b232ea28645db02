//! Sets.

use super::hashes::random_count;
use super::{ALL_KEYS, Call, Done, KEYS_AFTER_OPERATION, ONE_KEY, TWO_KEYS, Verb, reading, writing};
use crate::datum::{Datum, DatumType, Members};
use crate::held::Held;
use crate::problem::{Problem, SYNTAX_ERROR, said};
use crate::random::choose;
use crate::resp::Resp;

pub const COMMAND_TABLE: &[Verb] = &[
    writing("sadd", -3, ONE_KEY, sadd),
    writing("srem", -3, ONE_KEY, srem),
    reading("scard", 2, ONE_KEY, scard),
    reading("sismember", 3, ONE_KEY, sismember),
    reading("smismember", -3, ONE_KEY, smismember),
    reading("smembers", 2, ONE_KEY, smembers),
    writing("smove", 4, TWO_KEYS, smove),
    writing("spop", -2, ONE_KEY, spop),
    reading("srandmember", -2, ONE_KEY, srandmember),
    reading("sinter", -2, ALL_KEYS, |call| reply_combined(call, Combination::Intersection)),
    reading("sunion", -2, ALL_KEYS, |call| reply_combined(call, Combination::Union)),
    reading("sdiff", -2, ALL_KEYS, |call| reply_combined(call, Combination::Difference)),
    writing("sinterstore", -3, ALL_KEYS, |call| store_combined(call, Combination::Intersection)),
    writing("sunionstore", -3, ALL_KEYS, |call| store_combined(call, Combination::Union)),
    writing("sdiffstore", -3, ALL_KEYS, |call| store_combined(call, Combination::Difference)),
    reading("sintercard", -3, KEYS_AFTER_OPERATION, sintercard),
];

/// How sets are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combination {
    /// The members of all.
    Intersection,
    /// The members of any.
    Union,
    /// The members of the first and of no other.
    Difference,
}

fn members(call: &mut Call<'_, '_>, key: &[u8]) -> Result<Members, Problem> {
    Ok(call.pass.value::<Members>(call.db, key)?.cloned().unwrap_or_default())
}

fn replies(members: impl IntoIterator<Item = Vec<u8>>) -> Vec<Resp> {
    members.into_iter().map(Resp::Bulk).collect()
}

fn sadd(call: &mut Call<'_, '_>) -> Done {
    let new = call.words_from(2);
    let set = call.pass.value_or_new::<Members>(call.db, call.key())?;
    let added = new.iter().filter(|member| set.insert(member.to_vec())).count();
    if added > 0 {
        call.pass.note_change(call.db, call.key());
    }
    Ok(Resp::count(added))
}

fn srem(call: &mut Call<'_, '_>) -> Done {
    let old = call.words_from(2);
    let Some(set) = call.pass.value::<Members>(call.db, call.key())? else { return Ok(Resp::Number(0)) };
    let removed = old.iter().filter(|member| set.remove(*member)).count();
    if removed > 0 {
        call.pass.note_change(call.db, call.key());
    }
    Ok(Resp::count(removed))
}

fn scard(call: &mut Call<'_, '_>) -> Done {
    Ok(Resp::count(call.pass.value::<Members>(call.db, call.key())?.map_or(0, |set| set.len())))
}

fn sismember(call: &mut Call<'_, '_>) -> Done {
    let member = call.word(2);
    let set = call.pass.value::<Members>(call.db, call.key())?;
    Ok(Resp::Number(set.is_some_and(|set| set.contains(member)).into()))
}

fn smismember(call: &mut Call<'_, '_>) -> Done {
    let set = members(call, call.key())?;
    let is_in = |member: &Vec<u8>| Resp::Number(set.contains(member).into());
    Ok(Resp::Array(call.words_from(2).iter().map(is_in).collect()))
}

fn smembers(call: &mut Call<'_, '_>) -> Done {
    Ok(Resp::Set(replies(members(call, call.key())?)))
}

fn smove(call: &mut Call<'_, '_>) -> Done {
    let (from, to, member) = (call.word(1), call.word(2), call.word(3));
    let is_there = call.pass.value::<Members>(call.db, from)?.map(|set| set.contains(member));
    let Some(is_there) = is_there else { return Ok(Resp::Number(0)) };

    // Fails before any change if the destination is no set.
    call.pass.value::<Members>(call.db, to)?;
    if !is_there {
        return Ok(Resp::Number(0));
    }
    if from != to {
        if let Some(set) = call.pass.value::<Members>(call.db, from)? {
            set.remove(member);
        }
        call.pass.note_change(call.db, from);
        if call.pass.value_or_new::<Members>(call.db, to)?.insert(member.to_vec()) {
            call.pass.note_change(call.db, to);
        }
    }
    Ok(Resp::Number(1))
}

fn spop(call: &mut Call<'_, '_>) -> Done {
    let count = match call.words.len() {
        2 => None,
        3 => Some(call.count(2)?),
        _ => return Err(SYNTAX_ERROR),
    };
    let Some(set) = call.pass.value::<Members>(call.db, call.key())? else {
        return Ok(count.map_or(Resp::Nil, |_| Resp::Set(Vec::new())));
    };
    let all: Vec<Vec<u8>> = set.iter().cloned().collect();
    let chosen: Vec<Vec<u8>> =
        choose(all.len(), count.unwrap_or(1), false).into_iter().map(|at| all[at].clone()).collect();
    for member in &chosen {
        set.remove(member);
    }
    if !chosen.is_empty() {
        call.pass.note_change(call.db, call.key());
    }
    Ok(match count {
        None => Resp::bulk_or_nil(chosen.into_iter().next()),
        Some(_) => Resp::Set(replies(chosen)),
    })
}

fn srandmember(call: &mut Call<'_, '_>) -> Done {
    let wanted = match call.words.len() {
        2 => None,
        3 => Some(random_count(call, 2)?),
        _ => return Err(SYNTAX_ERROR),
    };
    let all: Vec<Vec<u8>> = members(call, call.key())?.into_iter().collect();
    let (count, repeats) = wanted.unwrap_or((1, false));
    let chosen = choose(all.len(), count, repeats).into_iter().map(|at| all[at].clone());
    Ok(match wanted {
        None => Resp::bulk_or_nil(chosen.into_iter().next()),
        Some(_) => Resp::Array(replies(chosen)),
    })
}

/// Combines the sets of some keys.
fn combine_sets(call: &mut Call<'_, '_>, keys: &[Vec<u8>], combination: Combination) -> Result<Members, Problem> {
    let mut sets = Vec::new();
    for key in keys {
        sets.push(members(call, key)?);
    }
    let mut sets = sets.into_iter();
    let mut result = sets.next().unwrap_or_default();
    for set in sets {
        match combination {
            Combination::Intersection => result.retain(|member| set.contains(member)),
            Combination::Union => result.extend(set),
            Combination::Difference => result.retain(|member| !set.contains(member)),
        }
    }
    Ok(result)
}

fn reply_combined(call: &mut Call<'_, '_>, combination: Combination) -> Done {
    Ok(Resp::Set(replies(combine_sets(call, call.words_from(1), combination)?)))
}

fn store_combined(call: &mut Call<'_, '_>, combination: Combination) -> Done {
    let result = combine_sets(call, call.words_from(2), combination)?;
    store_or_remove(call, call.word(1), result.len(), result.into_datum())
}

/// Stores a document of `count` elements. If it has none, removes the key instead. Replies with `count`.
pub fn store_or_remove(call: &mut Call<'_, '_>, key: &[u8], count: usize, datum: Datum) -> Done {
    match count {
        0 => drop(call.pass.remove(call.db, key)?),
        _ => call.pass.put(call.db, key, Held::new(datum, None))?,
    }
    Ok(Resp::count(count))
}

fn sintercard(call: &mut Call<'_, '_>) -> Done {
    let (keys, at) = call.counted_keys(1)?;
    let limit = read_limit(call, at)?;
    let count = combine_sets(call, keys, Combination::Intersection)?.len();
    Ok(Resp::count(limit.map_or(count, |limit| count.min(limit))))
}

/// Reads the option `LIMIT` and its number. Returns none without it, or if the number is 0: then there is no limit.
pub fn read_limit(call: &Call<'_, '_>, at: usize) -> Result<Option<usize>, Problem> {
    let mut limit = 0;
    call.options(at, |name, at| {
        if name != b"LIMIT" || at + 1 >= call.words.len() {
            return Err(SYNTAX_ERROR);
        }
        limit = call.count(at + 1).map_err(|_| said("ERR LIMIT can't be negative"))?;
        Ok(2)
    })?;
    Ok(Some(limit).filter(|limit| *limit > 0))
}
