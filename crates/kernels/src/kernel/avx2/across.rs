//! Matrices turned over: the source runs across the destination.
//!
//! Squares with the side of a cache line are turned over in registers, by way of a square of memory that stays in the
//! first-level cache: each line is read once, and written whole. Where the destination is larger than the caches, it is
//! written past them.

#![allow(unsafe_code, reason = "vector loads and stores take pointers; what they reach lies within the buffers")]

use std::arch::x86_64::{
    __m128i, __m256i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_sfence, _mm256_broadcastsi128_si256,
    _mm256_load_si256, _mm256_loadu_si256, _mm256_permute2x128_si256, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_store_si256, _mm256_storeu_si256, _mm256_stream_si256, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64,
    _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
};

use crate::kernel::{Area, STREAM, scalar};
use crate::moves::Move;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Bytes of a register.
const REGISTER: usize = 32;
/// So far ahead the source is fetched.
const AHEAD: usize = 2 * LINE;
/// Rows and elements of a tile: no more pages than the table of those used last holds.
const TILE: u64 = 512;

/// A move of 4 or 8 bytes whose rows lie side by side in the source, its elements in the destination.
#[derive(Debug)]
pub(in crate::kernel) struct Across<'a>(&'a Move);

/// A square in memory.
#[repr(align(64))]
struct Square([u8; LINE * (LINE / 4)]);

impl Across<'_> {
    /// None where the moves are others.
    pub fn new(list: &[Move]) -> Option<Across<'_>> {
        let [one] = list else { return None };
        let size = one.size as i64;
        let turned = one.steps.first()?.1 == size && one.steps.last()?.0 == size;
        (matches!(size, 4 | 8) && turned).then_some(Across(one))
    }

    /// Carries the move out over an area, all of which lies within the buffers.
    pub fn run(&self, area: Area, to: &mut [u8], from: &[u8]) {
        // SAFETY: `new` has found AVX2; the squares are parts of the area.
        match self.0.size {
            4 => unsafe { run::<4>(self.0, area, to, from) },
            _ => unsafe { run::<8>(self.0, area, to, from) },
        }
    }
}

/// # Safety
/// The machine must have AVX2, and the area lie within the buffers.
#[target_feature(enable = "avx2")]
unsafe fn run<const SIZE: usize>(one: &Move, area: Area, to: &mut [u8], from: &[u8]) {
    let side = (LINE / SIZE) as u64;
    let (row, element) = (one.steps[0], one.steps[1]);
    let first = one.to + area.base.0;
    // Elements before the first that begins a line, in every row alike.
    let before = (to.as_ptr().wrapping_offset(first as isize) as usize).wrapping_neg() % LINE / SIZE;
    let stream = area.rows * area.elements * SIZE as u64 > STREAM && row.0 % LINE as i64 == 0;
    let before = if stream { (before as u64).min(area.elements) } else { 0 };
    let stream = stream && (first + before as i64 * element.0 + to.as_ptr() as i64) % LINE as i64 == 0;
    let (rows, elements) = (area.rows / side * side, (area.elements - before) / side * side);
    let after = before + elements;
    let mask = mask::<SIZE>(one.unit);
    let mut square = Square([0; LINE * (LINE / 4)]);
    for (tile_row, tile_rows) in tiles(0, rows) {
        for (tile_element, tile_elements) in tiles(before, elements) {
            for e in (tile_element..tile_element + tile_elements).step_by(side as usize) {
                for r in (tile_row..tile_row + tile_rows).step_by(side as usize) {
                    let at = |to: i64, row: i64, element: i64| (to + row * r as i64 + element * e as i64) as isize;
                    // SAFETY: the square is a part of the area, and lines are aligned where they are streamed.
                    unsafe {
                        let from = from.as_ptr().offset(at(one.from + area.base.1, row.1, element.1));
                        turn::<SIZE>(&mut square, from, element.1 as isize, mask);
                        let to = to.as_mut_ptr().offset(at(first, row.0, element.0));
                        put(&square, side as usize, to, row.0 as isize, stream);
                    }
                }
            }
        }
    }
    // What fills no square.
    let rest = |first_row, rows, first_element, elements| Area { first_row, rows, first_element, elements, ..area };
    let rests = [
        rest(0, area.rows, 0, before),
        rest(rows, area.rows - rows, before, elements),
        rest(0, area.rows, after, area.elements - after),
    ];
    rests.into_iter().for_each(|rest| scalar::run(one, rest, to, from));
    if stream {
        _mm_sfence();
    }
}

