//! Sorts the elements of lists, sets and sorted sets, also by the values of other keys.

use std::cmp::Ordering;

use super::sets::store_or_remove;
use super::sorted_sets::ranked;
use super::{Call, Done, ONE_KEY, Verb, writing};
use crate::datum::{Datum, Elements, Fields};
use crate::number::parse_float;
use crate::problem::{Problem, SYNTAX_ERROR, WRONG_TYPE, said};
use crate::resp::Resp;

// It may store the result, and reads other keys: both must be as they were at the commit.
pub const COMMAND_TABLE: &[Verb] =
    &[writing("sort", -2, ONE_KEY, |call| sort(call, true)), writing("sort_ro", -2, ONE_KEY, |call| sort(call, false))];

/// A value that elements are sorted by.
enum Weight {
    Number(f64),
    Text(Option<Vec<u8>>),
}

fn sort(call: &mut Call<'_, '_>, may_store: bool) -> Done {
    let (mut by, mut limit, mut gets, mut is_reversed, mut is_text, mut store) =
        (None, None, Vec::new(), false, false, None);
    call.options(2, |name, at| {
        let has = |count: usize| at + count < call.words.len();
        match name {
            b"ASC" => is_reversed = false,
            b"DESC" => is_reversed = true,
            b"ALPHA" => is_text = true,
            b"BY" if has(1) => by = Some(call.word(at + 1)),
            b"GET" if has(1) => gets.push(call.word(at + 1)),
            b"STORE" if has(1) && may_store => store = Some(call.word(at + 1)),
            b"LIMIT" if has(2) => {
                limit = Some((call.integer(at + 1)?, call.integer(at + 2)?));
                return Ok(3);
            }
            _ => return Err(SYNTAX_ERROR),
        }
        Ok(if matches!(name, b"ASC" | b"DESC" | b"ALPHA") { 1 } else { 2 })
    })?;
    let (mut elements, is_set) = match call.pass.datum(call.db, call.key())? {
        None => (Vec::new(), false),
        Some(Datum::List(elements)) => (elements.iter().cloned().collect::<Vec<_>>(), false),
        Some(Datum::Set(members)) => (members.iter().cloned().collect(), true),
        Some(Datum::SortedSet(scores)) => (ranked(scores).into_iter().map(|(member, _)| member).collect(), false),
        Some(_) => return Err(WRONG_TYPE),
    };
    let keeps_order = by.is_some_and(|pattern| !pattern.contains(&b'*'));
    match keeps_order {
        // A set has no order of its own that a stored list could keep.
        true if is_set && store.is_some() => elements.sort(),
        true if is_reversed => elements.reverse(),
        true => {}
        false => elements = sorted(call, elements, by, is_text, is_reversed)?,
    }
    let (skip, count) = limit.unwrap_or((0, -1));
    let skip = usize::try_from(skip).unwrap_or(0);
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    for element in elements.into_iter().skip(skip).take(count) {
        if gets.is_empty() {
            found.push(Some(element));
            continue;
        }
        for pattern in &gets {
            found.push(find_value(call, pattern, &element)?);
        }
    }
    match store {
        None => Ok(Resp::Array(found.into_iter().map(Resp::bulk_or_nil).collect())),
        Some(target) => {
            let elements: Elements = found.into_iter().map(Option::unwrap_or_default).collect();
            store_or_remove(call, target, elements.len(), Datum::List(elements))
        }
    }
}

fn sorted(
    call: &mut Call<'_, '_>,
    elements: Vec<Vec<u8>>,
    by: Option<&[u8]>,
    is_text: bool,
    is_reversed: bool,
) -> Result<Vec<Vec<u8>>, Problem> {
    let mut weighed = Vec::new();
    for element in elements {
        let value = match by {
            Some(pattern) => find_value(call, pattern, &element)?,
            None => Some(element.clone()),
        };
        let weight = match (is_text, value) {
            (true, value) => Weight::Text(value),
            (false, None) => Weight::Number(0.0),
            (false, Some(value)) => Weight::Number(
                parse_float(&value).map_err(|_| said("ERR One or more scores can't be converted into double"))?,
            ),
        };
        weighed.push((weight, element));
    }
    weighed.sort_by(|(a, first), (b, second)| {
        let order = match (a, b) {
            (Weight::Number(a), Weight::Number(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
            (Weight::Text(a), Weight::Text(b)) => a.cmp(b),
            _ => Ordering::Equal,
        };
        let order = order.then_with(|| first.cmp(second));
        if is_reversed { order.reverse() } else { order }
    });
    Ok(weighed.into_iter().map(|(_, element)| element).collect())
}

/// The value that a pattern means for an element: `#` is the element itself, `weight_*` a string, `object_*->name` a field.
fn find_value(call: &mut Call<'_, '_>, pattern: &[u8], element: &[u8]) -> Result<Option<Vec<u8>>, Problem> {
    if pattern == b"#" {
        return Ok(Some(element.to_vec()));
    }
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return Ok(None) };
    let (before, behind) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = behind.windows(2).position(|bytes| bytes == b"->").filter(|at| at + 2 < behind.len());
    let (behind, field) = match arrow {
        Some(at) => (&behind[..at], Some(&behind[at + 2..])),
        None => (behind, None),
    };
    let key = [before, element, behind].concat();
    let found = match field {
        Some(field) => {
            call.pass.value::<Fields>(call.db, &key).map(|fields| fields.and_then(|fields| fields.get(field).cloned()))
        }
        None => call.pass.value::<Vec<u8>>(call.db, &key).map(|bytes| bytes.map(|bytes| bytes.clone())),
    };
    match found {
        // A value of another type counts as missing.
        Err(Problem::Said(text)) if text.starts_with("WRONGTYPE") => Ok(None),
        found => found,
    }
}
