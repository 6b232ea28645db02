//! Ranges of sorted sets: by rank, by score, or by bytes.

use crate::number::{parse_float, parse_integer, resolve_range};
use crate::problem::{Problem, said};

/// A member with its score.
pub type Ranked = (Vec<u8>, f64);

/// The meaning of the bounds of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeBy {
    /// Places in the order.
    Rank,
    /// Scores.
    Score,
    /// Bytes of members, all with the same score.
    Lex,
}

/// The bounds of a range.
#[derive(Clone, Debug, PartialEq)]
pub enum Bounds {
    /// The first and the last place; negative ones count from the end.
    Rank(i64, i64),
    /// Scores, each with whether it is outside.
    Score((f64, bool), (f64, bool)),
    /// Members.
    Lex(LexBound, LexBound),
}

/// A bound by bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LexBound {
    /// Before all members.
    First,
    /// Behind all members.
    Last,
    /// This member, which is inside.
    Closed(Vec<u8>),
    /// This member, which is outside.
    Open(Vec<u8>),
}

impl Bounds {
    /// Parses bounds.
    pub fn parse(by: RangeBy, low: &[u8], high: &[u8]) -> Result<Bounds, Problem> {
        Ok(match by {
            RangeBy::Rank => Bounds::Rank(parse_integer(low)?, parse_integer(high)?),
            RangeBy::Score => Bounds::Score(parse_score(low)?, parse_score(high)?),
            RangeBy::Lex => Bounds::Lex(parse_lex(low)?, parse_lex(high)?),
        })
    }

    fn has(&self, (member, score): &Ranked) -> bool {
        match self {
            Bounds::Rank(..) => true,
            Bounds::Score((low, low_is_open), (high, high_is_open)) => {
                let is_above = if *low_is_open { score > low } else { score >= low };
                let is_below = if *high_is_open { score < high } else { score <= high };
                is_above && is_below
            }
            Bounds::Lex(low, high) => {
                let is_above = match low {
                    LexBound::First => true,
                    LexBound::Last => false,
                    LexBound::Closed(low) => member >= low,
                    LexBound::Open(low) => member > low,
                };
                let is_below = match high {
                    LexBound::First => false,
                    LexBound::Last => true,
                    LexBound::Closed(high) => member <= high,
                    LexBound::Open(high) => member < high,
                };
                is_above && is_below
            }
        }
    }
}

fn parse_score(word: &[u8]) -> Result<(f64, bool), Problem> {
    let (word, is_open) = match word {
        [b'(', word @ ..] => (word, true),
        _ => (word, false),
    };
    let score = parse_float(word).map_err(|_| said("ERR min or max is not a float"))?;
    Ok((score, is_open))
}

fn parse_lex(word: &[u8]) -> Result<LexBound, Problem> {
    match word {
        b"-" => Ok(LexBound::First),
        b"+" => Ok(LexBound::Last),
        [b'[', member @ ..] => Ok(LexBound::Closed(member.to_vec())),
        [b'(', member @ ..] => Ok(LexBound::Open(member.to_vec())),
        _ => Err(said("ERR min or max not valid string range item")),
    }
}

/// The members that are wanted.
pub struct Wanted {
    /// The bounds.
    pub bounds: Bounds,
    /// Whether the highest come first.
    pub is_reversed: bool,
    /// How many to leave out, and how many to take; a negative number means all.
    pub limit: Option<(i64, i64)>,
}

impl Wanted {
    /// All members within the bounds.
    pub fn all(bounds: Bounds) -> Wanted {
        Wanted { bounds, is_reversed: false, limit: None }
    }
}

/// Chooses members of a set, which are in order.
pub fn select(mut all: Vec<Ranked>, wanted: &Wanted) -> Vec<Ranked> {
    if wanted.is_reversed {
        all.reverse();
    }
    if let Bounds::Rank(start, stop) = wanted.bounds {
        return match resolve_range(start, stop, all.len()) {
            Some((first, last)) => all.drain(first..=last).collect(),
            None => Vec::new(),
        };
    }
    let (skip, count) = wanted.limit.unwrap_or((0, -1));
    let Ok(skip) = usize::try_from(skip) else { return Vec::new() };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    all.into_iter().filter(|one| wanted.bounds.has(one)).skip(skip).take(count).collect()
}
