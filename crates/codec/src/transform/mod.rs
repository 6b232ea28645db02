//! Transforms, over blocks that stay in the first-level cache. Bytes after the last whole element stay as they are.

mod delta;
mod shuffle;

use crate::{Encoding, Transform};

/// Bytes of a block: a multiple of every width.
const BLOCK: usize = 8192;

/// Fills `out`, which is as long as `raw`.
pub fn apply(encoding: Encoding, raw: &[u8], out: &mut [u8]) {
    let width = encoding.element.width();
    let count = raw.len() / width;
    let (whole, rest) = raw.split_at(count * width);
    let (planes, end) = out.split_at_mut(count * width);
    end.copy_from_slice(rest);
    let mut differences = [0; BLOCK];
    for start in (0..whole.len()).step_by(BLOCK) {
        let block = &whole[start..whole.len().min(start + BLOCK)];
        let source = if encoding.transform == Transform::Delta {
            let differences = &mut differences[..block.len()];
            delta::apply(encoding.element, whole, start, differences);
            &*differences
        } else {
            block
        };
        shuffle::apply(width, source, start / width, planes);
    }
}

/// Undoes [`apply`]: fills `raw`, which is as long as `transformed`.
pub fn undo(encoding: Encoding, transformed: &[u8], raw: &mut [u8]) {
    let width = encoding.element.width();
    let count = raw.len() / width;
    let (planes, rest) = transformed.split_at(count * width);
    let (whole, end) = raw.split_at_mut(count * width);
    end.copy_from_slice(rest);
    let mut sums = delta::Sums::default();
    for (number, block) in whole.chunks_mut(BLOCK).enumerate() {
        shuffle::undo(width, planes, number * (BLOCK / width), block);
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
        for &transform in &[Transform::Shuffle, Transform::Delta] {
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

    /// These bytes stand on disks.
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
    }
}
