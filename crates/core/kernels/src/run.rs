//! Execution of moves: the choice of the innermost count and of the block size.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use smallvec::smallvec;

use crate::kernel::{Area, Kernel, Level, MAX_VECTOR_RECORDS, MIN_STREAMED_BYTES, Stage, copy, transpose_across};
use crate::moves::{Move, Moves};

/// The size of a block: source and destination stay in the first-level cache while all of its fields are moved.
const BLOCK_BYTES: u64 = 12 << 10;
/// The size of a block for wide registers, and for streamed destinations, which need only the second-level cache.
const WIDE_BLOCK: u64 = 64 << 10;
/// The number of prepared kernels that each thread caches.
const MOST_KNOWN: usize = 16;
/// The rows and elements of a tile if one side runs across the other.
const TILE_SIDE: u64 = 64;

impl Moves {
    /// Executes the moves. Returns false, and does nothing, if they touch bytes outside the buffers.
    pub fn run(self, to: &mut [u8], from: &[u8]) -> bool {
        self.run_at(Level::of_machine(), to, from)
    }

    /// Like [`Moves::run`], with registers of a level, or of the machine's level if that is lower.
    pub fn run_at(self, level: Level, to: &mut [u8], from: &[u8]) -> bool {
        let inside = |range: (i64, i64), length: usize| range.0 >= 0 && range.1 <= length as i64;
        match self.hull() {
            None => true,
            Some(hull) if inside(hull.to, to.len()) && inside(hull.from, from.len()) => {
                run(self, level.min(Level::of_machine()), to, from);
                true
            }
            Some(_) => false,
        }
    }
}

fn run(mut moves: Moves, level: Level, to: &mut [u8], from: &[u8]) {
    moves.keep_last();
    moves.order();
    moves.unroll();
    let Some(first) = moves.list.first() else { return };
    let Some(inner) = moves.counts.len().checked_sub(1) else {
        for one in &moves.list {
            straight(one, level, to, from);
        }
        return;
    };
    let apart = |i: usize| first.steps.get(i).map_or(0, |step| step.1.unsigned_abs());
    // If the source runs across, the count along the source becomes the count of rows.
    let across = (0..inner).min_by_key(|i| apart(*i)).filter(|i| apart(*i) < apart(inner) && apart(inner) > 64);
    let row = across.or(inner.checked_sub(1));
    let others: Vec<usize> = (0..inner).filter(|i| Some(*i) != row).collect();
    let pick = |one: &Move| {
        let step = |i: usize| one.steps.get(i).copied().unwrap_or((0, 0));
        Move { steps: smallvec![row.map_or((0, 0), step), step(inner)], ..one.clone() }
    };
    let count = |i: usize| moves.counts.get(i).copied().unwrap_or(1);
    let plane = Plane { rows: row.map_or(1, count), elements: count(inner), across: across.is_some(), level };
    // If all moves advance equally, they need not be prepared again for each plane.
    let equal = |i: &usize| moves.list.iter().all(|one| one.steps.get(*i) == first.steps.get(*i));
    let shared = others.iter().all(equal);
    let list: Vec<Move> = moves.list.iter().map(pick).collect();
    let ready = plane.ready(&list);
    let counts: Vec<u64> = others.iter().map(|i| count(*i)).collect();
    for_each_combination(&counts, &mut |values| {
        let shift = |one: &Move| {
            others.iter().zip(values).fold((0, 0), |sum: (i64, i64), (i, value)| {
                let step = one.steps.get(*i).copied().unwrap_or((0, 0));
                (sum.0 + step.0 * *value as i64, sum.1 + step.1 * *value as i64)
            })
        };
        if shared {
            return plane.run(&ready, shift(first), to, from);
        }
        let moved = moves.list.iter().map(|one| {
            let by = shift(one);
            Move { to: one.to + by.0, from: one.from + by.1, ..pick(one) }
        });
        let moved: Vec<Move> = moved.collect();
        plane.run(&plane.ready(&moved), (0, 0), to, from);
    });
}

/// Copies a single run of bytes. A swapped run has as many elements as units.
fn straight(one: &Move, level: Level, to: &mut [u8], from: &[u8]) {
    if one.unit < 2 || one.size < 256 {
        return copy(one.to, one.from, one.size, one.unit, to, from);
    }
    let step = (one.unit as i64, one.unit as i64);
    let list = [Move { size: one.unit, steps: smallvec![(0, 0), step], ..one.clone() }];
    let plane = Plane { rows: 1, elements: one.size / one.unit, across: false, level };
    plane.run(&plane.ready(&list), (0, 0), to, from);
}

