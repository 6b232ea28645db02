//! Transforms, on blocks that fit the first-level cache. Bytes left over behind the last complete element (for
//! bitshuffle, behind the last complete group of eight elements) stay unchanged.

mod bits;
mod delta;
mod shuffle;

use crate::{Encoding, Transform};

/// The size of a block in bytes: a multiple of every width.
const BLOCK_BYTES: usize = 8192;

/// Transforms `raw` into `out`, which has the same length. The encoding's transform is not [`Transform::None`].
pub fn apply(encoding: Encoding, raw: &[u8], out: &mut [u8]) {
    let width = encoding.element.width();
    let (whole, rest) = raw.split_at(transformed_length(encoding, raw.len()));
    let (planes, end) = out.split_at_mut(whole.len());
    end.copy_from_slice(rest);
    let mut differences = [0; BLOCK_BYTES];
    for start in (0..whole.len()).step_by(BLOCK_BYTES) {
        let block = &whole[start..whole.len().min(start + BLOCK_BYTES)];
        match encoding.transform {
            Transform::Delta => {
                let differences = &mut differences[..block.len()];
                delta::apply(encoding.element, whole, start, differences);
                shuffle::apply(width, differences, start / width, planes);
            }
            Transform::BitShuffle => bits::apply(width, block, start / width, planes),
            _ => shuffle::apply(width, block, start / width, planes),
        }
    }
}

/// Returns how many of `length` bytes are transformed.
fn transformed_length(encoding: Encoding, length: usize) -> usize {
    let least = encoding.element.width() * if encoding.transform == Transform::BitShuffle { 8 } else { 1 };
    length - length % least
}

/// Undoes [`apply`]: fills `raw`, which has the same length as `transformed`. The encoding's transform is not [`Transform::None`].
pub fn undo(encoding: Encoding, transformed: &[u8], raw: &mut [u8]) {
    let width = encoding.element.width();
    let (planes, rest) = transformed.split_at(transformed_length(encoding, raw.len()));
    let (whole, end) = raw.split_at_mut(planes.len());
    end.copy_from_slice(rest);
    let mut sums = delta::Sums::default();
    for (number, block) in whole.chunks_mut(BLOCK_BYTES).enumerate() {
        let first = number * (BLOCK_BYTES / width);
        match encoding.transform {
            Transform::BitShuffle => bits::undo(width, planes, first, block),
            _ => shuffle::undo(width, planes, first, block),
        }
        if encoding.transform == Transform::Delta {
            sums.undo(encoding.element, block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodecId, Element};

    #[test]
    fn every_transform_is_undone() {
        let data: Vec<u8> = (0..70_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for &transform in &[Transform::Shuffle, Transform::Delta, Transform::BitShuffle] {
            for &element in Element::ALL {
                let encoding = Encoding { transform, element, codec: CodecId::None, level: 0 };
                for length in [0, 1, 3, 31, 32, 33, 255, 4096, 8191, 8192, 8193, 65_536, 70_000] {
                    let (mut there, mut back) = (vec![1; length], vec![2; length]);
                    apply(encoding, &data[..length], &mut there);
                    undo(encoding, &there, &mut back);
                    assert_eq!(back, &data[..length], "{encoding} of {length}");
                }
            }
        }
    }

    /// Bytes transformed by earlier versions are on disks and must stay readable.
    #[test]
    fn transformed_bytes_never_change() {
        let of = |transform, element, raw: &[u8]| {
            let mut out = vec![0; raw.len()];
            apply(Encoding { transform, element, codec: CodecId::None, level: 0 }, raw, &mut out);
            out
        };
        let raw = [10, 1, 2, 3, 9, 1, 2, 3, 255];
        assert_eq!(of(Transform::Shuffle, Element::F32, &raw), [10, 9, 1, 1, 2, 2, 3, 3, 255]);
        assert_eq!(of(Transform::Delta, Element::F32, &raw), [20, 1, 2, 0, 4, 0, 6, 0, 255]);
        assert_eq!(of(Transform::Delta, Element::Bytes, &[5, 7, 6]), [10, 4, 1]);
        assert_eq!(
            of(Transform::BitShuffle, Element::Bytes, &[1, 3, 5, 7, 9, 11, 13, 128, 77]),
            [0b0111_1111, 0b0010_1010, 0b0100_1100, 0b0111_0000, 0, 0, 0, 0b1000_0000, 77]
        );
        let two: Vec<u8> = (0..8u16).flat_map(|n| (n << 8 | 1).to_le_bytes()).collect();
        let planes = [255, 0, 0, 0, 0, 0, 0, 0, 0b1010_1010, 0b1100_1100, 0b1111_0000, 0, 0, 0, 0, 0];
        assert_eq!(of(Transform::BitShuffle, Element::I16, &two), planes);
    }
}
