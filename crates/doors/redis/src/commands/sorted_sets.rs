//! Sorted sets.

use std::cmp::Ordering;

use super::hashes::random_count;
use super::score_ranges::{Bounds, RangeBy, Ranked, Wanted, select};
use super::sets::{Combination, read_limit, store_or_remove};
use super::{
    Call, Done, KEYS_AFTER_OPERATION, KEYS_BEFORE_TIMEOUT, NO_KEYS, ONE_KEY, TWO_KEYS, Verb, WaitRule, reading,
    waiting, writing,
};
use crate::datum::{Datum, DatumType, Members, Scores};
use crate::number::parse_float;
use crate::problem::{Problem, SYNTAX_ERROR, WRONG_TYPE, said};
use crate::random::choose;
use crate::resp::{Protocol, Resp};

const WAIT_FOR_MEMBER: WaitRule = WaitRule { timeout: -1, nothing: || Resp::NilArray };
const WAIT_FOR_SEVERAL: WaitRule = WaitRule { timeout: 1, nothing: || Resp::NilArray };

pub const COMMAND_TABLE: &[Verb] = &[
    writing("zadd", -4, ONE_KEY, zadd),
    writing("zincrby", 4, ONE_KEY, zincrby),
    writing("zrem", -3, ONE_KEY, zrem),
    reading("zcard", 2, ONE_KEY, zcard),
    reading("zscore", 3, ONE_KEY, zscore),
    reading("zmscore", -3, ONE_KEY, zmscore),
    reading("zrank", 3, ONE_KEY, |call| rank(call, false)),
    reading("zrevrank", 3, ONE_KEY, |call| rank(call, true)),
    reading("zcount", 4, ONE_KEY, |call| count(call, RangeBy::Score)),
    reading("zlexcount", 4, ONE_KEY, |call| count(call, RangeBy::Lex)),
    reading("zrange", -4, ONE_KEY, |call| range(call, RangeBy::Rank, false, true)),
    reading("zrevrange", -4, ONE_KEY, |call| range(call, RangeBy::Rank, true, false)),
    reading("zrangebyscore", -4, ONE_KEY, |call| range(call, RangeBy::Score, false, false)),
    reading("zrevrangebyscore", -4, ONE_KEY, |call| range(call, RangeBy::Score, true, false)),
    reading("zrangebylex", -4, ONE_KEY, |call| range(call, RangeBy::Lex, false, false)),
    reading("zrevrangebylex", -4, ONE_KEY, |call| range(call, RangeBy::Lex, true, false)),
    writing("zrangestore", -5, TWO_KEYS, zrangestore),
    writing("zremrangebyrank", 4, ONE_KEY, |call| remove_range(call, RangeBy::Rank)),
    writing("zremrangebyscore", 4, ONE_KEY, |call| remove_range(call, RangeBy::Score)),
    writing("zremrangebylex", 4, ONE_KEY, |call| remove_range(call, RangeBy::Lex)),
    writing("zpopmin", -2, ONE_KEY, |call| pop(call, false)),
    writing("zpopmax", -2, ONE_KEY, |call| pop(call, true)),
    writing("zmpop", -4, NO_KEYS, |call| pop_several(call, 1, false)),
    waiting("bzpopmin", -3, KEYS_BEFORE_TIMEOUT, WAIT_FOR_MEMBER, |call| wait_to_pop(call, false)),
    waiting("bzpopmax", -3, KEYS_BEFORE_TIMEOUT, WAIT_FOR_MEMBER, |call| wait_to_pop(call, true)),
    waiting("bzmpop", -5, NO_KEYS, WAIT_FOR_SEVERAL, |call| {
        call.check_timeout(1)?;
        pop_several(call, 2, true)
    }),
    reading("zrandmember", -2, ONE_KEY, zrandmember),
    reading("zunion", -3, NO_KEYS, |call| combined(call, Combination::Union)),
    reading("zinter", -3, NO_KEYS, |call| combined(call, Combination::Intersection)),
    reading("zdiff", -3, NO_KEYS, |call| combined(call, Combination::Difference)),
    writing("zunionstore", -4, ONE_KEY, |call| store_combined(call, Combination::Union)),
    writing("zinterstore", -4, ONE_KEY, |call| store_combined(call, Combination::Intersection)),
    writing("zdiffstore", -4, ONE_KEY, |call| store_combined(call, Combination::Difference)),
    reading("zintercard", -3, KEYS_AFTER_OPERATION, zintercard),
];

