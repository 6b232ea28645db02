//! Carrying moves out: which count is innermost, and in blocks of what size.

use crate::kernel::{Area, GRAIN, Kernel, copy, turn_over};
use crate::moves::{Move, Moves};

/// Bytes of a block: source and destination stay in the first-level cache while all fields of it are moved.
const BLOCK: u64 = 12 << 10;
/// Rows and elements of a tile, where one side runs across the other.
const TILE: u64 = 64;

impl Moves {
    /// Carries the moves out. False, and nothing is done, where they touch what is not within the buffers.
    pub fn run(self, to: &mut [u8], from: &[u8]) -> bool {
        let inside = |range: (i64, i64), length: usize| range.0 >= 0 && range.1 <= length as i64;
        match self.hull() {
            None => true,
            Some(hull) if inside(hull.to, to.len()) && inside(hull.from, from.len()) => {
                run(self, to, from);
                true
            }
            Some(_) => false,
        }
    }
}

fn run(mut moves: Moves, to: &mut [u8], from: &[u8]) {
    moves.keep_last();
    moves.order();
    moves.unroll();
    let Some(first) = moves.list.first() else { return };
    let Some(inner) = moves.counts.len().checked_sub(1) else {
        for one in &moves.list {
            straight(one, to, from);
        }
        return;
    };
    let apart = |i: usize| first.steps.get(i).map_or(0, |step| step.1.unsigned_abs());
    // Where the source runs across, the count along which it runs is the rows'.
    let across = (0..inner).min_by_key(|i| apart(*i)).filter(|i| apart(*i) < apart(inner) && apart(inner) > 64);
    let row = across.or(inner.checked_sub(1));
    let others: Vec<usize> = (0..inner).filter(|i| Some(*i) != row).collect();
    let pick = |one: &Move| {
        let step = |i: usize| one.steps.get(i).copied().unwrap_or((0, 0));
        Move { steps: vec![row.map_or((0, 0), step), step(inner)], ..one.clone() }
    };
    let count = |i: usize| moves.counts.get(i).copied().unwrap_or(1);
    let plane = Plane { rows: row.map_or(1, count), elements: count(inner), across: across.is_some() };
    // Where all moves go on equally, they need not be made ready again for each plane.
    let equal = |i: &usize| moves.list.iter().all(|one| one.steps.get(*i) == first.steps.get(*i));
    let shared = others.iter().all(equal);
    let list: Vec<Move> = moves.list.iter().map(pick).collect();
    let kernel = Kernel::new(&list);
    let counts: Vec<u64> = others.iter().map(|i| count(*i)).collect();
    odometer(&counts, &mut |values| {
        let shift = |one: &Move| {
            others.iter().zip(values).fold((0, 0), |sum: (i64, i64), (i, value)| {
                let step = one.steps.get(*i).copied().unwrap_or((0, 0));
                (sum.0 + step.0 * *value as i64, sum.1 + step.1 * *value as i64)
            })
        };
        if shared {
            return plane.run(&kernel, &list, shift(first), to, from);
        }
        let moved = moves.list.iter().map(|one| {
            let by = shift(one);
            Move { to: one.to + by.0, from: one.from + by.1, ..pick(one) }
        });
        let moved: Vec<Move> = moved.collect();
        plane.run(&Kernel::new(&moved), &moved, (0, 0), to, from);
    });
}

/// A single run of bytes. One that is swapped is as many elements as it has units.
fn straight(one: &Move, to: &mut [u8], from: &[u8]) {
    if one.unit < 2 || one.size < 256 {
        return copy(one.to, one.from, one.size, one.unit, to, from);
    }
    let step = (one.unit as i64, one.unit as i64);
    let list = [Move { size: one.unit, steps: vec![(0, 0), step], ..one.clone() }];
    let plane = Plane { rows: 1, elements: one.size / one.unit, across: false };
    plane.run(&Kernel::new(&list), &list, (0, 0), to, from);
}

/// Counts through all values.
fn odometer(counts: &[u64], each: &mut dyn FnMut(&[u64])) {
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

/// The innermost two counts.
struct Plane {
    rows: u64,
    elements: u64,
    across: bool,
}

impl Plane {
    fn run(&self, kernel: &Kernel, list: &[Move], base: (i64, i64), to: &mut [u8], from: &[u8]) {
        let area = Area { base, first_row: 0, rows: self.rows, first_element: 0, elements: self.elements };
        if !(self.across && turn_over(list, area, to, from)) {
            kernel.run(area, self.block(list), to, from);
        }
    }

    /// Rows and elements of a block.
    fn block(&self, list: &[Move]) -> (u64, u64) {
        if self.across {
            return (TILE, TILE);
        }
        let size: u64 = list.iter().map(|one| one.size).sum();
        let apart = list.iter().filter_map(|one| one.steps.last()).map(|step| step.1.unsigned_abs()).max().unwrap_or(1);
        let elements = (BLOCK / size.max(apart).max(1)).clamp(GRAIN, 4096) / GRAIN * GRAIN;
        ((elements / self.elements.max(1)).max(1), elements)
    }
}
