//! Moves in vectors: which are carried out how.

use std::arch::x86_64::{__m128i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_sfence, _mm_stream_si128};

use super::across::Across;
use super::avx2::square::{self, Square};
use super::{Area, Level, Part, Span, avx2, avx512};
use crate::moves::Move;

/// How moves are carried out in vectors.
pub(super) enum Vectors {
    /// In AVX-512.
    Wide(avx512::program::Program),
    /// In AVX-512, by stages.
    Network(avx512::network::Network),
    /// In AVX2.
    Program(avx2::program::Program),
    /// In AVX2.
    Square(Square),
}

/// Groups moves: in AVX-512 by programs or a network for all; in AVX2 in squares where they fall into some, into gapless records and arrays by
/// programs; others one by one.
pub(super) fn parts(list: &[Move], level: Level, stream: bool) -> Vec<Part> {
    if level >= Level::Avx512 {
        let wide = |moves: Vec<Move>| {
            let program = avx512::program::Program::new(&moves)?;
            Some(Part { vectors: Some(Vectors::Wide(program)), moves })
        };
        // Where the caches hold all, what is read once is best: by one group of registers, by stages, or in squares.
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
    // A record that squares do not fill is better put together at once.
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
    /// Whether nothing of the source is read again.
    pub fn read_once(&self) -> bool {
        match self {
            Vectors::Wide(program) => program.groups.len() == 1,
            Vectors::Network(_) => true,
            _ => false,
        }
    }

    /// Whether its registers have 64 bytes.
    pub fn is_wide(&self) -> bool {
        matches!(self, Vectors::Wide(_) | Vectors::Network(_))
    }

    /// The part of an area that can be moved.
    pub fn span(&self, area: Area, to: &[u8], from: &[u8]) -> Span {
        let count = match self {
            Vectors::Wide(program) => return program.span(area, to, from),
            Vectors::Network(network) => return network.span(area, to, from),
            Vectors::Program(program) => program.limit(area, to.len(), from.len()),
            Vectors::Square(square) => square.limit(area, to.len(), from.len()),
        };
        Span { first: 0, count, lines: false }
    }

    /// Moves an area that lies within its span; past the caches only where all that is written is whole lines.
    #[allow(unsafe_code, reason = "the span says what may be touched")]
    pub fn run(&self, area: Area, stream: bool, to: &mut [u8], from: &[u8]) {
        // SAFETY: vectors are made only for registers that the machine has, and in a span all that is touched is in the buffers.
        unsafe {
            match self {
                Vectors::Wide(program) => avx512::run::run(program, area, stream, to, from),
                Vectors::Network(network) => avx512::stages::run(network, area, to, from),
                Vectors::Program(program) => {
                    avx2::run::run(program, area, area.elements / (2 * program.records), to, from);
                }
                Vectors::Square(square) => avx2::turn::run(square, area, area.elements / square.records(), to, from),
            }
        }
    }
}

/// Turns a matrix over, where that is all that a move does. False, and nothing is done, where it is not. All of the area must
/// lie within the buffers.
pub(crate) fn turn_over(list: &[Move], area: Area, level: Level, to: &mut [u8], from: &[u8]) -> bool {
    let across = Across::new(list).filter(|_| level >= Level::Avx2);
    across.map(|across| across.run(area, level, to, from)).is_some()
}

/// Copies bytes, past the caches where they are whole lines. With each line, one of what will be read next is fetched: from
/// `ahead` on, by `step`.
#[allow(unsafe_code, reason = "vector stores take pointers")]
pub(super) fn past_caches(to: &mut [u8], from: &[u8], ahead: *const u8, step: isize) {
    // SAFETY: any bytes can be a line.
    let (first, lines, last) = unsafe { to.align_to_mut::<Line>() };
    let (start, from) = from.split_at(first.len());
    let (middle, end) = from.split_at(size_of_val(lines));
    first.copy_from_slice(start);
    for ((line, from), number) in lines.iter_mut().zip(middle.as_chunks::<64>().0).zip(0..) {
        // SAFETY: what is not there is not fetched.
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

/// A line of the caches.
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Orders what was written past the caches before all that is written from now on.
#[allow(unsafe_code, reason = "every x86-64 has the instruction")]
pub(super) fn settle() {
    // SAFETY: it belongs to SSE.
    unsafe { _mm_sfence() }
}
