//! Plans: the moves for any request through a view.

use std::collections::HashMap;

use terrace_kernels::Steps;

use super::field::{Field, Group, normalise};
use super::join::{Joined, join};
use super::route::Route;
use super::side::{MAX_PIECES, Piece, pieces};
use super::walk::Pair;
use crate::layout::{Layout, is_regular};
use crate::model::Misfit;

/// The moves between the bytes of a view and those of stored files, in either direction.
///
/// A plan is made once. The time of a request depends on the bytes that it moves and the number of descriptors, not on
/// the length of the view.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The view's length in bytes.
    pub(crate) length: u64,
    /// Whether every byte of the view is moved. Otherwise some bytes are padding, which reads as zeros.
    pub(crate) dense: bool,
    /// The parts in the order in which they run: if the view shows an element twice, the last write wins.
    pub(crate) parts: Vec<Part>,
}

/// A part of a plan.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// Fields that are repeated equally often.
    Group(Group),
    /// Elements that no groups describe are moved one by one.
    Pair(Pair),
}

/// The ranks of a leaf's elements, which order the parts of a plan: the offset of the leaf in the view, the first rank there, and the
/// next free one.
#[derive(Clone, Copy, Default)]
struct LeafRanks {
    offset: Option<u64>,
    first: usize,
    next: usize,
}

/// The key of groups whose fields can move together: the file, the number of earlier occurrences of the leaf, the
/// counts, and for each count whether it leaves one of the ends in place.
type Key = (usize, usize, Vec<(u64, bool, bool)>);

impl Plan {
    /// The view's length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the stored file and the offset in it, if the request is one unconverted run of bytes of one file.
    pub fn straight(&self, offset: u64, length: u64) -> Option<(usize, u64)> {
        let [Part::Group(group)] = &self.parts[..] else { return None };
        let ([field], []) = (&group.fields[..], &group.counts[..]) else { return None };
        let within = field.unit == 1
            && field.a <= i64::try_from(offset).ok()?
            && offset.checked_add(length)? <= (field.a as u64).checked_add(field.size)?;
        within.then_some((group.file, (field.b + (offset as i64 - field.a)) as u64))
    }

    /// Returns the number of descriptors, which determines the cost of a request.
    pub fn descriptors(&self) -> usize {
        let count = |part: &Part| if let Part::Group(group) = part { group.fields.len() } else { 1 };
        self.parts.iter().map(count).sum()
    }

    /// Returns the number of leaves that are moved element by element, because no descriptors describe them.
    pub fn walked(&self) -> usize {
        self.parts.iter().filter(|part| matches!(part, Part::Pair(_))).count()
    }

    /// Creates a plan for these routes. With `all`, as for a write, every copy is reached; a read needs only one.
    pub(crate) fn of(view: &Layout, routes: &[Route], all: bool) -> Plan {
        let length = view.files.first().copied().unwrap_or(0);
        let mut plan = Plan { length, dense: view.payload() == length, ..Plan::default() };
        let mut parts: Vec<(usize, Part)> = Vec::new();
        let mut groups: HashMap<Key, usize> = HashMap::new();
        // Elements that the view shows twice must not move in one group: the order of the file decides which write
        // wins.
        let mut ranks: HashMap<(usize, usize), LeafRanks> = HashMap::new();
        for route in routes.iter().filter(|route| route.view.count() > 0 && route.stored.count() > 0) {
            let ranks = ranks.entry((route.view.leaf, route.file)).or_default();
            if ranks.offset != Some(route.view.offset) {
                *ranks = LeafRanks { offset: Some(route.view.offset), first: ranks.next, next: ranks.next + 1 };
            }
            match fields(route, all) {
                Ok(found) => {
                    for (order, field, counts) in found {
                        let rank = ranks.first + order;
                        ranks.next = ranks.next.max(rank + 1);
                        let moves =
                            counts.iter().zip(&field.steps).map(|(count, step)| (*count, step.0 == 0, step.1 == 0));
                        let key = (route.file, rank, moves.collect());
                        let number = *groups.entry(key).or_insert(parts.len());
                        if number == parts.len() {
                            parts.push((rank, Part::Group(Group { file: route.file, counts, fields: Vec::new() })));
                        }
                        if let Some((_, Part::Group(group))) = parts.get_mut(number) {
                            group.fields.push(field);
                        }
                    }
                }
                Err(_) => parts.push((ranks.first, Part::Pair(Pair::new(route)))),
            }
        }
        parts.sort_by_key(|(rank, _)| *rank);
        plan.parts = parts.into_iter().map(|(_, part)| part).collect();
        for part in &mut plan.parts {
            if let Part::Group(group) = part {
                group.coalesce();
            }
        }
        plan
    }
}

/// Returns the elements that both ends of a route have, each with its rank. Repetitions in the view that do not form
/// one box have a rank of their own.
fn fields(route: &Route, all: bool) -> Result<Vec<(usize, Field, Vec<u64>)>, Misfit> {
    if !is_regular(route.view) {
        return Err(Misfit::TooComplex);
    }
    let (mut view, stored) = (pieces(route.view, true)?, pieces(route.stored, all)?);
    view.sort_by_key(|piece| piece.offset);
    let repeats = view.iter().any(|piece| !piece.repeats.is_empty());
    let swap = route.view.big != route.stored.big;
    let mut found = Vec::new();
    for (rank, a) in view.iter().enumerate() {
        let rank = if repeats { rank } else { 0 };
        for b in &stored {
            for (field, counts) in meet(a, b)? {
                for part in route.view.primitive.parts() {
                    found.push((rank, field.part(part, swap), counts.clone()));
                }
            }
            if found.len() > MAX_PIECES {
                return Err(Misfit::TooComplex);
            }
        }
    }
    Ok(found)
}

fn meet(a: &Piece, b: &Piece) -> Result<Vec<(Field, Vec<u64>)>, Misfit> {
    let mut joined = vec![Joined { a: a.offset, b: b.offset, steps: Vec::new() }];
    for (a, b) in a.dimensions.iter().zip(&b.dimensions) {
        let own = join(a, b)?;
        if own.len() * joined.len() > MAX_PIECES {
            return Err(Misfit::TooComplex);
        }
        let with = |base: &Joined, one: &Joined| Joined {
            a: base.a + one.a,
            b: base.b + one.b,
            steps: base.steps.iter().chain(&one.steps).copied().collect(),
        };
        joined = joined.iter().flat_map(|base| own.iter().map(move |one| with(base, one))).collect();
    }
    let field = |one: Joined| {
        let mut counts: Vec<u64> = one.steps.iter().map(|step| step.count).collect();
        let mut steps: Steps = one.steps.iter().map(|step| (step.a, step.b)).collect();
        for (count, stride) in &a.repeats {
            counts.push(*count);
            steps.push((*stride, 0));
        }
        for (count, stride) in &b.repeats {
            counts.push(*count);
            steps.push((0, *stride));
        }
        let mut field = Field { a: one.a, b: one.b, size: 0, unit: 1, steps };
        normalise(&mut field, &mut counts);
        (field, counts)
    };
    Ok(joined.into_iter().map(field).collect())
}
