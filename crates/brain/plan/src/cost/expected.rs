//! [`Costs`]: what each encoding is expected to cost on the data at hand.

use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};
use terrace_codec::Encoding;

use crate::snapshot::{PAGE, nearest};

/// The expected cost of an encoding (the paper's ECC).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// Bytes encoded per second.
    pub compress: f64,
    /// Bytes decoded per second.
    pub decompress: f64,
    /// Bytes before over bytes after.
    pub ratio: f64,
}

impl Expected {
    /// What is expected after an operation took `measured`: nearer to it by `share` (0 nothing learnt, 1 only the last
    /// counts), as a geometric mean, since speeds and ratios err by factors. What was not measured is NaN, and stays.
    pub fn learn(&self, measured: &Expected, share: f64) -> Expected {
        let nearer = |old: f64, new: f64| if new > 0.0 { old * (new / old).powf(share.clamp(0.0, 1.0)) } else { old };
        Expected {
            compress: nearer(self.compress, measured.compress),
            decompress: nearer(self.decompress, measured.decompress),
            ratio: nearer(self.ratio, measured.ratio),
        }
    }
}

/// An encoding as the cost models see it; speeds rounded to steps of 5 %, the ratio down to whole percents.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EncodingRates {
    /// Which.
    pub encoding: Encoding,
    /// Seconds to encode a byte.
    pub compress: f64,
    /// Seconds to decode a byte.
    pub decompress: f64,
    /// Bytes after over bytes before, at most 1.
    pub share: f64,
    /// Bytes stored per page of [`PAGE`] bytes.
    pub page: u32,
}

impl EncodingRates {
    const NONE: EncodingRates =
        EncodingRates { encoding: Encoding::NONE, compress: 0.0, decompress: 0.0, share: 1.0, page: PAGE as u32 };

    /// None for what is not worth a thought: a ratio below 1, or a speed that is none.
    pub(crate) fn of(encoding: Encoding, expected: &Expected) -> Option<EncodingRates> {
        let Expected { compress, decompress, ratio } = *expected;
        let valid = compress > 0.0 && decompress > 0.0 && ratio.is_finite() && ratio >= 1.0;
        let ratio = (ratio * 100.0).floor() / 100.0;
        valid.then(|| EncodingRates {
            encoding,
            compress: 1.0 / nearest(compress),
            decompress: 1.0 / nearest(decompress),
            share: 1.0 / ratio,
            page: (PAGE as f64 / ratio).ceil() as u32,
        })
    }

    fn hardly_differs(&self, other: &EncodingRates) -> bool {
        let near = |a: f64, b: f64, share: f64| (a - b).abs() <= share * b;
        near(self.compress, other.compress, 0.1)
            && near(self.decompress, other.decompress, 0.1)
            && near(self.share, other.share, 0.01)
    }
}

/// The encodings that a plan may use, with what they are expected to cost. Storing bytes as they are is always one.
#[derive(Clone, Debug)]
pub struct Costs {
    rates: Vec<EncodingRates>,
    /// The one to be used wherever bytes may be encoded.
    only: Option<usize>,
    fingerprint: u64,
}

impl Costs {
    /// The expected costs of encodings; those with a ratio below 1 are left out (HReplica Table II, constraint 4), and
    /// so are those past the first 255.
    pub fn new(expected: impl IntoIterator<Item = (Encoding, Expected)>) -> Costs {
        let others = expected.into_iter().filter(|(encoding, _)| *encoding != Encoding::NONE);
        let others = others.filter_map(|(encoding, expected)| EncodingRates::of(encoding, &expected));
        Costs::of(std::iter::once(EncodingRates::NONE).chain(others).take(256).collect(), None)
    }

    /// The expected cost of the one encoding that bytes are to be in, wherever they may be encoded; where it does not
    /// shrink them they are stored as they are.
    pub fn only(encoding: Encoding, expected: &Expected) -> Costs {
        let of = EncodingRates::of(encoding, expected).filter(|_| encoding != Encoding::NONE);
        let rates: Vec<EncodingRates> = std::iter::once(EncodingRates::NONE).chain(of).collect();
        let last = rates.len() - 1;
        Costs::of(rates, Some(last))
    }

    fn of(rates: Vec<EncodingRates>, only: Option<usize>) -> Costs {
        let mut hasher = std::hash::DefaultHasher::new();
        only.hash(&mut hasher);
        for EncodingRates { encoding, compress, decompress, share, page } in &rates {
            (encoding, compress.to_bits(), decompress.to_bits(), share.to_bits(), page).hash(&mut hasher);
        }
        Costs { rates, only, fingerprint: hasher.finish() }
    }

    /// The same, but as `before` where an encoding is expected to cost hardly anything else: plans that were made for that
    /// are still good, and remembered.
    pub fn steady(mut self, before: &Costs) -> Costs {
        for of in &mut self.rates {
            let known = before.rates.iter().find(|known| known.encoding == of.encoding);
            if let Some(known) = known.filter(|known| of.hardly_differs(known)) {
                *of = *known;
            }
        }
        Costs::of(self.rates, self.only)
    }

    /// Each encoding as the cost models see it; the first is none.
    pub fn rates(&self) -> &[EncodingRates] {
        &self.rates
    }

    /// Which of the rates is the one to be used, if there is no choice.
    pub(crate) fn pinned(&self) -> Option<usize> {
        self.only
    }

    /// A hash of all that plans depend on.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_codec::ALL;

    #[test]
    fn learning_goes_to_what_is_measured_and_keeps_what_is_not() {
        let mut expected = Expected { compress: 1e9, decompress: 2e9, ratio: 4.0 };
        let measured = Expected { compress: 1e8, decompress: f64::NAN, ratio: 1.0 };
        assert_eq!(expected.learn(&measured, 0.5).ratio, 2.0);
        for _ in 0..50 {
            expected = expected.learn(&measured, 0.3);
        }
        assert!((expected.compress - 1e8).abs() < 1e3 && (expected.ratio - 1.0).abs() < 1e-5);
        assert_eq!(expected.decompress, 2e9);
    }

    #[test]
    fn what_hardly_differs_makes_no_plan_anew() {
        let of =
            |compress, ratio| Costs::new(ALL[1..3].iter().map(|e| (*e, Expected { compress, decompress: 1e9, ratio })));
        let before = of(1e9, 2.0);
        assert_eq!(of(1.08e9, 2.01).steady(&before).fingerprint(), before.fingerprint());
        let (slower, denser) = (of(0.8e9, 2.0), of(1e9, 2.1));
        assert_eq!(slower.clone().steady(&before).fingerprint(), slower.fingerprint());
        assert_eq!(denser.clone().steady(&before).fingerprint(), denser.fingerprint());
    }

    #[test]
    fn what_does_not_shrink_or_has_no_speed_is_left_out() {
        let of = |ratio, compress| Costs::new([(ALL[1], Expected { compress, decompress: 1e9, ratio })]).rates().len();
        assert_eq!([of(2.0, 1e9), of(0.99, 1e9), of(2.0, 0.0), of(f64::NAN, 1e9)], [2, 1, 1, 1]);
    }
}
