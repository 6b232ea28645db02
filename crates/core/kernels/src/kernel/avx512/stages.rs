//! Execution of networks in AVX-512.

#![allow(unsafe_code, reason = "vector loads and stores take pointers; callers have checked what they reach")]

use std::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm_prefetch, _mm512_load_si512, _mm512_loadu_si512, _mm512_mask_storeu_epi8,
    _mm512_permutex2var_epi8, _mm512_setzero_si512, _mm512_storeu_si512,
};

use super::group::Pick;
use super::network::{MAX_HELD_REGISTERS, Network};
use super::place::{Place, VECTOR_BYTES};
use crate::kernel::Area;

/// Expands to a block for each register, by its index. The compiler would keep the registers in memory if this were a
/// loop of eight.
macro_rules! each {
    ($count:ident, $number:ident, $block:block) => {
        each!($count, $number, $block, 0 1 2 3 4 5 6 7)
    };
    ($count:ident, $number:ident, $block:block, $($i:literal)*) => {
        $({
            const $number: usize = $i;
            if $number < $count $block
        })*
    };
}

/// Arrays are prefetched this far ahead: the hardware does not predict reads of this many arrays.
const PREFETCH_DISTANCE_BYTES: usize = 512;

/// Executes a network for an area of whole periods.
///
/// # Safety
/// The machine must have AVX-512 with VBMI, and all places of the network must lie within the buffers.
pub(in crate::kernel) unsafe fn run(network: &Network, area: Area, to: &mut [u8], from: &[u8]) {
    let (to, from) = (to.as_mut_ptr(), from.as_ptr());
    for row in area.first_row as i64..(area.first_row + area.rows) as i64 {
        let start = |base: i64, place: &Place| {
            (base + place.at + place.row * row + place.step * area.first_element as i64) as isize
        };
        let (wholes, singles) = if network.gather { (area.base.1, area.base.0) } else { (area.base.0, area.base.1) };
        let none = network.singles.first().copied().flatten().unwrap_or(network.whole);
        let ends = Ends {
            whole: start(wholes, &network.whole),
            apart: network.apart as isize,
            step: network.whole.step as isize * network.records as isize,
            singles: std::array::from_fn(|i| {
                let single = network.singles.get(i).copied().flatten().unwrap_or(none);
                (start(singles, &single), single.step as isize * network.records as isize)
            }),
            periods: (area.elements / network.records) as isize,
            valid: network.valid,
        };
        let equal = ends.singles.iter().all(|(_, step)| *step == ends.singles[0].1);
        // SAFETY: the caller promises all of it.
        unsafe {
            match (network.singles.len(), network.gather, equal) {
                (2, true, true) => gather::<2, 1, true>(&network.picks, &ends, to, from),
                (4, true, true) => gather::<4, 2, true>(&network.picks, &ends, to, from),
                (8, true, true) => gather::<8, 3, true>(&network.picks, &ends, to, from),
                (2, true, false) => gather::<2, 1, false>(&network.picks, &ends, to, from),
                (4, true, false) => gather::<4, 2, false>(&network.picks, &ends, to, from),
                (8, true, false) => gather::<8, 3, false>(&network.picks, &ends, to, from),
                (2, false, true) => scatter::<2, 1, true>(&network.picks, &ends, to, from),
                (4, false, true) => scatter::<4, 2, true>(&network.picks, &ends, to, from),
                (8, false, true) => scatter::<8, 3, true>(&network.picks, &ends, to, from),
                (2, false, false) => scatter::<2, 1, false>(&network.picks, &ends, to, from),
                (4, false, false) => scatter::<4, 2, false>(&network.picks, &ends, to, from),
                (8, false, false) => scatter::<8, 3, false>(&network.picks, &ends, to, from),
                _ => {}
            }
        }
    }
}

/// The addresses that registers are loaded from and stored to in a row.
struct Ends {
    /// The first register with whole records.
    whole: isize,
    /// The distance from one such register to the next.
    apart: isize,
    /// The distance from one such register to that of the next period, which is `Network::records` records later.
    step: isize,
    /// The registers with a single field, and for each the distance to that of the next period.
    singles: [(isize, isize); MAX_HELD_REGISTERS],
    /// The number of periods.
    periods: isize,
    /// The number of bytes of a register that hold records.
    valid: usize,
}

