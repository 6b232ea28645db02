//! Transposition of squares in registers.

#![allow(unsafe_code, reason = "vector loads and stores take pointers; callers have checked what they reach")]

use std::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm512_broadcast_i32x4, _mm512_loadu_si512,
    _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_shuffle_i32x4, _mm512_storeu_si512, _mm512_stream_si512,
    _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

use crate::kernel::transposition::{CACHE_LINE_BYTES, Transposition, mask};

/// The source is prefetched this far ahead if the caches do not hold it.
const PREFETCH_DISTANCE_BYTES: usize = 2 * CACHE_LINE_BYTES;

/// Transposes a square.
///
/// # Safety
/// The machine must have AVX-512. A line at each step must be readable and writable, and aligned if it is streamed.
#[target_feature(enable = "avx512f,avx512bw")]
pub(in crate::kernel) unsafe fn transpose(transposition: &Transposition, to: *mut u8, from: *const u8) {
    // SAFETY: the caller promises all of it.
    unsafe {
        if transposition.size == 4 {
            let lines = sixteen(read::<16>(transposition, from));
            put(transposition, to, lines);
        } else {
            let lines = eight(read::<8>(transposition, from));
            put(transposition, to, lines);
        }
    }
}

/// # Safety
/// The machine must have AVX-512, and this number of lines must be readable.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn read<const SIDE: usize>(transposition: &Transposition, from: *const u8) -> [__m512i; SIDE] {
    let mut lines = [_mm512_setzero_si512(); SIDE];
    for (number, line) in lines.iter_mut().enumerate() {
        let from = from.wrapping_offset(transposition.steps.1 * number as isize);
        // SAFETY: the caller promises it; a prefetch may name any address.
        unsafe {
            if transposition.stream {
                _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(PREFETCH_DISTANCE_BYTES).cast::<i8>());
            }
            *line = _mm512_loadu_si512(from.cast::<__m512i>());
        }
    }
    if transposition.unit > 1 {
        // SAFETY: a mask has 16 bytes.
        let mask = _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(mask(transposition.unit).as_ptr().cast()) });
        lines = lines.map(|line| _mm512_shuffle_epi8(line, mask));
    }
    lines
}

/// # Safety
/// The machine must have AVX-512, and this number of lines must be writable, and aligned if they are streamed.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn put<const SIDE: usize>(transposition: &Transposition, to: *mut u8, lines: [__m512i; SIDE]) {
    for (number, line) in lines.into_iter().enumerate() {
        let to = to.wrapping_offset(transposition.steps.0 * number as isize).cast::<__m512i>();
        // SAFETY: the caller promises it.
        unsafe { if transposition.stream { _mm512_stream_si512(to, line) } else { _mm512_storeu_si512(to, line) } }
    }
}

/// Transposes sixteen by sixteen elements of 4 bytes.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn sixteen(v: [__m512i; 16]) -> [__m512i; 16] {
    let mut transposed = v;
    for four in 0..4 {
        let [a, b, c, d] = [v[4 * four], v[4 * four + 1], v[4 * four + 2], v[4 * four + 3]];
        let (low, high) = (
            (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d)),
            (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d)),
        );
        transposed[4 * four] = _mm512_unpacklo_epi64(low.0, low.1);
        transposed[4 * four + 1] = _mm512_unpackhi_epi64(low.0, low.1);
        transposed[4 * four + 2] = _mm512_unpacklo_epi64(high.0, high.1);
        transposed[4 * four + 3] = _mm512_unpackhi_epi64(high.0, high.1);
    }
    let mut lines = v;
    for i in 0..4 {
        let quarters = quarters([transposed[i], transposed[4 + i], transposed[8 + i], transposed[12 + i]]);
        for (quarter, line) in quarters.into_iter().enumerate() {
            lines[4 * quarter + i] = line;
        }
    }
    lines
}

/// Transposes eight by eight elements of 8 bytes.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn eight(v: [__m512i; 8]) -> [__m512i; 8] {
    let mut lines = v;
    let pair = |i: usize, high: bool| match high {
        false => _mm512_unpacklo_epi64(v[2 * i], v[2 * i + 1]),
        true => _mm512_unpackhi_epi64(v[2 * i], v[2 * i + 1]),
    };
    for (i, high) in [false, true].into_iter().enumerate() {
        let quarters = quarters([pair(0, high), pair(1, high), pair(2, high), pair(3, high)]);
        for (quarter, line) in quarters.into_iter().enumerate() {
            lines[2 * quarter + i] = line;
        }
    }
    lines
}

/// Transposes four by four quarters of registers.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn quarters([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let low = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0x44>(c, d));
    let high = (_mm512_shuffle_i32x4::<0xee>(a, b), _mm512_shuffle_i32x4::<0xee>(c, d));
    [
        _mm512_shuffle_i32x4::<0x88>(low.0, low.1),
        _mm512_shuffle_i32x4::<0xdd>(low.0, low.1),
        _mm512_shuffle_i32x4::<0x88>(high.0, high.1),
        _mm512_shuffle_i32x4::<0xdd>(high.0, high.1),
    ]
}