/// The members in order of their scores, then of their bytes.
pub fn ranked(scores: &Scores) -> Vec<Ranked> {
    let mut all: Vec<Ranked> = scores.iter().map(|(member, score)| (member.clone(), *score)).collect();
    all.sort_by(compare);
    all
}

fn compare((a, first): &Ranked, (b, second): &Ranked) -> Ordering {
    first.partial_cmp(second).unwrap_or(Ordering::Equal).then_with(|| a.cmp(b))
}

fn scores(call: &mut Call<'_, '_>, key: &[u8]) -> Result<Scores, Problem> {
    Ok(call.pass.value::<Scores>(call.db, key)?.cloned().unwrap_or_default())
}

/// Replies with members, and with their scores if `with_scores`: in pairs, if the protocol has types and `may_pair`.
fn replies(call: &Call<'_, '_>, members: Vec<Ranked>, with_scores: bool, may_pair: bool) -> Resp {
    let pairs = may_pair && call.protocol == Protocol::Resp3;
    let mut found = Vec::new();
    for (member, score) in members {
        match (with_scores, pairs) {
            (false, _) => found.push(Resp::Bulk(member)),
            (true, false) => found.extend([Resp::Bulk(member), Resp::Double(score)]),
            (true, true) => found.push(Resp::Array(vec![Resp::Bulk(member), Resp::Double(score)])),
        }
    }
    Resp::Array(found)
}

fn zadd(call: &mut Call<'_, '_>) -> Done {
    let (mut only_new, mut only_old, mut only_greater, mut only_less, mut counts_changes, mut adds) =
        (false, false, false, false, false, false);
    let mut at = 2;
    loop {
        match call.word(at).to_ascii_uppercase().as_slice() {
            b"NX" => only_new = true,
            b"XX" => only_old = true,
            b"GT" => only_greater = true,
            b"LT" => only_less = true,
            b"CH" => counts_changes = true,
            b"INCR" => adds = true,
            _ => break,
        }
        at += 1;
    }
    let pairs = call.words_from(at);
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(SYNTAX_ERROR);
    }
    if only_new && only_old {
        return Err(said("ERR XX and NX options at the same time are not compatible"));
    }
    if (only_greater && only_less) || (only_new && (only_greater || only_less)) {
        return Err(said("ERR GT, LT, and/or NX options at the same time are not compatible"));
    }
    if adds && pairs.len() > 2 {
        return Err(said("ERR INCR option supports a single increment-element pair"));
    }
    let mut new = Vec::new();
    for pair in pairs.chunks_exact(2) {
        new.push((parse_float(&pair[0])?, &pair[1]));
    }
    if only_old && call.pass.value::<Scores>(call.db, call.key())?.is_none() {
        return Ok(if adds { Resp::Nil } else { Resp::Number(0) });
    }
    let known = call.pass.value_or_new::<Scores>(call.db, call.key())?;
    let (mut added, mut changed, mut last) = (0, 0, None);
    for (score, member) in new {
        let old = known.get(member).copied();
        let score = match old {
            Some(old) if adds => old + score,
            _ => score,
        };
        if score.is_nan() {
            return Err(said("ERR resulting score is not a number (NaN)"));
        }
        let is_refused = match old {
            Some(old) => only_new || (only_greater && score <= old) || (only_less && score >= old),
            None => only_old,
        };
        if is_refused {
            continue;
        }
        known.insert(member.clone(), score);
        added += usize::from(old.is_none());
        changed += usize::from(old.is_some_and(|old| old != score));
        last = Some(score);
    }
    // Also if nothing was added: a set that is still empty does not exist.
    call.pass.note_change(call.db, call.key());
    Ok(match (adds, counts_changes) {
        (true, _) => last.map_or(Resp::Nil, Resp::Double),
        (false, true) => Resp::count(added + changed),
        (false, false) => Resp::count(added),
    })
}