/// Turns records into arrays. `EQUAL` says that all arrays advance equally.
///
/// # Safety
/// As for [`run`]. `N` and `STAGES` must be the network's numbers of registers and stages.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
#[inline(never)]
unsafe fn gather<const N: usize, const STAGES: usize, const EQUAL: bool>(
    picks: &[Pick],
    ends: &Ends,
    to: *mut u8,
    from: *const u8,
) {
    let Some(picks) = picks.as_chunks::<N>().0.first_chunk::<STAGES>() else { return };
    let mut to: [*mut u8; N] = std::array::from_fn(|i| to.wrapping_offset(ends.singles[i].0));
    let mut from = from.wrapping_offset(ends.whole);
    let (apart, step, equal) = (ends.apart, ends.step, ends.singles[0].1);
    for period in 0..ends.periods {
        let mut v = [_mm512_setzero_si512(); N];
        each!(N, I, {
            // SAFETY: the caller promises that all of them lie within the source.
            v[I] = unsafe { _mm512_loadu_si512(from.wrapping_offset(apart * I as isize).cast::<__m512i>()) };
        });
        v = picked::<N, 1>(v, &picks[0]);
        if STAGES > 1 {
            v = picked::<N, 2>(v, &picks[1]);
        }
        if STAGES > 2 {
            v = picked::<N, 4>(v, &picks[2]);
        }
        // Unneeded registers have the first one's address. They are stored before it, so it overwrites them.
        each!(N, I, {
            let i = N - 1 - I;
            let here = if EQUAL { to[i].wrapping_offset(period * equal) } else { to[i] };
            // SAFETY: the caller promises that all of them lie within the destination.
            unsafe { _mm512_storeu_si512(here.cast::<__m512i>(), v[i]) };
            if !EQUAL {
                to[i] = to[i].wrapping_offset(ends.singles[i].1);
            }
        });
        from = from.wrapping_offset(step);
    }
}

/// Turns arrays into records. `EQUAL` says that all arrays advance equally.
///
/// # Safety
/// As for [`run`]. `N` and `STAGES` must be the network's numbers of registers and stages.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
#[inline(never)]
unsafe fn scatter<const N: usize, const STAGES: usize, const EQUAL: bool>(
    picks: &[Pick],
    ends: &Ends,
    to: *mut u8,
    from: *const u8,
) {
    let Some(picks) = picks.as_chunks::<N>().0.first_chunk::<STAGES>() else { return };
    let mut from: [*const u8; N] = std::array::from_fn(|i| from.wrapping_offset(ends.singles[i].0));
    let mut to = to.wrapping_offset(ends.whole);
    let (apart, step, equal) = (ends.apart, ends.step, ends.singles[0].1);
    let mask = u64::MAX >> (VECTOR_BYTES - ends.valid);
    for period in 0..ends.periods {
        let mut v = [_mm512_setzero_si512(); N];
        each!(N, I, {
            let i = I;
            let here = if EQUAL { from[i].wrapping_offset(period * equal) } else { from[i] };
            // SAFETY: the caller promises that all of them lie within the source; a prefetch may name any address.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(here.wrapping_add(PREFETCH_DISTANCE_BYTES).cast::<i8>());
                v[i] = _mm512_loadu_si512(here.cast::<__m512i>());
            }
            if !EQUAL {
                from[i] = from[i].wrapping_offset(ends.singles[i].1);
            }
        });
        if STAGES > 2 {
            v = picked::<N, 4>(v, &picks[STAGES - 3]);
        }
        if STAGES > 1 {
            v = picked::<N, 2>(v, &picks[STAGES - 2]);
        }
        v = picked::<N, 1>(v, &picks[STAGES - 1]);
        // A store writes 64 bytes. Only the first `valid` ones count; the next store overwrites the rest.
        each!(N, I, {
            if I + 1 < N {
                // SAFETY: the caller promises that all of them lie within the destination.
                unsafe { _mm512_storeu_si512(to.wrapping_offset(apart * I as isize).cast::<__m512i>(), v[I]) };
            }
        });
        let last = to.wrapping_offset(apart * (N - 1) as isize);
        // SAFETY: the caller promises it, and the mask excludes bytes beyond the last record.
        unsafe { _mm512_mask_storeu_epi8(last.cast::<i8>(), mask, v[N - 1]) };
        to = to.wrapping_offset(step);
    }
}

/// Executes one stage: each register selects bytes from the pair that it forms with the register `APART` further on or
/// back.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
#[inline]
fn picked<const N: usize, const APART: usize>(mut v: [__m512i; N], picks: &[Pick; N]) -> [__m512i; N] {
    each!(N, I, {
        if (I / APART).is_multiple_of(2) && I + APART < N {
            let (low, high) = (v[I], v[I + APART]);
            // SAFETY: a pick has 64 bytes, and is aligned.
            let load = |pick: &Pick| unsafe { _mm512_load_si512((&raw const pick.0).cast::<__m512i>()) };
            v[I] = _mm512_permutex2var_epi8(low, load(&picks[I]), high);
            v[I + APART] = _mm512_permutex2var_epi8(low, load(&picks[I + APART]), high);
        }
    });
    v
}
