//! Scans, in steps.

use super::{Call, Done, NO_KEYS, ONE_KEY, Verb, reading};
use crate::datum::{Fields, Members, Scores};
use crate::pattern::matches;
use crate::problem::{Problem, SYNTAX_ERROR, said};
use crate::resp::{Resp, format_double};

pub const COMMAND_TABLE: &[Verb] = &[
    reading("scan", -2, NO_KEYS, scan),
    reading("hscan", -3, ONE_KEY, hscan),
    reading("sscan", -3, ONE_KEY, sscan),
    reading("zscan", -3, ONE_KEY, zscan),
];

/// How many keys a step of a scan looks at, if the client does not say.
const USUAL_STEP: usize = 10;
/// The most keys that a step looks at: other clients wait meanwhile.
const MAX_STEP: usize = 10_000;

/// The arguments of a scan.
struct Wanted<'c> {
    pattern: Option<&'c [u8]>,
    step: usize,
    kind: Option<&'c [u8]>,
}

impl Wanted<'_> {
    fn has(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| matches(pattern, name))
    }
}

fn wanted<'c>(call: &Call<'c, '_>, at: usize) -> Result<Wanted<'c>, Problem> {
    let mut wanted = Wanted { pattern: None, step: USUAL_STEP, kind: None };
    call.options(at, |name, at| {
        if at + 1 >= call.words.len() {
            return Err(SYNTAX_ERROR);
        }
        match name {
            b"MATCH" => wanted.pattern = Some(call.word(at + 1)),
            b"COUNT" => {
                wanted.step =
                    usize::try_from(call.integer(at + 1)?).ok().filter(|step| *step > 0).ok_or(SYNTAX_ERROR)?
            }
            b"TYPE" => wanted.kind = Some(call.word(at + 1)),
            _ => return Err(SYNTAX_ERROR),
        }
        Ok(2)
    })?;
    Ok(wanted)
}

fn cursor(call: &Call<'_, '_>, at: usize) -> Result<u64, Problem> {
    let text = std::str::from_utf8(call.word(at)).ok();
    text.and_then(|text| text.parse().ok()).ok_or(said("ERR invalid cursor"))
}

fn scan(call: &mut Call<'_, '_>) -> Done {
    let cursor = cursor(call, 1)?;
    let wanted = wanted(call, 2)?;
    let after = match cursor {
        0 => None,
        number => {
            let lost = said(
                "ERR unknown cursor: it is of another server, or too many scans came after it; begin the scan again",
            );
            Some(call.positions.find(number).ok_or(lost)?)
        }
    };
    let (names, next) = call.pass.names(call.db, after.as_deref(), wanted.step.min(MAX_STEP))?;
    let mut found = Vec::new();
    for name in names.into_iter().filter(|name| wanted.has(name)) {
        let is_kind = match wanted.kind {
            None => true,
            Some(kind) => call
                .pass
                .peek(call.db, &name)?
                .is_some_and(|held| kind.eq_ignore_ascii_case(held.kind.name().as_bytes())),
        };
        if is_kind {
            found.push(Resp::Bulk(name));
        }
    }
    let next = next.map_or(0, |next| call.positions.remember(next));
    Ok(Resp::Array(vec![Resp::text(&next.to_string()), Resp::Array(found)]))
}

/// A document is returned in one step: it is read whole anyway.
fn all_at_once(found: Vec<Resp>) -> Resp {
    Resp::Array(vec![Resp::text("0"), Resp::Array(found)])
}

fn arguments<'c>(call: &Call<'c, '_>) -> Result<Wanted<'c>, Problem> {
    cursor(call, 2)?;
    let wanted = wanted(call, 3)?;
    if wanted.kind.is_some() { Err(SYNTAX_ERROR) } else { Ok(wanted) }
}

fn hscan(call: &mut Call<'_, '_>) -> Done {
    let wanted = arguments(call)?;
    let mut found = Vec::new();
    if let Some(fields) = call.pass.value::<Fields>(call.db, call.key())? {
        for (field, value) in fields.iter().filter(|(field, _)| wanted.has(field)) {
            found.extend([Resp::Bulk(field.clone()), Resp::Bulk(value.clone())]);
        }
    }
    Ok(all_at_once(found))
}

fn sscan(call: &mut Call<'_, '_>) -> Done {
    let wanted = arguments(call)?;
    let mut found = Vec::new();
    if let Some(members) = call.pass.value::<Members>(call.db, call.key())? {
        found.extend(members.iter().filter(|member| wanted.has(member)).map(|member| Resp::Bulk(member.clone())));
    }
    Ok(all_at_once(found))
}

fn zscan(call: &mut Call<'_, '_>) -> Done {
    let wanted = arguments(call)?;
    let mut found = Vec::new();
    if let Some(scores) = call.pass.value::<Scores>(call.db, call.key())? {
        for (member, score) in scores.iter().filter(|(member, _)| wanted.has(member)) {
            found.extend([Resp::Bulk(member.clone()), Resp::text(&format_double(*score))]);
        }
    }
    Ok(all_at_once(found))
}
