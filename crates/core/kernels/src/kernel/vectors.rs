//! The choice of vector kernels for moves.

use std::arch::x86_64::{__m128i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_stream_si128};

use super::across::Across;
use super::avx2::square::{self, Square};
pub(super) use super::transposition::fence_streamed_stores;
use super::{Area, Level, Part, Span, avx2, avx512};
use crate::moves::Move;

/// A vector kernel.
pub(super) enum Vectors {
    /// A program in AVX-512.
    Wide(avx512::program::Program),
    /// A network of stages in AVX-512.
    Network(avx512::network::Network),
    /// A program in AVX2.
    Program(avx2::program::Program),
    /// A square in AVX2.
    Square(Square),
}

/// Groups moves. In AVX-512, programs or a network execute all of them. In AVX2, squares execute the moves that form
/// squares, and programs execute gapless records and arrays. Other moves run one by one.
pub(super) fn parts(list: &[Move], level: Level, stream: bool) -> Vec<Part> {
    if level >= Level::Avx512 {
        let wide = |moves: Vec<Move>| {
            let program = avx512::program::Program::new(&moves)?;
            Some(Part { vectors: Some(Vectors::Wide(program)), moves })
        };
        // If the caches hold everything, kernels that read the source once are best: one group of registers, stages, or
        // squares.
        let once = |part: &Part| part.vectors.as_ref().is_some_and(Vectors::read_once);
        let all = wide(list.to_vec());
        if !stream
            && !all.as_ref().is_some_and(once)
            && let Some(network) = avx512::network::Network::new(list)
        {
            return vec![Part { vectors: Some(Vectors::Network(network)), moves: list.to_vec() }];
        }
        let squares = || list.len() > 1 && !square::split(list).0.is_empty();
        if let Some(part) = all.filter(|part| once(part) || stream || !squares()) {
            return vec![part];
        }
        if !squares()
            && let Some(parts) = list.iter().map(|one| wide(vec![one.clone()])).collect()
        {
            return parts;
        }
    }
    let alone = |one: Move| {
        let program = avx2::program::Program::record(std::slice::from_ref(&one)).filter(|_| level >= Level::Avx2);
        Part { vectors: program.map(Vectors::Program), moves: vec![one] }
    };
    let (squares, rest) =
        if list.len() > 1 && level >= Level::Avx2 { square::split(list) } else { (Vec::new(), list.to_vec()) };
    // A record that squares do not fill is better assembled by one program.
    let scatters = squares.iter().any(|(square, _)| !square.gather);
    if level >= Level::Avx2
        && (squares.is_empty() || (scatters && !rest.is_empty()))
        && let Some(record) = avx2::program::Program::record(list)
    {
        return vec![Part { vectors: Some(Vectors::Program(record)), moves: list.to_vec() }];
    }
    let squares = squares.into_iter().map(|(square, moves)| Part { vectors: Some(Vectors::Square(square)), moves });
    squares.chain(rest.into_iter().map(alone)).collect()
}

impl Vectors {
    /// Returns whether each byte of the source is read only once.
    pub fn read_once(&self) -> bool {
        match self {
            Vectors::Wide(program) => program.groups.len() == 1,
            Vectors::Network(_) => true,
            _ => false,
        }
    }

    /// Returns whether its registers have 64 bytes.
    pub fn is_wide(&self) -> bool {
        matches!(self, Vectors::Wide(_) | Vectors::Network(_))
    }

    /// Returns the part of an area that can be moved.
    pub fn span(&self, area: Area, to: &[u8], from: &[u8]) -> Span {
        let count = match self {
            Vectors::Wide(program) => return program.span(area, to, from),
            Vectors::Network(network) => return network.span(area, to, from),
            Vectors::Program(program) => program.limit(area, to.len(), from.len()),
            Vectors::Square(square) => square.limit(area, to.len(), from.len()),
        };
        Span { first: 0, count, lines: false }
    }

    /// Moves an area that lies within its span. It writes past the caches only if all destinations are whole lines.
    #[allow(unsafe_code, reason = "the span says what may be touched")]
    pub fn run(&self, area: Area, stream: bool, to: &mut [u8], from: &[u8]) {
        // SAFETY: kernels are made only for registers that the machine has, and a span contains only accesses within
        // the buffers.
        unsafe {
            match self {
                Vectors::Wide(program) => avx512::run::run(program, area, stream, to, from),
                Vectors::Network(network) => avx512::stages::run(network, area, to, from),
                Vectors::Program(program) => {
                    avx2::run::run(program, area, area.elements / (2 * program.records), to, from);
                }
                Vectors::Square(square) => {
                    avx2::transpose::run(square, area, area.elements / square.records(), to, from)
                }
            }
        }
    }
}

/// Transposes a matrix, if that is all that the move does; otherwise does nothing and returns false. All of the area
/// must lie within the buffers.
pub(crate) fn transpose_across(list: &[Move], area: Area, level: Level, to: &mut [u8], from: &[u8]) -> bool {
    let across = Across::new(list).filter(|_| level >= Level::Avx2);
    across.map(|across| across.run(area, level, to, from)).is_some()
}

/// Copies bytes; whole lines are written past the caches. With each line, one line of the next reads is prefetched:
/// from `ahead` on, by `step`.
#[allow(unsafe_code, reason = "vector stores take pointers")]
pub(super) fn copy_past_caches(to: &mut [u8], from: &[u8], ahead: *const u8, step: isize) {
    // SAFETY: any bytes can be a line.
    let (first, lines, last) = unsafe { to.align_to_mut::<Line>() };
    let (start, from) = from.split_at(first.len());
    let (middle, end) = from.split_at(size_of_val(lines));
    first.copy_from_slice(start);
    for ((line, from), number) in lines.iter_mut().zip(middle.as_chunks::<64>().0).zip(0..) {
        // SAFETY: a prefetch may name any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_offset(step * number).cast::<i8>()) };
        for (to, from) in line.0.as_chunks_mut::<16>().0.iter_mut().zip(from.as_chunks::<16>().0) {
            // SAFETY: every x86-64 has SSE2; both have 16 bytes, and a line is aligned.
            unsafe {
                _mm_stream_si128(to.as_mut_ptr().cast::<__m128i>(), _mm_loadu_si128(from.as_ptr().cast::<__m128i>()))
            };
        }
    }
    last.copy_from_slice(end);
}

/// A cache line.
#[repr(C, align(64))]
struct Line([u8; 64]);
