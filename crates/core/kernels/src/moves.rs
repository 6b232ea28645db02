//! Moves: descriptions of bytes that are copied from one buffer to another.

use smallvec::SmallVec;

/// For each count, the distance from one run to the next: in the destination, in the source. A few counts need no allocation.
pub type Steps = SmallVec<[(i64, i64); 3]>;

/// A run of bytes that is copied repeatedly, as in nested loops, one for each of [`Moves::counts`]. Offsets are relative to the
/// two buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The offset of the first run in the destination.
    pub to: i64,
    /// The offset of the first run in the source.
    pub from: i64,
    /// The length of a run.
    pub size: u64,
    /// The number of bytes in a unit whose bytes are swapped; 1 swaps nothing.
    pub unit: u64,
    /// The distances between runs, for each of the counts.
    pub steps: Steps,
}

/// Moves that are repeated equally often. The outermost count comes first.
#[derive(Clone, Debug, Default)]
pub struct Moves {
    /// The repetitions.
    pub counts: Vec<u64>,
    /// The moves, each with a step for each count.
    pub list: Vec<Move>,
}

/// The ranges of bytes that a move touches in both buffers. The end is exclusive.
pub struct Hull {
    /// In the destination.
    pub to: (i64, i64),
    /// In the source.
    pub from: (i64, i64),
}

impl Moves {
    /// Returns the bytes that the moves touch; `None` if nothing moves.
    pub fn hull(&self) -> Option<Hull> {
        if self.counts.contains(&0) {
            return None;
        }
        let reach = |at: i64, size: u64, steps: &mut dyn Iterator<Item = (i64, u64)>| {
            let start = i128::from(at);
            let (mut first, mut end) = (start, start + i128::from(size));
            for (step, count) in steps {
                let by = i128::from(step) * (i128::from(count) - 1);
                if by < 0 { first = first.saturating_add(by) } else { end = end.saturating_add(by) }
            }
            let near = |place: i128| place.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
            (near(first), near(end))
        };
        let one = |m: &Move| {
            let steps = || m.steps.iter().zip(self.counts.iter().copied());
            Hull {
                to: reach(m.to, m.size, &mut steps().map(|(step, count)| (step.0, count))),
                from: reach(m.from, m.size, &mut steps().map(|(step, count)| (step.1, count))),
            }
        };
        let join = |a: (i64, i64), b: (i64, i64)| (a.0.min(b.0), a.1.max(b.1));
        self.list.iter().map(one).reduce(|a, b| Hull { to: join(a.to, b.to), from: join(a.from, b.from) })
    }

    /// Drops repeated writes to the same bytes except for the last one.
    pub(crate) fn keep_last(&mut self) {
        for i in (0..self.counts.len()).rev() {
            let stays = self.list.iter().all(|m| m.steps.get(i).is_some_and(|step| step.0 == 0));
            if !stays {
                continue;
            }
            let last = self.counts.remove(i) as i64 - 1;
            for m in &mut self.list {
                m.from += m.steps.remove(i).1 * last;
            }
        }
    }

    /// Sorts counts so that the last one has the smallest distance in the destination, and makes each distance there
    /// positive.
    pub(crate) fn order(&mut self) {
        for m in &mut self.list {
            for (step, count) in m.steps.iter_mut().zip(&self.counts) {
                if step.0 < 0 {
                    let last = *count as i64 - 1;
                    m.to += step.0 * last;
                    m.from += step.1 * last;
                    *step = (-step.0, -step.1);
                }
            }
        }
        let Some(first) = self.list.first() else { return };
        let mut order: Vec<usize> = (0..self.counts.len()).collect();
        order.sort_by_key(|i| first.steps.get(*i).map_or(0, |step| -step.0));
        self.counts = order.iter().filter_map(|i| self.counts.get(*i).copied()).collect();
        for m in &mut self.list {
            m.steps = order.iter().filter_map(|i| m.steps.get(*i).copied()).collect();
        }
    }

    /// Turns small counts into moves of their own, so that nearby bytes are moved together.
    pub(crate) fn unroll(&mut self) {
        const MAX_UNROLLED_MOVES: u64 = 64;
        loop {
            let longest = self.counts.iter().copied().max().unwrap_or(0);
            let longest = self.counts.iter().rposition(|count| *count == longest);
            let room = MAX_UNROLLED_MOVES / (self.list.len() as u64).max(1);
            let small =
                |i: &usize| Some(*i) != longest && self.counts.get(*i).is_some_and(|count| *count <= room.min(16));
            let large = self.list.iter().any(|m| m.size > 64);
            let Some(i) = (0..self.counts.len()).rev().find(small).filter(|_| !large) else { return };
            let count = self.counts.remove(i) as i64;
            let list = std::mem::take(&mut self.list);
            for mut m in list {
                let step = m.steps.remove(i);
                self.list.extend((0..count).map(|k| Move {
                    to: m.to + step.0 * k,
                    from: m.from + step.1 * k,
                    ..m.clone()
                }));
            }
        }
    }
}
