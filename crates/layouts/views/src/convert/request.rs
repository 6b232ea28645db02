//! Reads and writes of any bytes of a view.

use std::convert::Infallible;
use std::ops::Range;

use super::clip::{Clipped, clip};
use super::field::{Field, Group};
use super::plan::{Part, Plan};
use terrace_kernels::{Hull, Move, Moves};

/// A part of a stored file, in memory.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// The start in the file.
    pub start: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// A part of a stored file, in memory, to be written to.
#[derive(Debug)]
pub struct WindowMut<'a> {
    /// The start in the file.
    pub start: u64,
    /// The bytes.
    pub bytes: &'a mut [u8],
}

/// The reason why a request cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// The request is not within the view.
    #[error("bytes {start}..{end} are not within the view, which is {length} long; ask for less")]
    Beyond {
        /// The first requested byte.
        start: u64,
        /// The first byte after the request.
        end: u64,
        /// The length of the view.
        length: u64,
    },
    /// The request needs bytes of a stored file that are not in memory.
    #[error("bytes {start}..{end} of stored file {file} are needed and not given; see `Plan::touches`")]
    File {
        /// The index of the file.
        file: usize,
        /// The first needed byte.
        start: i64,
        /// The first byte after the needed ones.
        end: i64,
    },
}

impl<'a> From<&'a [u8]> for Window<'a> {
    fn from(bytes: &'a [u8]) -> Window<'a> {
        Window { start: 0, bytes }
    }
}

impl<'a> From<&'a mut [u8]> for WindowMut<'a> {
    fn from(bytes: &'a mut [u8]) -> WindowMut<'a> {
        WindowMut { start: 0, bytes }
    }
}

impl Plan {
    /// Reads bytes of the view from `offset` on, from the stored files. Padding reads as zeros.
    ///
    /// # Errors
    /// [`Missing`] if the request is not within the view, or if a window lacks a needed byte.
    pub fn read(&self, offset: u64, out: &mut [u8], files: &[Window]) -> Result<(), Missing> {
        let range = self.within(offset, out.len())?;
        if !self.dense {
            out.fill(0);
        }
        self.boxes(range, false, &mut |clipped| {
            let none = Window { start: 0, bytes: &[] };
            let window = files.get(clipped.file).unwrap_or(&none);
            let base = (offset as i64, window.start as i64);
            let moves = moves(&clipped, |field| ((field.a - base.0, field.b - base.1), |step| step));
            checked(&moves, &clipped, window.start as i64, out.len(), window.bytes.len(), |hull| (hull.to, hull.from))?;
            moves.run(out, window.bytes);
            Ok(())
        })
    }

    /// Writes bytes of the view from `offset` on, into the stored files. Bytes of padding are dropped.
    ///
    /// # Errors
    /// [`Missing`] if the request is not within the view, or if a window lacks a needed byte.
    pub fn write(&self, offset: u64, bytes: &[u8], files: &mut [WindowMut]) -> Result<(), Missing> {
        let range = self.within(offset, bytes.len())?;
        self.boxes(range, true, &mut |clipped| {
            let mut none = WindowMut { start: 0, bytes: &mut [] };
            let window = files.get_mut(clipped.file).unwrap_or(&mut none);
            let base = (offset as i64, window.start as i64);
            let moves = moves(&clipped, |field| ((field.b - base.1, field.a - base.0), |step| (step.1, step.0)));
            checked(&moves, &clipped, window.start as i64, bytes.len(), window.bytes.len(), |hull| {
                (hull.from, hull.to)
            })?;
            moves.run(window.bytes, bytes);
            Ok(())
        })
    }

    pub(super) fn within(&self, offset: u64, length: usize) -> Result<Range<u64>, Missing> {
        let end = offset.saturating_add(length as u64);
        if end > self.length {
            return Err(Missing::Beyond { start: offset, end, length: self.length });
        }
        Ok(offset..end)
    }

