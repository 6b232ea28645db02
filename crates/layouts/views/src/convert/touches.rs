//! Computes the bytes of stored files that a request touches: those that a read must fetch, and those that a write
//! replaces.

use std::ops::Range;

use super::clip::Clipped;
use super::plan::Plan;
use super::request::{Missing, into_files};
use terrace_kernels::{Move, Moves};

/// Bytes of a stored file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The index of the file.
    pub file: usize,
    /// The bytes.
    pub bytes: Range<u64>,
    /// Whether the request certainly touches every byte of the range. A write then does not need the old bytes.
    pub whole: bool,
}

/// The maximum number of ranges of a request. Beyond it, ranges are joined at any distance.
const MAX_RANGES: u64 = 65_536;

impl Plan {
    /// Returns the bytes of stored files that a request touches, in order by file and offset. Ranges less than `gap`
    /// bytes apart are merged. For a write plan, these are the bytes that the write changes.
    ///
    /// # Errors
    /// [`Missing`] if the request is not within the view.
    pub fn touches(&self, offset: u64, length: u64, gap: u64) -> Result<Vec<Touched>, Missing> {
        let range = self.within(offset, usize::try_from(length).unwrap_or(usize::MAX))?;
        let mut found: Vec<(usize, i64, i64, bool)> = Vec::new();
        let gap = gap.min(i64::MAX as u64) as i64;
        self.boxes(range, true, &mut |clipped: Clipped| {
            let mut moves: Moves = into_files(&clipped, 0);
            interleaved(&mut moves);
            for one in &moves.list {
                let room = MAX_RANGES.saturating_sub(found.len() as u64);
                spread(one, &moves.counts, gap, room, &mut |start, end, whole| {
                    found.push((clipped.file, start, end, whole))
                });
            }
            Ok::<(), Missing>(())
        })?;
        found.sort_unstable();
        let mut touched: Vec<Touched> = Vec::new();
        for (file, start, end, whole) in found {
            let (start, end) = (start.max(0) as u64, end.max(0) as u64);
            match touched.last_mut() {
                Some(last) if last.file == file && start <= last.bytes.end.saturating_add(gap as u64) => {
                    last.whole &= whole && start <= last.bytes.end;
                    last.bytes.end = last.bytes.end.max(end);
                }
                _ => touched.push(Touched { file, bytes: start..end, whole }),
            }
        }
        Ok(touched)
    }
}

/// Merges adjacent moves with equal steps that fill the shortest step, as the fields of a struct do.
fn interleaved(moves: &mut Moves) {
    let Some(first) = moves.list.first() else { return };
    let steps = |one: &Move| one.steps.iter().map(|step| step.0).collect::<Vec<_>>();
    let own = steps(first);
    let shortest = own.iter().map(|step| step.unsigned_abs()).filter(|step| *step > 0).min();
    if moves.list.len() < 2 || moves.list.iter().any(|one| steps(one) != own) {
        return;
    }
    let mut runs: Vec<(i64, u64)> = moves.list.iter().map(|one| (one.to, one.size)).collect();
    runs.sort_unstable();
    let joined = runs.windows(2).all(|pair| matches!(pair, [a, b] if a.0 + a.1 as i64 == b.0));
    let size = runs.iter().map(|run| run.1).sum();
    if joined && Some(size) == shortest {
        let one = Move { to: runs.first().map_or(0, |run| run.0), size, ..first.clone() };
        moves.list = vec![one];
    }
}

/// Calls `each` with the ranges of a move's destination, and whether every byte of the range is touched. Counts with
/// short steps give one range; other counts are enumerated as long as there are at most `most` ranges.
fn spread(one: &Move, counts: &[u64], gap: i64, most: u64, each: &mut dyn FnMut(i64, i64, bool)) {
    let mut steps: Vec<(i64, i64)> = Vec::new();
    let mut start = one.to;
    for (count, step) in counts.iter().zip(&one.steps) {
        let last = *count as i64 - 1;
        start += (step.0 * last).min(0);
        steps.push((step.0.abs(), last));
    }
    steps.sort_unstable();
    let (mut span, mut most, mut whole) = (one.size as i64, most, true);
    let mut apart = Vec::new();
    for (step, last) in steps {
        let times = last as u64 + 1;
        if step <= span.saturating_add(gap) || times > most {
            whole &= step <= span || last == 0;
            span += step * last;
        } else {
            most /= times;
            apart.push((step, last));
        }
    }
    let mut starts = vec![start];
    for (step, last) in apart {
        starts = starts.iter().flat_map(|start| (0..=last).map(move |i| start + step * i)).collect();
    }
    starts.into_iter().for_each(|start| each(start, start + span, whole));
}
