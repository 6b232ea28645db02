//! Requests over scattered parts of stored files: only the touched parts must be in memory.

use std::ops::Range;

use super::plan::Plan;
use super::request::{Missing, into_files, out_of_files};
use super::touches::Touched;
use terrace_kernels::{Move, Moves};

/// Parts of stored files, as [`Plan::touches`] returns them, placed side by side in memory.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    parts: Vec<Part>,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Part {
    touched: Touched,
    /// The start of its bytes in memory.
    at: usize,
}

impl Part {
    fn memory(&self) -> Range<usize> {
        self.at..self.at + (self.touched.bytes.end - self.touched.bytes.start) as usize
    }
}

impl Gathered {
    /// Allocates zeroed memory for parts, which are in order by file and offset.
    pub fn new(touched: Vec<Touched>) -> Gathered {
        Gathered::within(touched, Vec::new())
    }

    /// Reuses memory for parts. Its old content is not cleared.
    pub fn within(touched: Vec<Touched>, mut bytes: Vec<u8>) -> Gathered {
        let mut at = 0;
        let place = |touched: Touched| {
            let part = Part { touched, at };
            at = part.memory().end;
            part
        };
        let parts = touched.into_iter().map(place).collect();
        bytes.resize(at, 0);
        Gathered { parts, bytes }
    }

    /// Returns the memory for reuse.
    pub fn into_memory(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the parts with their bytes.
    pub fn parts(&self) -> impl Iterator<Item = (&Touched, &[u8])> {
        self.parts.iter().map(|part| (&part.touched, self.bytes.get(part.memory()).unwrap_or_default()))
    }

    /// Calls `each` with every part and its bytes, to fill them. Stops at the first error.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn fill<E>(&mut self, mut each: impl FnMut(&Touched, &mut [u8]) -> Result<(), E>) -> Result<(), E> {
        let Gathered { parts, bytes } = self;
        parts.iter().try_for_each(|part| each(&part.touched, bytes.get_mut(part.memory()).unwrap_or_default()))
    }

    /// Returns the difference between offsets in a file and in memory, for bytes within one part.
    fn shift(&self, file: usize, bytes: (i64, i64)) -> Option<i64> {
        let key = |part: &Part| (part.touched.file, part.touched.bytes.start as i64);
        let after = self.parts.partition_point(|part| key(part) <= (file, bytes.0));
        let part = self.parts.get(after.checked_sub(1)?)?;
        let within = part.touched.file == file && bytes.1 <= part.touched.bytes.end as i64;
        within.then_some(part.at as i64 - part.touched.bytes.start as i64)
    }
}

impl Plan {
    /// Reads bytes of the view from `offset` on, from parts of the stored files. Padding reads as zeros.
    ///
    /// # Errors
    /// Fails if the request is not within the view, or if the parts lack a byte that it needs.
    pub fn read_gathered(&self, offset: u64, out: &mut [u8], from: &Gathered) -> Result<(), Missing> {
        if !self.dense {
            out.fill(0);
        }
        self.renew_gathered(offset, out, from)
    }

    /// Does the same as [`Plan::read_gathered`], but leaves padding, and bytes that no stored file has, unchanged.
    ///
    /// # Errors
    /// Fails like [`Plan::read_gathered`].
    pub fn renew_gathered(&self, offset: u64, out: &mut [u8], from: &Gathered) -> Result<(), Missing> {
        let range = self.within(offset, out.len())?;
        self.boxes(range, false, &mut |clipped| {
            let moves = out_of_files(&clipped, offset);
            let side = Side { file: clipped.file, gathered: from, to: false };
            side.each(squeezed(moves), &mut |moves| moves.run(out, &from.bytes))
        })
    }