    /// Calls `each` with the moves of all groups for a range of the view.
    pub(super) fn group_boxes(&self, range: Range<u64>, each: &mut dyn FnMut(Clipped)) {
        for part in &self.parts {
            if let (Part::Group(group), false) = (part, range.is_empty()) {
                let never: Result<(), Infallible> = clip(group, range.start as i64, range.end as i64, &mut |clipped| {
                    each(clipped);
                    Ok(())
                });
                let Ok(()) = never;
            }
        }
    }

    /// Calls `each` with all moves for a range of the view. With `all`, every stored copy of an element is included.
    pub(crate) fn boxes<E>(
        &self,
        range: Range<u64>,
        all: bool,
        each: &mut dyn FnMut(Clipped) -> Result<(), E>,
    ) -> Result<(), E> {
        let (start, end) = (range.start as i64, range.end as i64);
        if start == end {
            return Ok(());
        }
        let mut cut = |group: &Group| clip(group, start, end, &mut |clipped| each(clipped));
        self.parts.iter().try_for_each(|part| match part {
            Part::Group(group) => cut(group),
            Part::Pair(pair) => pair.each(range.start, range.end, all, &mut |group| cut(&group)),
        })
    }
}

/// Returns the moves of a box from a request, which begins at the view's `offset`, to the stored files.
pub(super) fn into_files(clipped: &Clipped, offset: u64) -> Moves {
    moves(clipped, |field| ((field.b, field.a - offset as i64), |step| (step.1, step.0)))
}

/// Returns the moves of a box from the stored files to a request.
pub(super) fn out_of_files(clipped: &Clipped, offset: u64) -> Moves {
    moves(clipped, |field| ((field.a - offset as i64, field.b), |step| step))
}

/// Converts a step from (view, file) to (destination, source).
type End = fn((i64, i64)) -> (i64, i64);

fn moves(clipped: &Clipped, ends: impl Fn(&Field) -> ((i64, i64), End)) -> Moves {
    let mut list = Vec::with_capacity(clipped.fields.len());
    for field in &clipped.fields {
        let ((to, from), end) = ends(field);
        let whole =
            Move { to, from, size: field.size, unit: field.unit, steps: field.steps.iter().map(|s| end(*s)).collect() };
        match clipped.only {
            None => list.push(whole),
            Some((first, last)) => list.extend(part(&whole, first, last, end((1, 0)).0 == 1)),
        }
    }
    Moves { counts: clipped.counts.clone(), list }
}

/// Returns bytes `first..last` of the view's side of a move. If a cut divides a swapped unit, single bytes move.
fn part(whole: &Move, first: u64, last: u64, to_view: bool) -> Vec<Move> {
    let mut parts = Vec::new();
    let mut at = first;
    while at < last {
        let within = at % whole.unit;
        let piece = if whole.unit == 1 || (within == 0 && at + whole.unit <= last) {
            (last - at) / whole.unit * whole.unit
        } else {
            1
        };
        let stored = if piece == 1 && whole.unit > 1 { at - within + (whole.unit - 1 - within) } else { at };
        let (to, from) = if to_view { (at, stored) } else { (stored, at) };
        let unit = if piece == 1 { 1 } else { whole.unit };
        parts.push(Move {
            to: whole.to + to as i64,
            from: whole.from + from as i64,
            size: piece,
            unit,
            steps: whole.steps.clone(),
        });
        at += piece;
    }
    parts
}

/// Returns whether moves lie within the request and the window; `sides` selects the view's and the file's.
fn checked(
    moves: &Moves,
    clipped: &Clipped,
    start: i64,
    request: usize,
    window: usize,
    sides: impl Fn(Hull) -> ((i64, i64), (i64, i64)),
) -> Result<(), Missing> {
    let Some(hull) = moves.hull() else { return Ok(()) };
    let (view, file) = sides(hull);
    debug_assert!(view.0 >= 0 && view.1 <= request as i64, "a box leaves its request");
    if file.0 < 0 || file.1 > window as i64 {
        return Err(Missing::File { file: clipped.file, start: file.0 + start, end: file.1 + start });
    }
    Ok(())
}