fn zincrby(call: &mut Call<'_, '_>) -> Done {
    let (by, member) = (call.float(2)?, call.word(3));
    let old = call.pass.value::<Scores>(call.db, call.key())?.and_then(|known| known.get(member).copied());
    let score = old.unwrap_or(0.0) + by;
    if score.is_nan() {
        return Err(said("ERR resulting score is not a number (NaN)"));
    }
    call.pass.value_or_new::<Scores>(call.db, call.key())?.insert(member.to_vec(), score);
    call.pass.note_change(call.db, call.key());
    Ok(Resp::Double(score))
}

fn remove(call: &mut Call<'_, '_>, key: &[u8], members: impl IntoIterator<Item = Vec<u8>>) -> Result<usize, Problem> {
    let Some(known) = call.pass.value::<Scores>(call.db, key)? else { return Ok(0) };
    let count = members.into_iter().filter(|member| known.remove(member).is_some()).count();
    if count > 0 {
        call.pass.note_change(call.db, key);
    }
    Ok(count)
}

fn zrem(call: &mut Call<'_, '_>) -> Done {
    Ok(Resp::count(remove(call, call.key(), call.words_from(2).iter().cloned())?))
}

fn zcard(call: &mut Call<'_, '_>) -> Done {
    Ok(Resp::count(call.pass.value::<Scores>(call.db, call.key())?.map_or(0, |known| known.len())))
}

fn zscore(call: &mut Call<'_, '_>) -> Done {
    let member = call.word(2);
    let known = call.pass.value::<Scores>(call.db, call.key())?;
    Ok(known.and_then(|known| known.get(member).copied()).map_or(Resp::Nil, Resp::Double))
}

fn zmscore(call: &mut Call<'_, '_>) -> Done {
    let known = scores(call, call.key())?;
    let score = |member: &Vec<u8>| known.get(member).copied().map_or(Resp::Nil, Resp::Double);
    Ok(Resp::Array(call.words_from(2).iter().map(score).collect()))
}

fn rank(call: &mut Call<'_, '_>, is_reversed: bool) -> Done {
    let all = ranked(&scores(call, call.key())?);
    let place = all.iter().position(|(member, _)| member == call.word(2));
    let place = place.map(|at| if is_reversed { all.len() - 1 - at } else { at });
    Ok(place.map_or(Resp::Nil, Resp::count))
}

fn count(call: &mut Call<'_, '_>, by: RangeBy) -> Done {
    let wanted = Wanted::all(Bounds::parse(by, call.word(2), call.word(3))?);
    Ok(Resp::count(select(ranked(&scores(call, call.key())?), &wanted).len()))
}

fn range(call: &mut Call<'_, '_>, by: RangeBy, is_reversed: bool, may_choose: bool) -> Done {
    let (wanted, with_scores) = read_range(call, 2, by, is_reversed, may_choose, true)?;
    let found = select(ranked(&scores(call, call.key())?), &wanted);
    Ok(replies(call, found, with_scores, true))
}

