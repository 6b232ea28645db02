//! Runs encodings on samples, timed.

use rustix::time::{ClockId, clock_gettime};
use terrace_codec::{CodecId, Encoding, Error, Scratch, decode, encode_sample};

use terrace_cost::Expected;

/// Bytes of a small sample.
pub const SMALL: usize = 8 << 10;
/// Bytes of a large sample.
pub const LARGE: usize = 64 << 10;

/// Seconds for a byte of the reference work where it cannot be measured.
const USUAL: f64 = 2e-9;
/// Slices of a small sample and of a large one: the more, the better what changes within a block is met.
const SLICES: [usize; 2] = [4, 16];
/// Slices begin at multiples of this, so that elements and records of every width stay whole.
const ALIGNMENT: usize = 32;

/// Seconds that this thread has worked for; what waits and what other threads do is not in it.
pub fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Fills `out` with at most `length` bytes: slices out of the middles of equal parts of `block`, or all of it.
pub fn sample(block: &[u8], length: usize, out: &mut Vec<u8>) {
    out.clear();
    if block.len() <= length {
        return out.extend_from_slice(block);
    }
    let slices = SLICES[usize::from(length > SMALL)];
    let (part, slice) = (block.len() / slices, length / slices);
    for number in 0..slices {
        let start = number * part + (part - slice) / 2;
        let start = start - start % ALIGNMENT;
        out.extend_from_slice(&block[start..start + slice]);
    }
}

/// Where probes work: one for each thread.
#[derive(Default)]
pub struct Bench {
    scratch: Scratch,
    out: Vec<u8>,
    back: Vec<u8>,
}

impl Bench {
    /// Runs an encoding once over a sample out of `whole` bytes. Decodes only where `both`; else decoding takes 0.
    ///
    /// # Errors
    /// Where the codec's library fails.
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

/// Seconds for a byte that this machine takes for the reference work: lz4 of text made up of a few words. Takes about
/// a millisecond.
pub fn machine() -> f64 {
    const WORDS: [&[u8]; 8] =
        [b"tier ", b"the store ", b"extent, ", b"replica. ", b"a ", b"mover: ", b"0.25 ", b"encoding"];
    let mut text = Vec::with_capacity(LARGE + 16);
    let mut state = 1u32;
    while text.len() < LARGE {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.extend_from_slice(WORDS[(state >> 29) as usize]);
    }
    let mut bench = Bench::default();
    let work = Encoding { codec: CodecId::Lz4, ..Encoding::NONE };
    let mut run = || bench.run(work, &text, 0, false).map_or(f64::INFINITY, |probe| probe.encode);
    let best = (0..5).map(|_| run()).fold(f64::INFINITY, f64::min);
    if best.is_finite() && best > 0.0 { best } else { USUAL }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_spread_aligned_and_as_long_as_they_should_be() {
        let mut out = Vec::new();
        for length in [0, 1, 8191, 8192, 8193, 8230, 65_537, 262_144, 1_000_003] {
            let block: Vec<u8> = (0..length).map(|i| (i / ALIGNMENT) as u8).collect();
            sample(&block, SMALL, &mut out);
            assert_eq!(out.len(), length.min(SMALL));
            if length > SMALL {
                for slice in out.chunks(SMALL / SLICES[0]) {
                    assert!(slice[..ALIGNMENT].iter().all(|b| *b == slice[0]), "begins at a multiple");
                }
            }
        }
    }

    #[test]
    fn what_shrinks_is_measured_and_what_does_not_is_stored_whole() {
        let mut bench = Bench::default();
        let zeros = vec![0; SMALL];
        let lz4 = "lz4".parse().expect("a name");
        let probe = bench.run(lz4, &zeros, 262_144, true).expect("runs");
        assert!(probe.stored < 0.02 && probe.encode > 0.0 && probe.decode > 0.0, "{probe:?}");
        assert_eq!(bench.run(lz4, &[1, 2, 3], 262_144, true).expect("runs").stored, 1.0);
        assert_eq!(bench.run(lz4, &[], 0, true).expect("runs"), Expected::NONE);
    }
}