/// Calls `each` with all combinations of counters below `counts`.
fn for_each_combination(counts: &[u64], each: &mut dyn FnMut(&[u64])) {
    if counts.contains(&0) {
        return;
    }
    let mut values = vec![0; counts.len()];
    loop {
        each(&values);
        let mut place = counts.len();
        loop {
            let Some(next) = place.checked_sub(1) else { return };
            place = next;
            if let (Some(value), Some(count)) = (values.get_mut(place), counts.get(place)) {
                *value += 1;
                if *value < *count {
                    break;
                }
                *value = 0;
            }
        }
    }
}

thread_local! {
    /// Requests through a view resemble each other; each one may be moves into several replicas. The newest entry is
    /// the last.
    static RECENT_KERNELS: RefCell<VecDeque<Rc<Made>>> = const { RefCell::new(VecDeque::new()) };
}

/// Prepared moves, with offsets relative to the first one.
struct Made {
    list: Vec<Move>,
    level: Level,
    stream: bool,
    kernel: Kernel,
}

/// Prepared moves, and the offset of the first one.
struct Ready {
    made: Rc<Made>,
    base: (i64, i64),
}

/// The innermost two counts.
struct Plane {
    rows: u64,
    elements: u64,
    across: bool,
    level: Level,
}

impl Plane {
    /// Prepares moves, or returns cached ones. The list must not be empty.
    fn ready(&self, list: &[Move]) -> Ready {
        let base = list.first().map_or((0, 0), |first| (first.to, first.from));
        let relative = |one: &Move| Move { to: one.to - base.0, from: one.from - base.1, ..one.clone() };
        let list: Vec<Move> = list.iter().map(relative).collect();
        let stream = self.streams(&list);
        RECENT_KERNELS.with_borrow_mut(|known| {
            let same = |made: &Rc<Made>| made.stream == stream && made.level == self.level && made.list == list;
            if let Some(made) = known.iter().rfind(|made| same(made)) {
                return Ready { made: Rc::clone(made), base };
            }
            let kernel = Kernel::new(&list, self.level, stream);
            let made = Rc::new(Made { list, level: self.level, stream, kernel });
            if known.len() == MOST_KNOWN {
                known.pop_front();
            }
            known.push_back(Rc::clone(&made));
            Ready { made, base }
        })
    }

    /// Returns whether the destination is larger than the caches.
    fn streams(&self, list: &[Move]) -> bool {
        list.iter().map(|one| one.size).sum::<u64>() * self.rows * self.elements > MIN_STREAMED_BYTES
    }

    fn run(&self, ready: &Ready, shift: (i64, i64), to: &mut [u8], from: &[u8]) {
        let Made { list, kernel, stream, .. } = ready.made.as_ref();
        let base = (ready.base.0 + shift.0, ready.base.1 + shift.1);
        let area = Area { base, first_row: 0, rows: self.rows, first_element: 0, elements: self.elements };
        if self.across && transpose_across(list, area, self.level, to, from) {
            return;
        }
        match (!self.across && *stream).then(|| Stage::new(list, self.level)).flatten() {
            Some(mut stage) => stage.run(area, to, from),
            None => kernel.run(area, self.block(kernel, list), to, from),
        }
    }

    /// Returns the rows and elements of a block.
    fn block(&self, kernel: &Kernel, list: &[Move]) -> (u64, u64) {
        if self.across {
            return (TILE_SIDE, TILE_SIDE);
        }
        if kernel.reads_once() {
            return (self.rows, self.elements);
        }
        let size: u64 = list.iter().map(|one| one.size).sum();
        let apart = list.iter().filter_map(|one| one.steps.last()).map(|step| step.1.unsigned_abs()).max().unwrap_or(1);
        let bytes = if kernel.is_wide() || self.streams(list) { WIDE_BLOCK } else { BLOCK_BYTES };
        let elements = (bytes / size.max(apart).max(1)).clamp(MAX_VECTOR_RECORDS, 1 << 16) / MAX_VECTOR_RECORDS
            * MAX_VECTOR_RECORDS;
        ((elements / self.elements.max(1)).max(1), elements)
    }
}