/// Reads the arguments of a range: the bounds at `at`, and options behind them.
fn read_range(
    call: &Call<'_, '_>,
    at: usize,
    mut by: RangeBy,
    mut is_reversed: bool,
    may_choose: bool,
    may_show: bool,
) -> Result<(Wanted, bool), Problem> {
    let (mut with_scores, mut limit) = (false, None);
    call.options(at + 2, |name, at| {
        match name {
            b"WITHSCORES" if may_show => with_scores = true,
            b"LIMIT" if at + 2 < call.words.len() => {
                limit = Some((call.integer(at + 1)?, call.integer(at + 2)?));
                return Ok(3);
            }
            b"BYSCORE" if may_choose => by = RangeBy::Score,
            b"BYLEX" if may_choose => by = RangeBy::Lex,
            b"REV" if may_choose => is_reversed = true,
            _ => return Err(SYNTAX_ERROR),
        }
        Ok(1)
    })?;
    if limit.is_some() && by == RangeBy::Rank {
        return Err(said("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"));
    }
    if with_scores && by == RangeBy::Lex {
        return Err(said("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
    }
    let (first, second) = (call.word(at), call.word(at + 1));
    // Reversed ranges begin with the highest bound, ranks count from the end.
    let (low, high) = if is_reversed && by != RangeBy::Rank { (second, first) } else { (first, second) };
    Ok((Wanted { bounds: Bounds::parse(by, low, high)?, is_reversed, limit }, with_scores))
}

fn zrangestore(call: &mut Call<'_, '_>) -> Done {
    let (wanted, _) = read_range(call, 3, RangeBy::Rank, false, true, false)?;
    let found = select(ranked(&scores(call, call.word(2))?), &wanted);
    let count = found.len();
    store_or_remove(call, call.word(1), count, Datum::SortedSet(found.into_iter().collect()))
}

fn remove_range(call: &mut Call<'_, '_>, by: RangeBy) -> Done {
    let wanted = Wanted::all(Bounds::parse(by, call.word(2), call.word(3))?);
    let found = select(ranked(&scores(call, call.key())?), &wanted);
    Ok(Resp::count(remove(call, call.key(), found.into_iter().map(|(member, _)| member))?))
}

/// Takes the members with the lowest or highest scores.
fn take(call: &mut Call<'_, '_>, key: &[u8], count: usize, is_highest: bool) -> Result<Vec<Ranked>, Problem> {
    let Some(known) = call.source::<Scores>(key)? else { return Ok(Vec::new()) };
    let mut all = ranked(known);
    if is_highest {
        all.reverse();
    }
    all.truncate(count);
    remove(call, key, all.iter().map(|(member, _)| member.clone()))?;
    Ok(all)
}

fn pop(call: &mut Call<'_, '_>, is_highest: bool) -> Done {
    let count = match call.words.len() {
        2 => None,
        3 => Some(call.count(2)?),
        _ => return Err(SYNTAX_ERROR),
    };
    let taken = take(call, call.key(), count.unwrap_or(1), is_highest)?;
    Ok(replies(call, taken, true, count.is_some()))
}

fn wait_to_pop(call: &mut Call<'_, '_>, is_highest: bool) -> Done {
    let timeout = call.words.len() - 1;
    call.check_timeout(timeout)?;
    for key in &call.words[1..timeout] {
        if let Some((member, score)) = take(call, key, 1, is_highest)?.pop() {
            return Ok(Resp::Array(vec![Resp::Bulk(key.clone()), Resp::Bulk(member), Resp::Double(score)]));
        }
    }
    call.wait(Resp::NilArray)
}

fn pop_several(call: &mut Call<'_, '_>, at: usize, waits: bool) -> Done {
    let (keys, at) = call.counted_keys(at)?;
    let is_highest = match call.word(at).to_ascii_uppercase().as_slice() {
        b"MIN" => false,
        b"MAX" => true,
        _ => return Err(SYNTAX_ERROR),
    };
    let count = call.popped_count(at + 1)?;
    for key in keys {
        let taken = take(call, key, count, is_highest)?;
        if !taken.is_empty() {
            let pair = |(member, score)| Resp::Array(vec![Resp::Bulk(member), Resp::Double(score)]);
            return Ok(Resp::Array(vec![Resp::Bulk(key.clone()), Resp::Array(taken.into_iter().map(pair).collect())]));
        }
    }
    if waits { call.wait(Resp::NilArray) } else { Ok(Resp::NilArray) }
}

fn zrandmember(call: &mut Call<'_, '_>) -> Done {
    let wanted = if call.words.len() > 2 { Some(random_count(call, 2)?) } else { None };
    let with_scores = match call.words.len() {
        2 | 3 => false,
        4 if call.says(3, "withscores") => true,
        _ => return Err(SYNTAX_ERROR),
    };
    let all: Vec<Ranked> = scores(call, call.key())?.into_iter().collect();
    let (count, repeats) = wanted.unwrap_or((1, false));
    if with_scores && count > (i64::MAX / 2) as usize {
        return Err(said("ERR value is out of range"));
    }
    let chosen: Vec<Ranked> = choose(all.len(), count, repeats).into_iter().map(|at| all[at].clone()).collect();
    Ok(match wanted {
        None => Resp::bulk_or_nil(chosen.into_iter().next().map(|(member, _)| member)),
        Some(_) => replies(call, chosen, with_scores, true),
    })
}

/// How the scores of a member in several sets become one.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn join(self, a: f64, b: f64) -> f64 {
        match self {
            // Infinities with different signs have no sum.
            Aggregate::Sum if (a + b).is_nan() => 0.0,
            Aggregate::Sum => a + b,
            Aggregate::Min => a.min(b),
            Aggregate::Max => a.max(b),
        }
    }
}

