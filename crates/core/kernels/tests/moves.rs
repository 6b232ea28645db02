//! Moves, compared with moving byte by byte.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use smallvec::smallvec;
use terrace_kernels::{Level, Move, Moves};

/// Makes moves of records of fields to arrays of fields, or the other way round, with one field for each size, some
/// swapped.
fn moves(sizes: &[(u64, bool)], count: u64, rows: u64, gap: i64, backwards: bool, scatter: bool) -> Moves {
    let stride: i64 = sizes.iter().map(|(size, _)| *size as i64).sum::<i64>() + gap;
    let (mut list, mut record, mut array) = (Vec::new(), 0, 0);
    for &(size, swap) in sizes {
        let length = size as i64 * (count * rows) as i64;
        let step = if backwards { -stride } else { stride };
        let first = if backwards { record + stride * (count * rows - 1) as i64 } else { record };
        let steps = [(size as i64 * count as i64, step * count as i64), (size as i64, step)];
        let turn = |(a, b): (i64, i64)| if scatter { (b, a) } else { (a, b) };
        let (to, from) = turn((array, first));
        let unit = if swap && size % 2 == 0 { size.min(8) } else { 1 };
        let unit = if size % unit == 0 { unit } else { 2 };
        list.push(Move { to, from, size, unit, steps: steps.into_iter().map(turn).collect() });
        record += size as i64;
        array += length;
    }
    Moves { counts: vec![rows, count], list }
}

