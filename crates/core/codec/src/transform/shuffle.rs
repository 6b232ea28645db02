//! Shuffle: bytes of equal rank side by side, so that what changes slowly compresses well.
//!
//! In wide elements, the words of four bytes at one place of each element are gathered first, and then split by rank. The loops are
//! simple enough for the compiler to use vector instructions.

use super::BLOCK_BYTES;

/// Spreads a block's elements, which begin with element `first` of all, over the planes.
pub fn apply(width: usize, block: &[u8], first: usize, planes: &mut [u8]) {
    let all = planes.len() / width;
    let count = block.len() / width;
    let mut plane = |rank: usize, each: &mut dyn FnMut(&mut [u8])| {
        let start = rank * all + first;
        each(&mut planes[start..start + count]);
    };
    match width {
        1 => plane(0, &mut |out| out.copy_from_slice(block)),
        2 => {
            let elements = block.as_chunks::<2>().0;
            for rank in 0..2 {
                plane(rank, &mut |out| extract_bytes(elements, out, |e| (u16::from_le_bytes(e) >> (8 * rank)) as u8));
            }
        }
        4 => {
            let elements = block.as_chunks::<4>().0;
            for rank in 0..4 {
                plane(rank, &mut |out| extract_bytes(elements, out, |e| (u32::from_le_bytes(e) >> (8 * rank)) as u8));
            }
        }
        _ => {
            let mut words = [0u32; BLOCK_BYTES / 8];
            let words = &mut words[..count];
            for place in 0..width / 4 {
                gather(width, block, place, words);
                for rank in 0..4 {
                    plane(4 * place + rank, &mut |out| extract_bytes(words, out, |w| (w >> (8 * rank)) as u8));
                }
            }
        }
    }
}

/// Undoes [`apply`]: fills the block from the planes.
pub fn undo(width: usize, planes: &[u8], first: usize, block: &mut [u8]) {
    let all = planes.len() / width;
    let count = block.len() / width;
    let plane = |rank: usize| &planes[rank * all + first..][..count];
    match width {
        1 => block.copy_from_slice(plane(0)),
        2 => {
            let pairs = plane(0).iter().zip(plane(1));
            for (element, (a, b)) in block.as_chunks_mut::<2>().0.iter_mut().zip(pairs) {
                *element = [*a, *b];
            }
        }
        4 => join_planes(block.as_chunks_mut::<4>().0, |rank| plane(rank)),
        _ => {
            let mut words = [[0u8; 4]; BLOCK_BYTES / 8];
            let words = &mut words[..count];
            for place in 0..width / 4 {
                join_planes(words, |rank| plane(4 * place + rank));
                scatter(width, words, place, block);
            }
        }
    }
}

#[inline(always)]
fn extract_bytes<E: Copy>(elements: &[E], out: &mut [u8], byte: impl Fn(E) -> u8) {
    for (out, element) in out.iter_mut().zip(elements) {
        *out = byte(*element);
    }
}

#[inline(always)]
fn join_planes<'p>(words: &mut [[u8; 4]], plane: impl Fn(usize) -> &'p [u8]) {
    let low = plane(0).iter().zip(plane(1));
    let high = plane(2).iter().zip(plane(3));
    for (word, ((a, b), (c, d))) in words.iter_mut().zip(low.zip(high)) {
        *word = u32::to_le_bytes(u32::from(*a) | u32::from(*b) << 8 | u32::from(*c) << 16 | u32::from(*d) << 24);
    }
}

/// Collects the words at `place` of each element.
fn gather(width: usize, block: &[u8], place: usize, words: &mut [u32]) {
    let all = block.as_chunks::<4>().0;
    match width {
        8 => gather_words::<2>(all, place, words),
        _ => gather_words::<8>(all, place, words),
    }
}

fn gather_words<const WORDS: usize>(all: &[[u8; 4]], place: usize, words: &mut [u32]) {
    for (word, element) in words.iter_mut().zip(all.as_chunks::<WORDS>().0) {
        *word = u32::from_le_bytes(element[place % WORDS]);
    }
}

/// Undoes [`gather`].
fn scatter(width: usize, words: &[[u8; 4]], place: usize, block: &mut [u8]) {
    let all = block.as_chunks_mut::<4>().0;
    match width {
        8 => scatter_words::<2>(words, place, all),
        _ => scatter_words::<8>(words, place, all),
    }
}

fn scatter_words<const WORDS: usize>(words: &[[u8; 4]], place: usize, all: &mut [[u8; 4]]) {
    for (word, element) in words.iter().zip(all.as_chunks_mut::<WORDS>().0) {
        element[place % WORDS] = *word;
    }
}
