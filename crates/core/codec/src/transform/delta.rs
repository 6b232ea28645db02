//! Delta: each element less the one before it, as integers that wrap, whatever the type; the sign moves to the lowest
//! bit (-1 is 1, 1 is 2), so that small differences of either sign have zeros above. A record is eight such numbers.

use crate::Element;

/// Sums so far, from one block to the next.
#[derive(Default)]
pub struct Sums([u64; 8]);

macro_rules! differences {
    ($apply:ident, $undo:ident, $word:ty, $signed:ty, $lanes:literal) => {
        fn $apply(all: &[u8], start: usize, out: &mut [u8]) {
            const WORD_BYTES: usize = size_of::<$word>();
            const STRIDE_BYTES: usize = WORD_BYTES * $lanes;
            let end = start + out.len();
            let zeros = [0; STRIDE_BYTES];
            // The first element of all has zeros before it.
            let (head, skip) =
                if start == 0 { (&zeros[..STRIDE_BYTES.min(end)], STRIDE_BYTES.min(end)) } else { (&zeros[..0], 0) };
            let (out_head, out_rest) = out.split_at_mut(skip);
            let before = if start == 0 { &all[..end - skip] } else { &all[start - STRIDE_BYTES..end - STRIDE_BYTES] };
            for (now, before, out) in [(&all[..skip], head, out_head), (&all[start + skip..end], before, out_rest)] {
                let numbers = now.as_chunks::<WORD_BYTES>().0.iter().zip(before.as_chunks::<WORD_BYTES>().0);
                for (out, (now, before)) in out.as_chunks_mut::<WORD_BYTES>().0.iter_mut().zip(numbers) {
                    let difference = <$signed>::from_le_bytes(*now).wrapping_sub(<$signed>::from_le_bytes(*before));
                    *out = ((difference << 1) ^ (difference >> (<$signed>::BITS - 1))).to_le_bytes();
                }
            }
        }

        fn $undo(sums: &mut [u64; 8], block: &mut [u8]) {
            let mut sum = [0 as $word; $lanes];
            sum.iter_mut().zip(&*sums).for_each(|(sum, kept)| *sum = *kept as $word);
            for element in block.as_chunks_mut::<{ size_of::<$word>() }>().0.as_chunks_mut::<$lanes>().0 {
                for (sum, number) in sum.iter_mut().zip(element) {
                    let zigzag = <$word>::from_le_bytes(*number);
                    *sum = sum.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg());
                    *number = sum.to_le_bytes();
                }
            }
            sums.iter_mut().zip(sum).for_each(|(kept, sum)| *kept = sum.into());
        }
    };
}

differences!(apply_1, undo_1, u8, i8, 1);
differences!(apply_2, undo_2, u16, i16, 1);
differences!(apply_4, undo_4, u32, i32, 1);
differences!(apply_8, undo_8, u64, i64, 1);
differences!(apply_record, undo_record, u32, i32, 8);

/// Fills `out` with the differences of the elements of `all` from byte `start` on.
pub fn apply(element: Element, all: &[u8], start: usize, out: &mut [u8]) {
    match element.width() {
        1 => apply_1(all, start, out),
        2 => apply_2(all, start, out),
        4 => apply_4(all, start, out),
        8 => apply_8(all, start, out),
        _ => apply_record(all, start, out),
    }
}

impl Sums {
    /// Undoes [`apply`] in the next block, in place.
    pub fn undo(&mut self, element: Element, block: &mut [u8]) {
        match element.width() {
            1 => undo_1(&mut self.0, block),
            2 => undo_2(&mut self.0, block),
            4 => undo_4(&mut self.0, block),
            8 => undo_8(&mut self.0, block),
            _ => undo_record(&mut self.0, block),
        }
    }
}