/// Executes moves byte by byte.
fn slowly(moves: &Moves, to: &mut [u8], from: &[u8]) {
    for row in 0..moves.counts[0] as i64 {
        for element in 0..moves.counts[1] as i64 {
            for one in &moves.list {
                let at = |base: i64, end: fn(&(i64, i64)) -> i64| {
                    base + end(&one.steps[0]) * row + end(&one.steps[1]) * element
                };
                let (at, source) = (at(one.to, |s| s.0), at(one.from, |s| s.1));
                for byte in 0..one.size {
                    let swapped = byte / one.unit * one.unit + one.unit - 1 - byte % one.unit;
                    to[(at + byte as i64) as usize] = from[(source + swapped as i64) as usize];
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 10 } else { 2000 }, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn moves_equal_moving_byte_by_byte(
        sizes in prop::collection::vec((prop::sample::select(vec![1u64, 2, 4, 4, 4, 8, 8, 12, 16, 24, 80]), any::<bool>()), 1..9),
        equal: bool, count in 1..300u64, rows in 1..4u64, gap in 0..9i64, backwards: bool, scatter: bool,
    ) {
        let sizes = if equal { vec![sizes[0]; sizes.len()] } else { sizes };
        let gap = gap.saturating_sub(4);
        let moves = moves(&sizes, count, rows, gap.max(0), backwards, scatter);
        same(&moves)?;
    }

    /// Registers hold whole records; each stage halves the number of fields in a register.
    #[test]
    fn records_of_many_fields_move_like_single_bytes(
        sizes in prop::collection::vec((prop::sample::select(vec![2u64, 4, 4, 4, 8, 8]), any::<bool>()), 2..9),
        equal: bool, count in 1..300u64, rows in 1..4u64, gap in 0..9i64, scatter: bool,
    ) {
        let sizes = if equal { vec![sizes[0]; sizes.len()] } else { sizes };
        same(&moves(&sizes, count, rows, gap.saturating_sub(4).max(0), false, scatter))?;
    }

    #[test]
    fn a_matrix_is_transposed_like_single_bytes(
        size in prop::sample::select(vec![2u64, 4, 4, 8, 8, 16]), rows in 1..150u64, columns in 1..150u64,
        gap in 0..40i64, swapped: bool, start in 0..64i64, backwards: bool,
    ) {
        let width = size as i64;
        let (to_row, from_row) = (width * columns as i64 + gap, width * rows as i64 + gap);
        let (from, step) = if backwards { (from_row * (columns as i64 - 1), -from_row) } else { (0, from_row) };
        let unit = if swapped { size.min(4) } else { 1 };
        let steps = smallvec![(to_row, width), (width, step)];
        let moves = Moves { counts: vec![rows, columns], list: vec![Move { to: start, from, size, unit, steps }] };
        same(&moves)?;
    }
}

/// The matrix is larger than the caches, so that it is written past them, in whole lines and in parts of lines.
#[test]
#[cfg_attr(miri, ignore = "it takes too long")]
fn a_large_matrix_is_transposed_like_single_bytes() {
    for (rows, columns, start) in [(1600, 1600, 0), (1601, 1600, 4), (1600, 1603, 8)] {
        let steps = smallvec![(4 * columns, 4), (4, 4 * rows)];
        let list = vec![Move { to: start, from: 0, size: 4, unit: 1, steps }];
        same(&Moves { counts: vec![rows as u64, columns as u64], list }).unwrap();
    }
}

/// The arrays are also written past the caches: into one array and into several, beginning at any byte of a line, in
/// one row and in several.
#[test]
#[cfg_attr(miri, ignore = "it takes too long")]
fn large_arrays_move_like_single_bytes() {
    let case = |sizes: &[(u64, bool)], rows: u64, start: i64, backwards: bool, scatter: bool| {
        let size: u64 = sizes.iter().map(|(size, _)| size).sum();
        let mut moves = moves(sizes, (9 << 20) / size / rows + 1, rows, 0, backwards, scatter);
        moves.list.iter_mut().for_each(|one| one.to += start);
        same(&moves).unwrap();
    };
    let four = (4, true);
    case(&[(4, false); 3], 1, 4, false, false);
    case(&[(4, false); 3], 1, 60, false, true);
    case(&[four, four, four, (8, false), (1, false)], 1, 1, true, false);
    case(&[four, (2, false), (8, true)], 3, 2, false, true);
    case(&[(8, true); 8], 2, 40, false, false);
    case(&[(8, false); 8], 1, 3, true, true);
    case(&[(4, false); 8], 1, 3, false, true);
    pages_apart(&[(4, false); 8]);
    pages_apart(&[four, four, (8, false), (8, true), (8, false)]);
}

/// Moves large arrays that begin whole pages apart to records that begin anywhere.
fn pages_apart(sizes: &[(u64, bool)]) {
    let size: u64 = sizes.iter().map(|(size, _)| size).sum();
    let mut moves = moves(sizes, (9 << 20) / size / 4096 * 4096 + 4096, 1, 0, false, true);
    moves.list.iter_mut().for_each(|one| one.to += 20);
    same(&moves).unwrap();
    moves.counts = vec![1, moves.counts[1] - 5];
    same(&moves).unwrap();
}

/// Compares the moves in registers of each level with moving byte by byte.
fn same(moves: &Moves) -> Result<(), TestCaseError> {
    let hull = moves.hull().unwrap();
    let from: Vec<u8> = (0..hull.from.1).map(|i| (i * 31 + i / 256) as u8).collect();
    let mut right = vec![0xee; hull.to.1 as usize];
    slowly(moves, &mut right, &from);
    for level in [Level::Scalar, Level::Avx2, Level::Avx512] {
        let mut ours = vec![0xee; right.len()];
        prop_assert!(!moves.clone().run_at(level, &mut ours, &from[1..]), "the source is too short");
        prop_assert!(moves.clone().run_at(level, &mut ours, &from));
        prop_assert!(ours == right, "{level:?}");
    }
    Ok(())
}

#[test]
fn moves_whose_offsets_overflow_are_refused() {
    // The last element is 2^64 bytes after the first.
    let one = Move { to: 0, from: 0, size: 4, unit: 1, steps: smallvec![(1 << 58, 4), (4, 4096)] };
    let moves = Moves { counts: vec![65, 64], list: vec![one] };
    let mut to = vec![0; 1 << 20];
    assert!(!moves.run(&mut to, &vec![1; 1 << 20]));
    assert!(to.iter().all(|byte| *byte == 0));
}

#[test]
fn moves_with_a_count_of_zero_do_nothing() {
    let one = Move { to: 0, from: 0, size: 4, unit: 1, steps: smallvec![(0, 4), (4, 4)] };
    let mut to = vec![0; 64];
    assert!(Moves { counts: vec![0, 8], list: vec![one] }.run(&mut to, &[1; 64]));
    assert!(to.iter().all(|byte| *byte == 0));
}