    /// Writes bytes of the view from `offset` on, into parts of the stored files. Bytes of padding are dropped.
    ///
    /// # Errors
    /// Fails if the request is not within the view, or if the parts lack a byte that it needs.
    pub fn write_gathered(&self, offset: u64, bytes: &[u8], into: &mut Gathered) -> Result<(), Missing> {
        let range = self.within(offset, bytes.len())?;
        let mut memory = std::mem::take(&mut into.bytes);
        let done = self.boxes(range, true, &mut |clipped| {
            let moves = into_files(&clipped, offset);
            let side = Side { file: clipped.file, gathered: into, to: true };
            side.each(squeezed(moves), &mut |moves| moves.run(&mut memory, bytes))
        });
        into.bytes = memory;
        done
    }
}

/// The side of a move that is in the stored file.
struct Side<'a> {
    file: usize,
    gathered: &'a Gathered,
    to: bool,
}

impl Side<'_> {
    /// Runs moves in memory, divided so that each lies in one part.
    fn each(&self, mut moves: Moves, run: &mut dyn FnMut(Moves) -> bool) -> Result<(), Missing> {
        let hulls: Vec<(i64, i64)> = moves.list.iter().map(|one| self.hull(one, &moves.counts)).collect();
        let shifts: Option<Vec<i64>> = hulls.iter().map(|hull| self.gathered.shift(self.file, *hull)).collect();
        if let Some(shifts) = shifts {
            for (one, shift) in moves.list.iter_mut().zip(shifts) {
                *(if self.to { &mut one.to } else { &mut one.from }) += shift;
            }
            let missing = || {
                let (start, end) = hulls.first().copied().unwrap_or_default();
                Missing::File { file: self.file, start, end }
            };
            return if run(moves) { Ok(()) } else { Err(missing()) };
        }
        let Some(apart) = (0..moves.counts.len()).max_by_key(|i| self.apart(&moves, *i)) else {
            return self.single(moves, &hulls, run);
        };
        let Some(count) = moves.counts.get_mut(apart) else { return Ok(()) };
        let half = *count / 2;
        let mut second = Moves { counts: Vec::new(), list: moves.list.clone() };
        let rest = *count - half;
        *count = half;
        second.counts = moves.counts.clone();
        if let Some(count) = second.counts.get_mut(apart) {
            *count = rest;
        }
        for one in &mut second.list {
            let step = one.steps.get(apart).copied().unwrap_or_default();
            one.to += step.0 * half as i64;
            one.from += step.1 * half as i64;
        }
        for part in [moves, second] {
            self.each(squeezed(part), run)?;
        }
        Ok(())
    }

    /// Runs each move that is not repeated.
    fn single(&self, moves: Moves, hulls: &[(i64, i64)], run: &mut dyn FnMut(Moves) -> bool) -> Result<(), Missing> {
        if let [(start, end)] = *hulls {
            return Err(Missing::File { file: self.file, start, end });
        }
        moves.list.into_iter().try_for_each(|one| self.each(Moves { counts: Vec::new(), list: vec![one] }, run))
    }

    /// Returns the distance of a count's repetitions in the stored file.
    fn apart(&self, moves: &Moves, count: usize) -> u64 {
        let step =
            |one: &Move| one.steps.get(count).map_or(0, |step| (if self.to { step.0 } else { step.1 }).unsigned_abs());
        moves.list.iter().map(step).max().unwrap_or(0)
    }

    /// Returns the bytes of the stored file that a move touches.
    fn hull(&self, one: &Move, counts: &[u64]) -> (i64, i64) {
        let start = if self.to { one.to } else { one.from };
        let mut hull = (start, start + one.size as i64);
        for (step, count) in one.steps.iter().zip(counts) {
            let by = (if self.to { step.0 } else { step.1 }) * (*count as i64 - 1);
            if by < 0 { hull.0 += by } else { hull.1 += by }
        }
        hull
    }
}

/// Removes counts of one.
fn squeezed(mut moves: Moves) -> Moves {
    for i in (0..moves.counts.len()).rev() {
        if moves.counts.get(i) == Some(&1) {
            moves.counts.remove(i);
            for one in &mut moves.list {
                one.steps.remove(i);
            }
        }
    }
    moves
}
