//! Programs in AVX2: two periods at once, one in each half of a register.

#![allow(unsafe_code, reason = "vector loads and stores take pointers; `run` has checked what they reach")]

use std::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm_storeu_si128, _mm256_broadcastsi128_si256, _mm256_castsi128_si256,
    _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_inserti128_si256, _mm256_or_si256, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_storeu_si256,
};

use super::Area;
use super::program::{MOST_WINDOWS, Program, WIDTH, Window};

/// Carries out whole pairs of periods whose windows and vectors lie within the buffers. Returns how many elements of each row
/// that were.
pub(super) fn run(program: &Program, area: Area, to: &mut [u8], from: &[u8]) -> u64 {
    if !std::arch::is_x86_feature_detected!("avx2") || area.rows == 0 {
        return 0;
    }
    // A window may reach beyond what it is needed for. Where that is beyond the buffer, the last few are left to others.
    let fits = |pairs: &u64| {
        let (least, most) = program.reach(area, pairs * 2);
        least >= 0 && most <= from.len() as i64
    };
    let most = area.elements / program.records / 2;
    let Some(pairs) = (most.saturating_sub(WIDTH as u64)..=most).rev().find(fits).filter(|pairs| *pairs > 0) else {
        return 0;
    };
    let period = (area.first_element / program.records) as i64;
    let first = area.base.0 + program.to + program.row * area.first_row as i64 + program.period as i64 * period;
    let last = first + program.row * (area.rows as i64 - 1) + (program.period * pairs * 2) as i64;
    if first < 0 || program.row < 0 || last > to.len() as i64 {
        return 0;
    }
    let shape = Shape {
        rows: area.rows as isize,
        pairs: pairs as isize,
        row: program.row as isize,
        period: program.period as isize,
    };
    for (i, vector) in program.vectors.iter().enumerate() {
        let mut starts = [0; MOST_WINDOWS];
        for (start, window) in starts.iter_mut().zip(vector) {
            *start = window.start(program, area) as isize;
        }
        // SAFETY: the machine has AVX2. All windows of all rows and periods lie within `from`, and all vectors within `to`, as
        // was checked above: both ends of each range were, and steps are linear.
        unsafe {
            let to = to.as_mut_ptr().offset(first as isize + (i * WIDTH) as isize);
            fill(vector, &starts, shape, to, from.as_ptr());
        }
    }
    pairs * 2 * program.records
}

#[derive(Clone, Copy)]
struct Shape {
    rows: isize,
    pairs: isize,
    row: isize,
    period: isize,
}

/// Fills one vector of each period.
///
/// # Safety
/// The machine must have AVX2; all that `shape` leads to from `to`, and each window from `from`, must be in their buffers.
#[target_feature(enable = "avx2")]
unsafe fn fill(windows: &[Window], starts: &[isize; MOST_WINDOWS], shape: Shape, to: *mut u8, from: *const u8) {
    macro_rules! with {
        ($($count:literal)*) => {
            match windows.len() {
                // SAFETY: what this function's caller promises.
                $($count => unsafe { fill_from::<$count>(windows, starts, shape, to, from) },)*
                _ => {}
            }
        };
    }
    const { assert!(MOST_WINDOWS == 16) };
    with!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
}

/// # Safety
/// As for [`fill`], with `COUNT` windows.
#[target_feature(enable = "avx2")]
unsafe fn fill_from<const COUNT: usize>(
    windows: &[Window],
    starts: &[isize; MOST_WINDOWS],
    shape: Shape,
    to: *mut u8,
    from: *const u8,
) {
    let mut masks = [_mm256_setzero_si256(); COUNT];
    let (mut steps, mut rows) = ([0isize; COUNT], [0isize; COUNT]);
    for (i, window) in windows.iter().enumerate().take(COUNT) {
        // SAFETY: a mask has 16 bytes.
        masks[i] = unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(window.mask.as_ptr().cast::<__m128i>())) };
        (steps[i], rows[i]) = (window.step as isize, window.row as isize);
    }
    let uniform = steps.iter().all(|step| *step == steps[0]);
    for row in 0..shape.rows {
        // SAFETY: the caller promises that all places reached are in the buffers.
        unsafe {
            let to = to.offset(shape.row * row);
            let begins: [*const u8; COUNT] = std::array::from_fn(|i| from.offset(starts[i] + rows[i] * row));
            let begin = begins[0];
            let offsets: [isize; COUNT] =
                std::array::from_fn(|i| starts[i] + rows[i] * row - starts[0] - rows[0] * row);
            for pair in 0..shape.pairs {
                let mut sum = _mm256_setzero_si256();
                let base = begin.offset(steps[0] * 2 * pair);
                for i in 0..COUNT {
                    let at = if uniform { base.offset(offsets[i]) } else { begins[i].offset(steps[i] * 2 * pair) };
                    let step = if uniform { steps[0] } else { steps[i] };
                    sum = _mm256_or_si256(sum, _mm256_shuffle_epi8(load(at, at.offset(step)), masks[i]));
                }
                let at = to.offset(shape.period * 2 * pair);
                if shape.period == WIDTH as isize {
                    _mm256_storeu_si256(at.cast::<__m256i>(), sum);
                } else {
                    _mm_storeu_si128(at.cast::<__m128i>(), _mm256_castsi256_si128(sum));
                    _mm_storeu_si128(at.offset(shape.period).cast::<__m128i>(), _mm256_extracti128_si256::<1>(sum));
                }
            }
        }
    }
}

/// Sixteen bytes from each of two places.
///
/// # Safety
/// Both must be readable.
#[target_feature(enable = "avx2")]
unsafe fn load(low: *const u8, high: *const u8) -> __m256i {
    // SAFETY: the caller promises it.
    unsafe {
        let low = _mm_loadu_si128(low.cast::<__m128i>());
        let high = _mm_loadu_si128(high.cast::<__m128i>());
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
    }
}
