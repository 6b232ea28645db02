//! Transposition of squares by a buffer that stays in the first-level cache.

#![allow(unsafe_code, reason = "vector loads and stores take pointers; callers have checked what they reach")]

use std::arch::x86_64::{
    __m128i, __m256i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm256_broadcastsi128_si256, _mm256_load_si256,
    _mm256_loadu_si256, _mm256_permute2x128_si256, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_store_si256,
    _mm256_storeu_si256, _mm256_stream_si256, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32,
    _mm256_unpacklo_epi64,
};
use std::mem::MaybeUninit;

use crate::kernel::transposition::{CACHE_LINE_BYTES, Transposition, mask};

/// The size of a register.
const REGISTER_BYTES: usize = 32;
/// The source is prefetched this far ahead.
const PREFETCH_DISTANCE_BYTES: usize = 2 * CACHE_LINE_BYTES;

/// The buffer for a square.
#[repr(align(64))]
struct Square(MaybeUninit<[u8; CACHE_LINE_BYTES * (CACHE_LINE_BYTES / 4)]>);

/// Transposes a square.
///
/// # Safety
/// The machine must have AVX2. A line at each step must be readable and writable, and aligned if it is streamed.
#[target_feature(enable = "avx2")]
pub(in crate::kernel) unsafe fn transpose(transposition: &Transposition, to: *mut u8, from: *const u8) {
    let mut square = Square(MaybeUninit::uninit());
    let square = square.0.as_mut_ptr().cast::<u8>();
    // SAFETY: the caller promises all of it.
    unsafe {
        match transposition.size {
            4 => read::<4>(square, from, transposition.steps.1, mask(transposition.unit)),
            _ => read::<8>(square, from, transposition.steps.1, mask(transposition.unit)),
        }
        put(square, CACHE_LINE_BYTES / transposition.size, to, transposition.steps.0, transposition.stream);
    }
}

/// Reads lines of the source and stores them transposed.
///
/// # Safety
/// The machine must have AVX2. For each element of a side, a line at its step from `from` must be readable.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn read<const SIZE: usize>(square: *mut u8, from: *const u8, step: isize, mask: [u8; 16]) {
    let lanes = REGISTER_BYTES / SIZE;
    // SAFETY: a mask has 16 bytes; the caller promises the source; the square has a line for each row.
    unsafe {
        let mask = _mm256_broadcastsi128_si256(_mm_loadu_si128(mask.as_ptr().cast::<__m128i>()));
        for element in [0, lanes] {
            for row in [0, lanes] {
                let mut lines = [_mm256_setzero_si256(); 8];
                for (lane, line) in lines.iter_mut().enumerate().take(lanes) {
                    let from = from.offset(step * (element + lane) as isize);
                    if row == 0 {
                        _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(PREFETCH_DISTANCE_BYTES).cast::<i8>());
                    }
                    let from = from.add(row * SIZE);
                    *line = _mm256_shuffle_epi8(_mm256_loadu_si256(from.cast::<__m256i>()), mask);
                }
                let lines = if SIZE == 4 { eight(lines) } else { four(lines) };
                for (lane, line) in lines.iter().enumerate().take(lanes) {
                    let to = square.add((row + lane) * CACHE_LINE_BYTES + element * SIZE);
                    _mm256_store_si256(to.cast::<__m256i>(), *line);
                }
            }
        }
    }
}

/// Writes each row of the square as a line.
///
/// # Safety
/// The machine must have AVX2. A line at each step from `to` must be writable, and aligned if it is streamed.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn put(square: *const u8, side: usize, to: *mut u8, step: isize, stream: bool) {
    for row in 0..side {
        // SAFETY: the caller promises it.
        unsafe {
            let from = square.add(row * CACHE_LINE_BYTES).cast::<__m256i>();
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

/// Transposes eight by eight elements of 4 bytes.
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

/// Transposes four by four elements of 8 bytes; the rest of the lines stays.
#[target_feature(enable = "avx2")]
#[inline]
fn four(v: [__m256i; 8]) -> [__m256i; 8] {
    let (a, b) = (_mm256_unpacklo_epi64(v[0], v[1]), _mm256_unpackhi_epi64(v[0], v[1]));
    let (c, d) = (_mm256_unpacklo_epi64(v[2], v[3]), _mm256_unpackhi_epi64(v[2], v[3]));
    let low = _mm256_permute2x128_si256::<0x20>;
    let high = _mm256_permute2x128_si256::<0x31>;
    [low(a, c), low(b, d), high(a, c), high(b, d), v[4], v[5], v[6], v[7]]
}