/// Where tiles begin, and how many they are long.
fn tiles(first: u64, count: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..count).step_by(TILE as usize).map(move |at| (first + at, TILE.min(count - at)))
}

/// For each byte, where it comes from in its 16: elements are swapped in units of so many bytes.
fn mask<const SIZE: usize>(unit: u64) -> [u8; 16] {
    let unit = unit as usize;
    std::array::from_fn(|byte| (byte / unit * unit + (unit - 1 - byte % unit)) as u8)
}

/// Reads lines of the source, and puts them down turned over.
///
/// # Safety
/// The machine must have AVX2, and a line at each step from `from` be readable for each element of a side.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn turn<const SIZE: usize>(square: &mut Square, from: *const u8, step: isize, mask: [u8; 16]) {
    let lanes = REGISTER / SIZE;
    let to = square.0.as_mut_ptr();
    // SAFETY: a mask has 16 bytes; the caller promises the source; the square has a line for each row.
    unsafe {
        let mask = _mm256_broadcastsi128_si256(_mm_loadu_si128(mask.as_ptr().cast::<__m128i>()));
        for element in [0, lanes] {
            for row in [0, lanes] {
                let mut lines = [_mm256_setzero_si256(); 8];
                for (lane, line) in lines.iter_mut().enumerate().take(lanes) {
                    let from = from.offset(step * (element + lane) as isize);
                    if row == 0 {
                        _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(AHEAD).cast::<i8>());
                    }
                    let from = from.add(row * SIZE);
                    *line = _mm256_shuffle_epi8(_mm256_loadu_si256(from.cast::<__m256i>()), mask);
                }
                let lines = if SIZE == 4 { eight(lines) } else { four(lines) };
                for (lane, line) in lines.iter().enumerate().take(lanes) {
                    let to = to.add((row + lane) * LINE + element * SIZE);
                    _mm256_store_si256(to.cast::<__m256i>(), *line);
                }
            }
        }
    }
}

/// Writes the rows of a square, each a line.
///
/// # Safety
/// The machine must have AVX2, a line at each step from `to` be writable, and aligned where it is streamed.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn put(square: &Square, side: usize, to: *mut u8, step: isize, stream: bool) {
    for row in 0..side {
        // SAFETY: the caller promises it.
        unsafe {
            let from = square.0.as_ptr().add(row * LINE).cast::<__m256i>();
            let to = to.offset(step * row as isize).cast::<__m256i>();
            let (low, high) = (_mm256_load_si256(from), _mm256_load_si256(from.add(1)));
            if stream {
                _mm256_stream_si256(to, low);
                _mm256_stream_si256(to.add(1), high);
            } else {
                _mm256_storeu_si256(to, low);
                _mm256_storeu_si256(to.add(1), high);
            }
        }
    }
}

/// Turns over eight by eight elements of 4 bytes.
#[target_feature(enable = "avx2")]
#[inline]
fn eight(v: [__m256i; 8]) -> [__m256i; 8] {
    let pair = |a, b| (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let pairs = [pair(v[0], v[1]), pair(v[2], v[3]), pair(v[4], v[5]), pair(v[6], v[7])];
    let four = |a: (__m256i, __m256i), b: (__m256i, __m256i)| {
        [
            _mm256_unpacklo_epi64(a.0, b.0),
            _mm256_unpackhi_epi64(a.0, b.0),
            _mm256_unpacklo_epi64(a.1, b.1),
            _mm256_unpackhi_epi64(a.1, b.1),
        ]
    };
    let (upper, lower) = (four(pairs[0], pairs[1]), four(pairs[2], pairs[3]));
    std::array::from_fn(|i| match i {
        0..4 => _mm256_permute2x128_si256::<0x20>(upper[i], lower[i]),
        _ => _mm256_permute2x128_si256::<0x31>(upper[i - 4], lower[i - 4]),
    })
}

/// Turns over four by four elements of 8 bytes; the rest of the lines stays.
#[target_feature(enable = "avx2")]
#[inline]
fn four(v: [__m256i; 8]) -> [__m256i; 8] {
    let (a, b) = (_mm256_unpacklo_epi64(v[0], v[1]), _mm256_unpackhi_epi64(v[0], v[1]));
    let (c, d) = (_mm256_unpacklo_epi64(v[2], v[3]), _mm256_unpackhi_epi64(v[2], v[3]));
    let low = _mm256_permute2x128_si256::<0x20>;
    let high = _mm256_permute2x128_si256::<0x31>;
    [low(a, c), low(b, d), high(a, c), high(b, d), v[4], v[5], v[6], v[7]]
}