/// The members of a sorted set, or of a set, with a score of 1 each.
fn members_with_scores(call: &mut Call<'_, '_>, key: &[u8]) -> Result<Scores, Problem> {
    match call.pass.datum(call.db, key)? {
        None => Ok(Scores::new()),
        Some(Datum::SortedSet(scores)) => Ok(scores.clone()),
        Some(Datum::Set(members)) => {
            let members: &Members = members;
            Ok(members.iter().map(|member| (member.clone(), 1.0)).collect())
        }
        Some(_) => Err(WRONG_TYPE),
    }
}

/// Reads a count of keys, with the message that these commands have.
fn some_keys<'c>(call: &Call<'c, '_>, at: usize) -> Result<(&'c [Vec<u8>], usize), Problem> {
    if call.integer(at)? < 1 {
        return Err(format!("ERR at least 1 input key is needed for '{}' command", call.name()).into());
    }
    call.counted_keys(at).map_err(|_| SYNTAX_ERROR)
}

/// Combines the sets whose number is at `at`. Returns whether scores are wanted, too.
fn combine(
    call: &mut Call<'_, '_>,
    at: usize,
    combination: Combination,
    may_show: bool,
) -> Result<(Scores, bool), Problem> {
    let (keys, behind) = some_keys(call, at)?;
    let (mut weights, mut aggregate, mut with_scores) = (vec![1.0; keys.len()], Aggregate::Sum, false);
    let may_weigh = combination != Combination::Difference;
    call.options(behind, |name, at| match name {
        b"WEIGHTS" if may_weigh && at + keys.len() < call.words.len() => {
            for (place, weight) in weights.iter_mut().enumerate() {
                *weight = call.float(at + 1 + place).map_err(|_| said("ERR weight value is not a float"))?;
            }
            Ok(1 + keys.len())
        }
        b"AGGREGATE" if may_weigh && at + 1 < call.words.len() => {
            aggregate = match call.word(at + 1).to_ascii_uppercase().as_slice() {
                b"SUM" => Aggregate::Sum,
                b"MIN" => Aggregate::Min,
                b"MAX" => Aggregate::Max,
                _ => return Err(SYNTAX_ERROR),
            };
            Ok(2)
        }
        b"WITHSCORES" if may_show => {
            with_scores = true;
            Ok(1)
        }
        _ => Err(SYNTAX_ERROR),
    })?;
    let mut result: Option<Scores> = None;
    for (key, weight) in keys.iter().zip(weights) {
        let mut next = members_with_scores(call, key)?;
        for score in next.values_mut() {
            let weighed = *score * weight;
            *score = if weighed.is_nan() { 0.0 } else { weighed };
        }
        result = Some(match result {
            None => next,
            Some(mut result) => {
                match combination {
                    Combination::Union => {
                        for (member, score) in next {
                            result.entry(member).and_modify(|old| *old = aggregate.join(*old, score)).or_insert(score);
                        }
                    }
                    Combination::Intersection => result.retain(|member, old| {
                        let other = next.get(member);
                        other.iter().for_each(|score| *old = aggregate.join(*old, **score));
                        other.is_some()
                    }),
                    Combination::Difference => result.retain(|member, _| !next.contains_key(member)),
                }
                result
            }
        });
    }
    Ok((result.unwrap_or_default(), with_scores))
}

fn combined(call: &mut Call<'_, '_>, combination: Combination) -> Done {
    let (result, with_scores) = combine(call, 1, combination, true)?;
    Ok(replies(call, ranked(&result), with_scores, true))
}

fn store_combined(call: &mut Call<'_, '_>, combination: Combination) -> Done {
    let (result, _) = combine(call, 2, combination, false)?;
    store_or_remove(call, call.word(1), result.len(), result.into_datum())
}

fn zintercard(call: &mut Call<'_, '_>) -> Done {
    let (keys, at) = some_keys(call, 1)?;
    let limit = read_limit(call, at)?;
    let mut sets = Vec::new();
    for key in keys {
        sets.push(members_with_scores(call, key)?);
    }
    let is_in_all = |member: &&Vec<u8>| sets.iter().all(|set| set.contains_key(*member));
    let count = sets.first().map_or(0, |first| first.keys().filter(is_in_all).count());
    Ok(Resp::count(limit.map_or(count, |limit| count.min(limit))))
}
