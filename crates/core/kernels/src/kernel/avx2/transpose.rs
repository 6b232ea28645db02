//! Execution of squares in AVX2.

#![allow(unsafe_code, reason = "vector loads and stores take pointers; callers have checked what they reach")]

use std::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm_storeu_si128, _mm256_broadcastsi128_si256, _mm256_castsi128_si256,
    _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_inserti128_si256, _mm256_loadu_si256, _mm256_shuffle_epi8,
    _mm256_storeu_si256, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
};

use super::square::Square;
use crate::kernel::Area;

/// Transposes the first `squares` squares of each row.
///
/// # Safety
/// The machine must have AVX2, and all bytes that are accessed for the area must lie within the buffers.
pub(in crate::kernel) unsafe fn run(square: &Square, area: Area, squares: u64, to: &mut [u8], from: &[u8]) {
    let start = square.start(area);
    for row in 0..area.rows as isize {
        let arrays = |i: usize| {
            let at = square.arrays.get(i).or(square.arrays.first()).copied().unwrap_or(0);
            (at + start.0) as isize + square.rows.0 as isize * row
        };
        let arrays = [arrays(0), arrays(1), arrays(2), arrays(3)];
        let record = (square.record + start.1) as isize + square.rows.1 as isize * row;
        let (stride, squares, count) = (square.stride as isize, squares as isize, square.arrays.len());
        // SAFETY: the caller promises that all accessed bytes are in the buffers; `count` arrays are accessed.
        unsafe {
            let mask = _mm_loadu_si128(square.mask.as_ptr().cast::<__m128i>());
            match (square.gather, square.size) {
                (true, 4) => {
                    gather::<4>(to.as_mut_ptr(), from.as_ptr().offset(record), arrays, stride, squares, count, mask)
                }
                (true, _) => {
                    gather::<2>(to.as_mut_ptr(), from.as_ptr().offset(record), arrays, stride, squares, count, mask)
                }
                (false, 4) => {
                    scatter::<4>(to.as_mut_ptr().offset(record), from.as_ptr(), arrays, stride, squares, mask)
                }
                (false, _) => {
                    scatter::<2>(to.as_mut_ptr().offset(record), from.as_ptr(), arrays, stride, squares, mask)
                }
            }
        }
    }
}

/// Transposes a square in each half of the registers. Its side is four elements of 4 bytes, or two of 8.
#[target_feature(enable = "avx2")]
#[inline]
fn transpose<const SIDE: usize>(v: [__m256i; 4]) -> [__m256i; 4] {
    if SIDE == 2 {
        return [_mm256_unpacklo_epi64(v[0], v[1]), _mm256_unpackhi_epi64(v[0], v[1]), v[2], v[3]];
    }
    let (a, b) = (_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[0], v[1]));
    let (c, d) = (_mm256_unpacklo_epi32(v[2], v[3]), _mm256_unpackhi_epi32(v[2], v[3]));
    [_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c), _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d)]
}

/// # Safety
/// As for [`run`]; `count` arrays are written.
#[target_feature(enable = "avx2")]
unsafe fn gather<const SIDE: usize>(
    to: *mut u8,
    from: *const u8,
    arrays: [isize; 4],
    stride: isize,
    squares: isize,
    count: usize,
    mask: __m128i,
) {
    let mask = _mm256_broadcastsi128_si256(mask);
    let side = SIDE as isize;
    for i in 0..squares {
        // SAFETY: the caller promises all of it.
        unsafe {
            let record = from.offset(i * 2 * side * stride);
            let mut v = [mask; 4];
            for k in 0..side {
                let low = _mm_loadu_si128(record.offset(k * stride).cast::<__m128i>());
                let high = _mm_loadu_si128(record.offset((k + side) * stride).cast::<__m128i>());
                let both = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
                v[k as usize] = _mm256_shuffle_epi8(both, mask);
            }
            let v = transpose::<SIDE>(v);
            for k in 0..SIDE {
                if k < count {
                    _mm256_storeu_si256(to.offset(arrays[k] + i * 32).cast::<__m256i>(), v[k]);
                }
            }
        }
    }
}

/// # Safety
/// As for [`run`]; all arrays up to `SIDE` are read.
#[target_feature(enable = "avx2")]
unsafe fn scatter<const SIDE: usize>(
    to: *mut u8,
    from: *const u8,
    arrays: [isize; 4],
    stride: isize,
    squares: isize,
    mask: __m128i,
) {
    let mask = _mm256_broadcastsi128_si256(mask);
    let side = SIDE as isize;
    for i in 0..squares {
        // SAFETY: the caller promises all of it.
        unsafe {
            let mut v = [mask; 4];
            for k in 0..SIDE {
                v[k] = _mm256_loadu_si256(from.offset(arrays[k] + i * 32).cast::<__m256i>());
            }
            let v = transpose::<SIDE>(v);
            let record = to.offset(i * 2 * side * stride);
            for k in 0..side {
                let both = _mm256_shuffle_epi8(v[k as usize], mask);
                _mm_storeu_si128(record.offset(k * stride).cast::<__m128i>(), _mm256_castsi256_si128(both));
                let high = _mm256_extracti128_si256::<1>(both);
                _mm_storeu_si128(record.offset((k + side) * stride).cast::<__m128i>(), high);
            }
        }
    }
}
