//! The analysis of bytes: their format, the type of their elements, and the distribution of the elements.
//!
//! The analysis trusts the caller and the file's metadata. It determines everything else by trial: it runs lz4
//! behind a filter of each width, and takes the width that compresses a sample best.

mod distribution;
mod element;
mod format;
mod gamma;
mod metadata;

pub use distribution::Distribution;
pub use element::Elements;
pub use format::Format;
pub use metadata::{Content, Metadata, Span, content};

use terrace_codec::Error;

use crate::candidates::{self, LZ4_INDEX};
use crate::probe::{Bench, SMALL_SAMPLE_BYTES, take_sample};

/// The result of an analysis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Analysis {
    /// The format of the file.
    pub format: Format,
    /// The type of the elements, from the caller, from the file or by trial. None for text, for bytes of many types,
    /// and for bytes that do not shrink.
    pub elements: Option<Elements>,
    /// The distribution of the elements, if they are numbers and some family fits.
    pub distribution: Option<Distribution>,
    /// The entropy of the byte frequencies in bits per byte, from 0 to 8.
    pub entropy: f64,
    /// The share of bytes that are ASCII text.
    pub printable: f64,
}

/// A filter indicates the width of elements only if lz4 behind it takes at most this share of plain lz4's size.
const MAX_FILTERED_SIZE_RATIO: f64 = 0.95;

impl Analysis {
    /// Analyzes the first block of a stream; `hint` is the caller's knowledge of the elements. Takes about 0.1 ms.
    ///
    /// # Errors
    /// [`Error`] if lz4's library fails.
    pub fn of(block: &[u8], hint: Option<Elements>) -> Result<Analysis, Error> {
        let format = Format::of(block);
        let mut small = Vec::with_capacity(SMALL_SAMPLE_BYTES);
        take_sample(block, SMALL_SAMPLE_BYTES, &mut small);
        let Histogram { entropy, printable } = Histogram::of(&small);
        let declared = content(&Metadata::new(format).parse(0, block), 0, block.len() as u64);
        let elements = match (hint, declared) {
            (Some(hint), _) => Some(hint),
            (None, Some(Content::Numbers(elements))) => Some(elements),
            (None, None) if !format.is_text() && format != Format::Compressed => find_elements_by_trial(&small)?,
            _ => None,
        };
        let distribution = elements.and_then(|elements| Distribution::of(elements, &small));
        Ok(Analysis { format, elements, distribution, entropy, printable })
    }
}

/// Returns the elements whose filter reduces the size, if there are any.
fn find_elements_by_trial(small: &[u8]) -> Result<Option<Elements>, Error> {
    let mut bench = Bench::default();
    let mut run = |at: usize| bench.run(candidates::ALL_CANDIDATES[at].encoding, small, small.len() as u32, false);
    let mut best = (run(LZ4_INDEX)?.stored * MAX_FILTERED_SIZE_RATIO, None);
    for (at, candidate) in candidates::ALL_CANDIDATES.iter().enumerate().filter(|(_, c)| c.is_filter()) {
        let stored = run(at)?.stored;
        if stored < best.0 {
            best = (stored, Some(candidate.width()));
        }
    }
    Ok(best.1.and_then(|width| Elements::from_numbers(width, small)))
}

/// The statistics of byte frequencies.
pub(crate) struct Histogram {
    /// The entropy in bits per byte.
    pub entropy: f64,
    /// The share of text bytes.
    pub printable: f64,
}

impl Histogram {
    /// Counts the bytes of a block.
    pub fn of(sample: &[u8]) -> Histogram {
        if sample.is_empty() {
            return Histogram { entropy: 0.0, printable: 0.0 };
        }
        let mut counts = [0u32; 256];
        sample.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        let all = sample.len() as f64;
        let present = counts.iter().filter(|c| **c > 0).count();
        let sum: f64 = counts.iter().filter(|c| **c > 0).map(|c| f64::from(*c) * f64::from(*c).log2()).sum();
        // The Miller-Madow correction: the entropy of a short sample is too low.
        let bias = (present as f64 - 1.0) / (2.0 * all * std::f64::consts::LN_2);
        let text = counts[9] + counts[10] + counts[13] + counts[32..127].iter().sum::<u32>();
        Histogram { entropy: (all.log2() - sum / all + bias).min(8.0), printable: f64::from(text) / all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_codec::Element;
    use terrace_testkit::Random;

    fn random(length: usize) -> Vec<u8> {
        Random::new(7).bytes(length)
    }

    #[test]
    fn random_bytes_have_no_elements() {
        for skip in 0..50 {
            let analysis = Analysis::of(&random(100_000 + skip)[skip..], None).expect("analyzes");
            assert_eq!((analysis.format, analysis.elements, analysis.distribution), (Format::Unknown, None, None));
            assert!(analysis.entropy > 7.97, "{}", analysis.entropy);
        }
    }

    #[test]
    fn numbers_are_found_and_hints_are_taken() {
        let field: Vec<u8> = (0..30_000).flat_map(|i| ((i as f32 / 900.0).sin() + 2.0).to_le_bytes()).collect();
        let analysis = Analysis::of(&field, None).expect("analyzes");
        assert_eq!(analysis.elements, Some(Elements::of(Element::F32)));
        let hint = Some(Elements::of(Element::U64));
        assert_eq!(Analysis::of(&field, hint).expect("analyzes").elements, hint);
    }

    #[test]
    fn entropies() {
        let of = |bytes: &[u8]| Histogram::of(bytes).entropy;
        assert_eq!(of(&[7; 100]), 0.0);
        let all: Vec<u8> = (0..25_600u32).map(|i| i as u8).collect();
        assert!((of(&all) - 8.0).abs() < 1e-9);
        assert_eq!(of(b""), 0.0);
        assert!(Histogram::of(b"plain words\n").printable == 1.0);
    }
}
