//! Lists.

use super::{
    Call, Done, KEYS_AFTER_OPERATION, KEYS_BEFORE_TIMEOUT, NO_KEYS, ONE_KEY, TWO_KEYS, Verb, WaitRule, reading,
    waiting, writing,
};
use crate::datum::Elements;
use crate::number::resolve_range;
use crate::problem::{NO_SUCH_KEY, Problem, SYNTAX_ERROR, said};
use crate::resp::Resp;

const WAIT_FOR_PAIR: WaitRule = WaitRule { timeout: -1, nothing: || Resp::NilArray };
const WAIT_FOR_ONE: WaitRule = WaitRule { timeout: -1, nothing: || Resp::Nil };
const WAIT_FOR_SEVERAL: WaitRule = WaitRule { timeout: 1, nothing: || Resp::NilArray };

pub const COMMAND_TABLE: &[Verb] = &[
    writing("lpush", -3, ONE_KEY, |call| push(call, End::Left, false)),
    writing("rpush", -3, ONE_KEY, |call| push(call, End::Right, false)),
    writing("lpushx", -3, ONE_KEY, |call| push(call, End::Left, true)),
    writing("rpushx", -3, ONE_KEY, |call| push(call, End::Right, true)),
    writing("lpop", -2, ONE_KEY, |call| pop(call, End::Left)),
    writing("rpop", -2, ONE_KEY, |call| pop(call, End::Right)),
    reading("llen", 2, ONE_KEY, llen),
    reading("lrange", 4, ONE_KEY, lrange),
    reading("lindex", 3, ONE_KEY, lindex),
    reading("lpos", -3, ONE_KEY, lpos),
    writing("lset", 4, ONE_KEY, lset),
    writing("linsert", 5, ONE_KEY, linsert),
    writing("lrem", 4, ONE_KEY, lrem),
    writing("ltrim", 4, ONE_KEY, ltrim),
    writing("rpoplpush", 3, TWO_KEYS, |call| shift(call, End::Right, End::Left)),
    writing("lmove", 5, TWO_KEYS, lmove),
    writing("lmpop", -4, KEYS_AFTER_OPERATION, |call| pop_several(call, 1, false)),
    waiting("blpop", -3, KEYS_BEFORE_TIMEOUT, WAIT_FOR_PAIR, |call| wait_to_pop(call, End::Left)),
    waiting("brpop", -3, KEYS_BEFORE_TIMEOUT, WAIT_FOR_PAIR, |call| wait_to_pop(call, End::Right)),
    waiting("brpoplpush", 4, TWO_KEYS, WAIT_FOR_ONE, |call| wait_to_shift(call, 3, Ok((End::Right, End::Left)))),
    waiting("blmove", 6, TWO_KEYS, WAIT_FOR_ONE, |call| wait_to_shift(call, 5, ends(call))),
    waiting("blmpop", -5, NO_KEYS, WAIT_FOR_SEVERAL, |call| {
        call.check_timeout(1)?;
        pop_several(call, 2, true)
    }),
];

/// An end of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Left,
    Right,
}

impl End {
    fn parse(word: &[u8]) -> Result<End, Problem> {
        match word.to_ascii_uppercase().as_slice() {
            b"LEFT" => Ok(End::Left),
            b"RIGHT" => Ok(End::Right),
            _ => Err(SYNTAX_ERROR),
        }
    }

    fn push(self, list: &mut Elements, element: Vec<u8>) {
        match self {
            End::Left => list.push_front(element),
            End::Right => list.push_back(element),
        }
    }

    fn pop(self, list: &mut Elements) -> Option<Vec<u8>> {
        match self {
            End::Left => list.pop_front(),
            End::Right => list.pop_back(),
        }
    }
}

/// Takes elements from an end of a list; none if the key does not exist.
fn take(call: &mut Call<'_, '_>, key: &[u8], end: End, count: usize) -> Result<Option<Vec<Vec<u8>>>, Problem> {
    let Some(list) = call.source::<Elements>(key)? else { return Ok(None) };
    let taken: Vec<Vec<u8>> = std::iter::from_fn(|| end.pop(list)).take(count).collect();
    if !taken.is_empty() {
        call.pass.note_change(call.db, key);
    }
    Ok(Some(taken))
}

fn push(call: &mut Call<'_, '_>, end: End, must_exist: bool) -> Done {
    if must_exist && call.pass.value::<Elements>(call.db, call.key())?.is_none() {
        return Ok(Resp::Number(0));
    }
    let elements = call.words_from(2);
    let list = call.pass.value_or_new::<Elements>(call.db, call.key())?;
    elements.iter().for_each(|element| end.push(list, element.clone()));
    let length = list.len();
    call.pass.note_change(call.db, call.key());
    Ok(Resp::count(length))
}

