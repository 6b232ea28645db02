//! A buffer for codecs that need room for their longest output.

use super::Result;

/// A longer buffer is not kept between calls. The longest output of a block of 1 MiB is less.
const MAX_KEPT_BYTES: usize = 2 << 20;

/// A buffer that codecs write to. Its bytes stay initialized from call to call, so that a call does not first fill them with zeros that
/// it then overwrites.
#[derive(Default)]
pub struct OutputBuffer(Vec<u8>);

impl OutputBuffer {
    /// Has `write` fill a buffer of `bound` bytes, whose content is arbitrary, and appends to `out` as many of its first bytes as
    /// `write` returns.
    pub fn append(
        &mut self,
        bound: usize,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut [u8]) -> Result<usize>,
    ) -> Result<()> {
        if self.0.len() < bound {
            self.0.resize(bound, 0);
        }
        let written = write(&mut self.0[..bound]);
        let copied = written.and_then(|length| {
            let bytes = self.0.get(..length).ok_or_else(|| format!("{length} bytes do not fit into {bound}"))?;
            out.extend_from_slice(bytes);
            Ok(())
        });
        if self.0.len() > MAX_KEPT_BYTES {
            self.0 = Vec::new();
        }
        copied
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoding, Scratch, encode};

    #[test]
    fn bytes_stay_initialized_between_calls() {
        let (mut buffer, mut out) = (OutputBuffer::default(), Vec::new());
        let fill = |target: &mut [u8]| {
            target.fill(7);
            Ok(3)
        };
        buffer.append(100, &mut out, fill).expect("fits");
        let mut seen = Vec::new();
        let look = |target: &mut [u8]| {
            seen = target.to_vec();
            Ok(1)
        };
        buffer.append(50, &mut out, look).expect("fits");
        assert_eq!((seen, out), (vec![7; 50], vec![7; 4]));
        assert!(buffer.append(10, &mut Vec::new(), |_| Ok(1 << 20)).is_err());
        buffer.append(MAX_KEPT_BYTES + 1, &mut Vec::new(), |_| Ok(0)).expect("fits");
        assert!(buffer.0.is_empty(), "a long buffer is not kept");
    }

    #[test]
    fn earlier_output_leaves_no_trace() {
        let text: Vec<u8> = (0..60_000_u32).flat_map(|n| (n / 7).to_string().into_bytes()).collect();
        let mut used = Scratch::default();
        for name in ["lz4-1", "lz4hc-9", "snappy", "deflate-6", "lzma-1", "bzip2-1"] {
            let encoding: Encoding = name.parse().expect("an encoding");
            for source in [&text[..], &text[1000..5000], &text[7..40_000]] {
                let (mut after, mut alone) = (Vec::new(), Vec::new());
                encode(encoding, source, &mut after, &mut used).expect("encodes");
                encode(encoding, source, &mut alone, &mut Scratch::default()).expect("encodes");
                assert!(after == alone && !after.is_empty(), "{name} of {} bytes", source.len());
            }
        }
    }
}
