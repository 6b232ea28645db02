//! Execution of programs in AVX-512: each byte of a register is selected from two other registers.

#![allow(unsafe_code, reason = "vector loads and stores take pointers; callers have checked what they reach")]

use std::arch::x86_64::{
    __m512i, _mm512_load_si512, _mm512_loadu_si512, _mm512_permutex2var_epi8, _mm512_permutexvar_epi8,
    _mm512_setzero_si512, _mm512_storeu_si512, _mm512_stream_si512,
};

use super::group::{Group, Pick};
use super::place::Place;
use super::program::Program;
use crate::kernel::Area;

/// Executes a program for an area of whole periods.
///
/// # Safety
/// The machine must have AVX-512 with VBMI. All inputs and outputs must lie within the buffers, and outputs must be
/// aligned if they are streamed.
pub(in crate::kernel) unsafe fn run(program: &Program, area: Area, stream: bool, to: &mut [u8], from: &[u8]) {
    let work = Work { area, records: program.records as isize, stream, to: to.as_mut_ptr(), from: from.as_ptr() };
    for group in &program.groups {
        let equal = group.inputs.iter().all(|input| group.inputs.first().is_some_and(|first| first.step == input.step));
        macro_rules! with {
            ($($packs:literal $size:literal,)*) => {
                match (group.shape.packs, group.shape.size, equal) {
                    // SAFETY: the caller promises all of it.
                    $(($packs, $size, true) => unsafe { sized::<$packs, $size, true>(group, work) },)*
                    // SAFETY: the caller promises all of it.
                    $(($packs, $size, false) => unsafe { sized::<$packs, $size, false>(group, work) },)*
                    _ => {}
                }
            };
        }
        with!(1 1, 2 1, 3 1, 4 1, 5 1, 3 2, 4 2, 4 3, 4 4,);
    }
}

#[derive(Clone, Copy)]
struct Work {
    area: Area,
    records: isize,
    stream: bool,
    to: *mut u8,
    from: *const u8,
}

/// # Safety
/// As for [`run`], with `PACKS` packs of this number of inputs.
unsafe fn sized<const PACKS: usize, const SIZE: usize, const EQUAL: bool>(group: &Group, work: Work) {
    // SAFETY: the caller promises all of it.
    unsafe {
        match group.outputs.len() {
            1 => fill::<PACKS, SIZE, 1, EQUAL>(group, work),
            2 => fill::<PACKS, SIZE, 2, EQUAL>(group, work),
            3 => fill::<PACKS, SIZE, 3, EQUAL>(group, work),
            4 => fill::<PACKS, SIZE, 4, EQUAL>(group, work),
            _ => fill::<PACKS, SIZE, 5, EQUAL>(group, work),
        }
    }
}

/// Fills the vectors of each period. `EQUAL` says that all inputs advance equally from period to period.
///
/// # Safety
/// As for [`run`], with these numbers of inputs and outputs.
#[target_feature(enable = "avx512f,avx512vbmi")]
unsafe fn fill<const PACKS: usize, const SIZE: usize, const WRITTEN: usize, const EQUAL: bool>(
    group: &Group,
    work: Work,
) {
    let (Some(inputs), Some(outputs)) =
        (group.inputs.as_chunks::<SIZE>().0.first_chunk::<PACKS>(), group.outputs.first_chunk::<WRITTEN>())
    else {
        return;
    };
    let packing: [[__m512i; SIZE]; PACKS] = loaded(&group.packing);
    let picks: [[__m512i; PACKS]; WRITTEN] = loaded(&group.picks);
    let steps = inputs.map(|pack| pack.map(|input| input.step as isize * work.records));
    let step = outputs[0].step as isize * work.records;
    let periods = work.area.elements as isize / work.records;
    let (area, element) = (work.area, work.area.first_element as isize);
    for row in area.first_row as isize..(area.first_row + area.rows) as isize {
        let at = |place: &Place| place.at as isize + place.row as isize * row + place.step as isize * element;
        let from = inputs.map(|pack| pack.map(|i| work.from.wrapping_offset(area.base.1 as isize + at(&i))));
        let to = outputs.map(|output| work.to.wrapping_offset(area.base.0 as isize + at(&output)));
        for period in 0..periods {
            let mut packs = [_mm512_setzero_si512(); PACKS];
            for pack in 0..PACKS {
                let mut registers = [_mm512_setzero_si512(); SIZE];
                for i in 0..SIZE {
                    let from = from[pack][i].wrapping_offset(period * if EQUAL { steps[0][0] } else { steps[pack][i] });
                    // SAFETY: the caller promises that all inputs lie within the source.
                    registers[i] = unsafe { _mm512_loadu_si512(from.cast::<__m512i>()) };
                }
                packs[pack] = if SIZE == 1 { registers[0] } else { picked(&packing[pack], &registers) };
            }
            for o in 0..WRITTEN {
                let to = to[o].wrapping_offset(period * step).cast::<__m512i>();
                let vector = picked(&picks[o], &packs);
                // SAFETY: the caller promises that all outputs lie within the destination, and are aligned if they are
                // streamed.
                unsafe { if work.stream { _mm512_stream_si512(to, vector) } else { _mm512_storeu_si512(to, vector) } }
            }
        }
    }
}

/// Loads the chains into registers.
#[target_feature(enable = "avx512f,avx512vbmi")]
#[inline]
fn loaded<const LENGTH: usize, const CHAINS: usize>(picks: &[Pick]) -> [[__m512i; LENGTH]; CHAINS] {
    let mut chains = [[_mm512_setzero_si512(); LENGTH]; CHAINS];
    if let Some(picks) = picks.as_chunks::<LENGTH>().0.first_chunk::<CHAINS>() {
        for chain in 0..CHAINS {
            for step in 0..LENGTH {
                // SAFETY: a pick has 64 bytes, and is aligned.
                chains[chain][step] = unsafe { _mm512_load_si512((&raw const picks[chain][step].0).cast::<__m512i>()) };
            }
        }
    }
    chains
}

/// Selects the bytes of a chain from registers.
#[target_feature(enable = "avx512f,avx512vbmi")]
#[inline]
fn picked<const LENGTH: usize>(picks: &[__m512i; LENGTH], registers: &[__m512i; LENGTH]) -> __m512i {
    if LENGTH == 1 {
        return _mm512_permutexvar_epi8(picks[0], registers[0]);
    }
    let rest = registers.iter().zip(picks).skip(1);
    rest.fold(registers[0], |vector, (register, pick)| _mm512_permutex2var_epi8(vector, *pick, *register))
}