fn pop(call: &mut Call<'_, '_>, end: End) -> Done {
    let count = match call.words.len() {
        2 => None,
        3 => Some(call.count(2)?),
        _ => {
            let name = call.name();
            return Err(format!("ERR wrong number of arguments for '{name}' command").into());
        }
    };
    let taken = take(call, call.key(), end, count.unwrap_or(1))?;
    Ok(match (count, taken) {
        (None, taken) => Resp::bulk_or_nil(taken.and_then(|taken| taken.into_iter().next())),
        (Some(_), None) => Resp::NilArray,
        (Some(_), Some(taken)) => Resp::bulks(taken),
    })
}

fn llen(call: &mut Call<'_, '_>) -> Done {
    Ok(Resp::count(call.pass.value::<Elements>(call.db, call.key())?.map_or(0, |list| list.len())))
}

fn lrange(call: &mut Call<'_, '_>) -> Done {
    let (start, stop) = (call.integer(2)?, call.integer(3)?);
    let Some(list) = call.pass.value::<Elements>(call.db, call.key())? else { return Ok(Resp::Array(Vec::new())) };
    match resolve_range(start, stop, list.len()) {
        Some((first, last)) => Ok(Resp::bulks(list.range(first..=last).cloned())),
        None => Ok(Resp::Array(Vec::new())),
    }
}

/// The place of an element that may count from the end.
fn place(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    let index = if index < 0 { index.checked_add(length)? } else { index };
    usize::try_from(index).ok().filter(|_| index < length)
}

fn lindex(call: &mut Call<'_, '_>) -> Done {
    let index = call.integer(2);
    let Some(list) = call.pass.value::<Elements>(call.db, call.key())? else { return Ok(Resp::Nil) };
    Ok(Resp::bulk_or_nil(place(index?, list.len()).and_then(|at| list.get(at)).cloned()))
}

fn lset(call: &mut Call<'_, '_>) -> Done {
    let (index, element) = (call.integer(2), call.word(3));
    let list = call.pass.value::<Elements>(call.db, call.key())?.ok_or(NO_SUCH_KEY)?;
    let at = place(index?, list.len()).ok_or(said("ERR index out of range"))?;
    list[at] = element.to_vec();
    call.pass.note_change(call.db, call.key());
    Ok(Resp::OK_REPLY)
}

fn lpos(call: &mut Call<'_, '_>) -> Done {
    let (mut rank, mut count, mut most) = (1, None, 0);
    call.options(3, |name, at| {
        if at + 1 >= call.words.len() {
            return Err(SYNTAX_ERROR);
        }
        match name {
            b"RANK" => {
                rank = call.integer(at + 1)?;
                if rank == 0 {
                    return Err(said(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
                    ));
                }
                if rank == i64::MIN {
                    return Err(said("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"));
                }
            }
            b"COUNT" => count = Some(call.count(at + 1).map_err(|_| said("ERR COUNT can't be negative"))?),
            b"MAXLEN" => most = call.count(at + 1).map_err(|_| said("ERR MAXLEN can't be negative"))?,
            _ => return Err(SYNTAX_ERROR),
        }
        Ok(2)
    })?;
    let wanted = call.word(2);
    let empty = || if count.is_some() { Resp::Array(Vec::new()) } else { Resp::Nil };
    let Some(list) = call.pass.value::<Elements>(call.db, call.key())? else { return Ok(empty()) };
    let most = if most == 0 { list.len() } else { most };
    let limit = match count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count,
    };
    let skip = usize::try_from(rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
    let is_wanted = |(_, element): &(usize, &Vec<u8>)| element.as_slice() == wanted;
    let places: Vec<usize> = match rank > 0 {
        true => list.iter().enumerate().take(most).filter(is_wanted).skip(skip).take(limit).map(|(at, _)| at).collect(),
        false => list
            .iter()
            .enumerate()
            .rev()
            .take(most)
            .filter(is_wanted)
            .skip(skip)
            .take(limit)
            .map(|(at, _)| at)
            .collect(),
    };
    Ok(match count {
        None => places.first().map_or(Resp::Nil, |at| Resp::count(*at)),
        Some(_) => Resp::Array(places.into_iter().map(Resp::count).collect()),
    })
}

