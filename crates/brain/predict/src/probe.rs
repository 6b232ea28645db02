//! Timed runs of encodings on samples.

use terrace_codec::{CodecId, Encoding, Error, Scratch, decode, encode_sample};
use terrace_cost::Expected;
use terrace_system::clock::thread_seconds;

/// The size of a small sample in bytes.
pub const SMALL_SAMPLE_BYTES: usize = 8 << 10;
/// The size of a large sample in bytes.
pub const LARGE_SAMPLE_BYTES: usize = 64 << 10;

/// The assumed time of the reference work per byte, in seconds, if it cannot be measured.
const DEFAULT_MACHINE_SECONDS_PER_BYTE: f64 = 2e-9;
/// The number of slices of a small sample and of a large one. More slices represent changes within a block better.
const SLICES_PER_SAMPLE: [usize; 2] = [4, 16];
/// Slices begin at multiples of this, so that elements and records of every supported width stay whole.
const SLICE_ALIGNMENT_BYTES: usize = 32;

/// Fills `out` with at most `length` bytes: slices from the middles of equal parts of `block`, or all of it if it is
/// short enough.
pub fn take_sample(block: &[u8], length: usize, out: &mut Vec<u8>) {
    out.clear();
    if block.len() <= length {
        return out.extend_from_slice(block);
    }
    let slices = SLICES_PER_SAMPLE[usize::from(length > SMALL_SAMPLE_BYTES)];
    let (part, slice) = (block.len() / slices, length / slices);
    for number in 0..slices {
        let start = number * part + (part - slice) / 2;
        let start = start - start % SLICE_ALIGNMENT_BYTES;
        out.extend_from_slice(&block[start..start + slice]);
    }
}

/// The buffers of probes; each thread needs its own.
#[derive(Default)]
pub struct Bench {
    scratch: Scratch,
    out: Vec<u8>,
    back: Vec<u8>,
}

impl Bench {
    /// Runs an encoding once on a sample from a block of `whole` bytes. Decodes the result only if `both` is set;
    /// otherwise the decoding time is 0.
    ///
    /// # Errors
    /// An error of the codec's library.
    pub fn run(&mut self, encoding: Encoding, sample: &[u8], whole: u32, both: bool) -> Result<Expected, Error> {
        if sample.is_empty() {
            return Ok(Expected::NONE);
        }
        let Bench { scratch, out, back } = self;
        let bytes = sample.len() as f64;
        let start = thread_seconds();
        let stored = encode_sample(encoding, sample, whole, out, scratch)?;
        let encode = (thread_seconds() - start) / bytes;
        let Some(stored) = stored else {
            return Ok(Expected { stored: 1.0, encode, decode: 0.0 });
        };
        let mut seconds = 0.0;
        if both {
            back.resize(sample.len(), 0);
            let start = thread_seconds();
            decode(encoding, out, back, scratch)?;
            seconds = thread_seconds() - start;
        }
        Ok(Expected { stored: stored as f64 / bytes, encode, decode: seconds / bytes })
    }
}

/// Measures this machine's speed: the seconds per byte of the reference work, which is lz4 on text from a few words.
/// Takes about a millisecond.
pub fn measure_machine() -> f64 {
    const TEXT_WORDS: [&[u8]; 8] =
        [b"tier ", b"the store ", b"extent, ", b"replica. ", b"a ", b"mover: ", b"0.25 ", b"encoding"];
    let mut text = Vec::with_capacity(LARGE_SAMPLE_BYTES + 16);
    let mut state = 1u32;
    while text.len() < LARGE_SAMPLE_BYTES {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.extend_from_slice(TEXT_WORDS[(state >> 29) as usize]);
    }
    let mut bench = Bench::default();
    let work = Encoding { codec: CodecId::Lz4, ..Encoding::NONE };
    let mut run = || bench.run(work, &text, 0, false).map_or(f64::INFINITY, |probe| probe.encode);
    let best = (0..5).map(|_| run()).fold(f64::INFINITY, f64::min);
    if best.is_finite() && best > 0.0 { best } else { DEFAULT_MACHINE_SECONDS_PER_BYTE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_spread_aligned_and_of_the_right_length() {
        let mut out = Vec::new();
        for length in [0, 1, 8191, 8192, 8193, 8230, 65_537, 262_144, 1_000_003] {
            let block: Vec<u8> = (0..length).map(|i| (i / SLICE_ALIGNMENT_BYTES) as u8).collect();
            take_sample(&block, SMALL_SAMPLE_BYTES, &mut out);
            assert_eq!(out.len(), length.min(SMALL_SAMPLE_BYTES));
            if length > SMALL_SAMPLE_BYTES {
                for slice in out.chunks(SMALL_SAMPLE_BYTES / SLICES_PER_SAMPLE[0]) {
                    assert!(slice[..SLICE_ALIGNMENT_BYTES].iter().all(|b| *b == slice[0]), "begins at a multiple");
                }
            }
        }
    }

    #[test]
    fn shrinking_samples_are_measured_and_others_count_as_raw() {
        let mut bench = Bench::default();
        let zeros = vec![0; SMALL_SAMPLE_BYTES];
        let lz4 = "lz4".parse().expect("a name");
        let probe = bench.run(lz4, &zeros, 262_144, true).expect("runs");
        assert!(probe.stored < 0.02 && probe.encode > 0.0 && probe.decode > 0.0, "{probe:?}");
        assert_eq!(bench.run(lz4, &[1, 2, 3], 262_144, true).expect("runs").stored, 1.0);
        assert_eq!(bench.run(lz4, &[], 0, true).expect("runs"), Expected::NONE);
    }
}
