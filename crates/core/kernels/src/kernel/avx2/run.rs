//! Execution of programs in AVX2: two periods at a time, one in each half of a register.

#![allow(unsafe_code, reason = "vector loads and stores take pointers; callers have checked what they reach")]

use std::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm_storeu_si128, _mm256_broadcastsi128_si256, _mm256_castsi128_si256,
    _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_inserti128_si256, _mm256_or_si256, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_storeu_si256,
};

use super::program::{MOST_WINDOWS, Program, VECTOR_BYTES, Window};
use crate::kernel::Area;

/// Executes the first `pairs` pairs of periods of each row.
///
/// # Safety
/// The machine must have AVX2, and all windows and vectors of the area must lie within the buffers.
pub(in crate::kernel) unsafe fn run(program: &Program, area: Area, pairs: u64, to: &mut [u8], from: &[u8]) {
    let place = Place {
        rows: area.rows as isize,
        pairs: pairs as isize,
        row: program.row as isize,
        period: program.period as isize,
        to: to.as_mut_ptr(),
        from: from.as_ptr(),
    };
    let first = program.start(area) as isize;
    for (i, vector) in program.vectors.iter().enumerate() {
        let mut starts = [0; MOST_WINDOWS];
        for (start, window) in starts.iter_mut().zip(vector) {
            *start = window.start(program, area) as isize;
        }
        // SAFETY: the caller promises all of it.
        unsafe {
            let to = place.to.offset(first + (i * VECTOR_BYTES) as isize);
            fill(vector, &starts, Place { to, ..place });
        }
    }
}

#[derive(Clone, Copy)]
struct Place {
    rows: isize,
    pairs: isize,
    row: isize,
    period: isize,
    to: *mut u8,
    from: *const u8,
}

/// Fills one vector of each period.
///
/// # Safety
/// As for [`run`].
unsafe fn fill(windows: &[Window], starts: &[isize; MOST_WINDOWS], place: Place) {
    let equal = windows.iter().all(|window| windows.first().is_some_and(|first| first.step == window.step));
    macro_rules! with {
        ($($count:literal)*) => {
            match (windows.len(), equal) {
                // SAFETY: the caller promises all of it.
                $(($count, true) => unsafe { fill_from::<$count, true>(windows, starts, place) },)*
                // SAFETY: the caller promises all of it.
                $(($count, false) => unsafe { fill_from::<$count, false>(windows, starts, place) },)*
                _ => {}
            }
        };
    }
    const { assert!(MOST_WINDOWS == 16) };
    with!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
}

/// Fills one vector of each period. `EQUAL` says that all windows advance equally from period to period.
///
/// # Safety
/// As for [`run`], with `COUNT` windows.
#[target_feature(enable = "avx2")]
unsafe fn fill_from<const COUNT: usize, const EQUAL: bool>(
    windows: &[Window],
    starts: &[isize; MOST_WINDOWS],
    place: Place,
) {
    let mut masks = [_mm256_setzero_si256(); COUNT];
    let (mut steps, mut rows) = ([0isize; COUNT], [0isize; COUNT]);
    for (i, window) in windows.iter().enumerate().take(COUNT) {
        // SAFETY: a mask has 16 bytes.
        masks[i] = unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(window.mask.as_ptr().cast::<__m128i>())) };
        (steps[i], rows[i]) = (window.step as isize, window.row as isize);
    }
    for row in 0..place.rows {
        let mut at: [isize; COUNT] = std::array::from_fn(|i| starts[i] + rows[i] * row);
        // With equal steps, one pointer advances, and the others are at fixed distances from it.
        let apart: [isize; COUNT] = std::array::from_fn(|i| at[i] - at[0]);
        // SAFETY: the caller promises that all accessed bytes are in the buffers.
        unsafe {
            let mut to = place.to.offset(place.row * row);
            for _ in 0..place.pairs {
                let mut sum = _mm256_setzero_si256();
                let low = place.from.offset(at[0]);
                let high = low.offset(steps[0]);
                for i in 0..COUNT {
                    let both = if EQUAL {
                        load(low.offset(apart[i]), high.offset(apart[i]))
                    } else {
                        load(place.from.offset(at[i]), place.from.offset(at[i] + steps[i]))
                    };
                    sum = _mm256_or_si256(sum, _mm256_shuffle_epi8(both, masks[i]));
                }
                if place.period == VECTOR_BYTES as isize {
                    _mm256_storeu_si256(to.cast::<__m256i>(), sum);
                } else {
                    _mm_storeu_si128(to.cast::<__m128i>(), _mm256_castsi256_si128(sum));
                    let next = to.offset(place.period);
                    _mm_storeu_si128(next.cast::<__m128i>(), _mm256_extracti128_si256::<1>(sum));
                }
                to = to.wrapping_offset(place.period * 2);
                for i in 0..if EQUAL { 1 } else { COUNT } {
                    at[i] += steps[i] * 2;
                }
            }
        }
    }
}

/// Loads sixteen bytes from each of two addresses.
///
/// # Safety
/// Both must be readable.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn load(low: *const u8, high: *const u8) -> __m256i {
    // SAFETY: the caller promises it.
    unsafe {
        let low = _mm_loadu_si128(low.cast::<__m128i>());
        let high = _mm_loadu_si128(high.cast::<__m128i>());
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
    }
}