fn linsert(call: &mut Call<'_, '_>) -> Done {
    let behind = match call.word(2).to_ascii_uppercase().as_slice() {
        b"BEFORE" => 0,
        b"AFTER" => 1,
        _ => return Err(SYNTAX_ERROR),
    };
    let (pivot, new) = (call.word(3), call.word(4));
    let Some(list) = call.pass.value::<Elements>(call.db, call.key())? else { return Ok(Resp::Number(0)) };
    let Some(at) = list.iter().position(|element| element == pivot) else { return Ok(Resp::Number(-1)) };
    list.insert(at + behind, new.to_vec());
    let length = list.len();
    call.pass.note_change(call.db, call.key());
    Ok(Resp::count(length))
}

fn lrem(call: &mut Call<'_, '_>) -> Done {
    let count = call.integer(2)?;
    let wanted = call.word(3);
    let Some(list) = call.pass.value::<Elements>(call.db, call.key())? else { return Ok(Resp::Number(0)) };
    let limit = if count == 0 { usize::MAX } else { usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) };
    let mut removed = 0;
    let mut keep = |element: &Vec<u8>| {
        let is_kept = removed == limit || element != wanted;
        removed += usize::from(!is_kept);
        is_kept
    };
    match count < 0 {
        false => list.retain(&mut keep),
        true => {
            let kept: Elements = list.drain(..).rev().filter(|element| keep(element)).collect();
            list.extend(kept.into_iter().rev());
        }
    }
    if removed > 0 {
        call.pass.note_change(call.db, call.key());
    }
    Ok(Resp::count(removed))
}

fn ltrim(call: &mut Call<'_, '_>) -> Done {
    let (start, stop) = (call.integer(2)?, call.integer(3)?);
    let Some(list) = call.pass.value::<Elements>(call.db, call.key())? else { return Ok(Resp::OK_REPLY) };
    match resolve_range(start, stop, list.len()) {
        Some((first, last)) => {
            list.truncate(last + 1);
            list.drain(..first);
        }
        None => list.clear(),
    }
    call.pass.note_change(call.db, call.key());
    Ok(Resp::OK_REPLY)
}

/// Moves an element from one list to another. Returns none if there is none.
fn move_one(call: &mut Call<'_, '_>, from: End, to: End) -> Result<Option<Vec<u8>>, Problem> {
    let (source, target) = (call.word(1), call.word(2));
    if call.source::<Elements>(source)?.is_none() {
        return Ok(None);
    }
    call.pass.value::<Elements>(call.db, target)?;
    let Some(element) = take(call, source, from, 1)?.and_then(|taken| taken.into_iter().next()) else {
        return Ok(None);
    };
    to.push(call.pass.value_or_new::<Elements>(call.db, target)?, element.clone());
    call.pass.note_change(call.db, target);
    Ok(Some(element))
}

fn shift(call: &mut Call<'_, '_>, from: End, to: End) -> Done {
    Ok(Resp::bulk_or_nil(move_one(call, from, to)?))
}

fn ends(call: &Call<'_, '_>) -> Result<(End, End), Problem> {
    Ok((End::parse(call.word(3))?, End::parse(call.word(4))?))
}

fn lmove(call: &mut Call<'_, '_>) -> Done {
    let (from, to) = ends(call)?;
    shift(call, from, to)
}

fn wait_to_shift(call: &mut Call<'_, '_>, timeout: usize, ends: Result<(End, End), Problem>) -> Done {
    let (from, to) = ends?;
    call.check_timeout(timeout)?;
    match move_one(call, from, to)? {
        Some(element) => Ok(Resp::Bulk(element)),
        None => call.wait(Resp::Nil),
    }
}

fn wait_to_pop(call: &mut Call<'_, '_>, end: End) -> Done {
    let timeout = call.words.len() - 1;
    call.check_timeout(timeout)?;
    for key in &call.words[1..timeout] {
        if let Some(element) = take(call, key, end, 1)?.and_then(|taken| taken.into_iter().next()) {
            return Ok(Resp::bulks([key.clone(), element]));
        }
    }
    call.wait(Resp::NilArray)
}

fn pop_several(call: &mut Call<'_, '_>, at: usize, waits: bool) -> Done {
    let (keys, at) = call.counted_keys(at)?;
    let end = End::parse(call.word(at))?;
    let count = call.popped_count(at + 1)?;
    for key in keys {
        if let Some(taken) = take(call, key, end, count)? {
            return Ok(Resp::Array(vec![Resp::Bulk(key.clone()), Resp::bulks(taken)]));
        }
    }
    if waits { call.wait(Resp::NilArray) } else { Ok(Resp::NilArray) }
}
