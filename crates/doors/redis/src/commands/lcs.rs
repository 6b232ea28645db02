//! The longest common subsequence of two strings.

use super::strings::string;
use super::{Call, Done, TWO_KEYS, Verb, reading};
use crate::problem::{SYNTAX_ERROR, said};
use crate::resp::Resp;

pub const COMMAND_TABLE: &[Verb] = &[reading("lcs", -3, TWO_KEYS, lcs)];

/// The most pairs of bytes that are compared: each takes four bytes of memory.
const MAX_COMPARED_PAIRS: usize = 64 << 20;

fn lcs(call: &mut Call<'_, '_>) -> Done {
    let (mut wants_length, mut wants_ranges, mut with_lengths, mut least) = (false, false, false, 0);
    call.options(3, |name, at| {
        match name {
            b"LEN" => wants_length = true,
            b"IDX" => wants_ranges = true,
            b"WITHMATCHLEN" => with_lengths = true,
            b"MINMATCHLEN" if at + 1 < call.words.len() => {
                least = usize::try_from(call.integer(at + 1)?).unwrap_or(0);
                return Ok(2);
            }
            _ => return Err(SYNTAX_ERROR),
        }
        Ok(1)
    })?;
    if wants_length && wants_ranges {
        return Err(said("ERR If you want both the length and indexes, please just use IDX."));
    }
    let a = string(call, call.word(1))?.unwrap_or_default();
    let b = string(call, call.word(2))?.unwrap_or_default();
    let table = Table::new(&a, &b).ok_or(said("ERR Insufficient memory, the strings are too long for LCS"))?;
    if wants_length {
        return Ok(Resp::Number(table.length(a.len(), b.len()).into()));
    }
    let pairs = table.pairs(&a, &b);
    if !wants_ranges {
        return Ok(Resp::Bulk(pairs.iter().map(|(at, _)| a[*at]).collect()));
    }
    let ranges = runs(&pairs).into_iter().rev().filter(|(_, _, length)| *length >= least).map(|(a, b, length)| {
        let range = |start: usize| Resp::Array(vec![Resp::count(start), Resp::count(start + length - 1)]);
        let mut one = vec![range(a), range(b)];
        if with_lengths {
            one.push(Resp::count(length));
        }
        Resp::Array(one)
    });
    Ok(Resp::Map(vec![
        (Resp::text("matches"), Resp::Array(ranges.collect())),
        (Resp::text("len"), Resp::count(pairs.len())),
    ]))
}

/// The lengths of the subsequences of all beginnings of two strings.
struct Table {
    lengths: Vec<u32>,
    width: usize,
}

impl Table {
    fn new(a: &[u8], b: &[u8]) -> Option<Table> {
        let width = b.len() + 1;
        let size = width.checked_mul(a.len() + 1).filter(|size| *size <= MAX_COMPARED_PAIRS)?;
        let mut table = Table { lengths: vec![0; size], width };
        for (i, x) in a.iter().enumerate() {
            for (j, y) in b.iter().enumerate() {
                let length = match x == y {
                    true => table.length(i, j) + 1,
                    false => table.length(i, j + 1).max(table.length(i + 1, j)),
                };
                table.lengths[(i + 1) * width + j + 1] = length;
            }
        }
        Some(table)
    }

    fn length(&self, a: usize, b: usize) -> u32 {
        self.lengths[a * self.width + b]
    }

    /// The positions of the common bytes in both strings.
    fn pairs(&self, a: &[u8], b: &[u8]) -> Vec<(usize, usize)> {
        let (mut i, mut j, mut pairs) = (a.len(), b.len(), Vec::new());
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                (i, j) = (i - 1, j - 1);
                pairs.push((i, j));
            } else if self.length(i - 1, j) > self.length(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        pairs.reverse();
        pairs
    }
}

/// Joins pairs that follow each other in both strings: the positions, and the number of pairs.
fn runs(pairs: &[(usize, usize)]) -> Vec<(usize, usize, usize)> {
    let mut runs: Vec<(usize, usize, usize)> = Vec::new();
    for &(a, b) in pairs {
        match runs.last_mut() {
            Some((first, second, length)) if *first + *length == a && *second + *length == b => *length += 1,
            _ => runs.push((a, b, 1)),
        }
    }
    runs
}
