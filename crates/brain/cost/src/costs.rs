//! [`Costs`]: the expected cost of each encoding on the data to store.

use std::hash::{Hash, Hasher};

use terrace_codec::Encoding;

use crate::{Expected, nearest};

/// The unit of planning. Extents are multiples of it, except for the last extent of a request.
pub const PAGE_BYTES: u64 = 4096;

/// An encoding with its rates, for the planner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EncodingRates {
    /// The encoding.
    pub encoding: Encoding,
    /// Its effect on a byte. Times are rounded to steps of 5 %, the ratio is rounded down to whole percents, and is at
    /// least 1.
    pub expected: Expected,
    /// Bytes stored per page of [`PAGE_BYTES`] bytes.
    pub page: u32,
}

impl EncodingRates {
    const NONE: EncodingRates =
        EncodingRates { encoding: Encoding::NONE, expected: Expected::NONE, page: PAGE_BYTES as u32 };

    /// Returns `None` if the encoding stores more bytes than the raw bytes, or if a time is not a number.
    pub(crate) fn new(encoding: Encoding, expected: &Expected) -> Option<EncodingRates> {
        let ratio = (expected.ratio() * 100.0).floor() / 100.0;
        let is_valid = expected.is_sound() && expected.stored <= 1.0;
        is_valid.then(|| EncodingRates {
            encoding,
            expected: Expected {
                stored: 1.0 / ratio,
                encode: nearest(expected.encode),
                decode: nearest(expected.decode),
            },
            page: (PAGE_BYTES as f64 / ratio).ceil() as u32,
        })
    }

    fn hardly_differs(&self, other: &EncodingRates) -> bool {
        let near = |a: f64, b: f64, share: f64| (a - b).abs() <= share * b;
        near(self.expected.encode, other.expected.encode, 0.1)
            && near(self.expected.decode, other.expected.decode, 0.1)
            && near(self.expected.stored, other.expected.stored, 0.01)
    }
}

/// The encodings that a plan may use, with their expected costs. Raw storage is always one of them.
#[derive(Clone, Debug)]
pub struct Costs {
    rates: Vec<EncodingRates>,
    /// The index of the pinned encoding, if there is no choice.
    only: Option<usize>,
    fingerprint: u64,
}

impl Costs {
    /// Collects the expected costs of encodings. Encodings with a ratio below 1 are left out (HReplica Table II,
    /// constraint 4), and so are those past the first 255.
    pub fn new(expected: impl IntoIterator<Item = (Encoding, Expected)>) -> Costs {
        let others = expected.into_iter().filter(|(encoding, _)| *encoding != Encoding::NONE);
        let others = others.filter_map(|(encoding, expected)| EncodingRates::new(encoding, &expected));
        Costs::of(std::iter::once(EncodingRates::NONE).chain(others).take(256).collect(), None)
    }

    /// Pins all bytes that may be encoded to one encoding with this expected cost. If it does not shrink them, they are
    /// stored raw.
    pub fn only(encoding: Encoding, expected: &Expected) -> Costs {
        let of = EncodingRates::new(encoding, expected).filter(|_| encoding != Encoding::NONE);
        let rates: Vec<EncodingRates> = std::iter::once(EncodingRates::NONE).chain(of).collect();
        let last = rates.len() - 1;
        Costs::of(rates, Some(last))
    }

    fn of(rates: Vec<EncodingRates>, only: Option<usize>) -> Costs {
        let mut hasher = std::hash::DefaultHasher::new();
        only.hash(&mut hasher);
        for EncodingRates { encoding, expected: Expected { stored, encode, decode }, page } in &rates {
            (encoding, encode.to_bits(), decode.to_bits(), stored.to_bits(), page).hash(&mut hasher);
        }
        Costs { rates, only, fingerprint: hasher.finish() }
    }

    /// Keeps the values of `before` for encodings whose expected cost has hardly changed, so that remembered plans stay
    /// valid.
    pub fn steady(mut self, before: &Costs) -> Costs {
        for of in &mut self.rates {
            let known = before.rates.iter().find(|known| known.encoding == of.encoding);
            if let Some(known) = known.filter(|known| of.hardly_differs(known)) {
                *of = *known;
            }
        }
        Costs::of(self.rates, self.only)
    }

    /// Returns the rates of each encoding; the first one is raw storage.
    pub fn rates(&self) -> &[EncodingRates] {
        &self.rates
    }

    /// Returns the index of the pinned encoding, if there is no choice.
    pub fn pinned(&self) -> Option<usize> {
        self.only
    }

    /// Returns a hash of everything that plans depend on.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_codec::ALL_ENCODINGS;

    #[test]
    fn small_differences_change_no_plan() {
        let of = |compress, ratio| {
            Costs::new(ALL_ENCODINGS[1..3].iter().map(|e| (*e, Expected::from_speeds(compress, 1e9, ratio))))
        };
        let before = of(1e9, 2.0);
        assert_eq!(of(1.08e9, 2.01).steady(&before).fingerprint(), before.fingerprint());
        let (slower, denser) = (of(0.8e9, 2.0), of(1e9, 2.1));
        assert_eq!(slower.clone().steady(&before).fingerprint(), slower.fingerprint());
        assert_eq!(denser.clone().steady(&before).fingerprint(), denser.fingerprint());
    }

    #[test]
    fn encodings_without_gain_or_with_invalid_times_are_left_out() {
        let of = |ratio, compress| {
            Costs::new([(ALL_ENCODINGS[1], Expected::from_speeds(compress, 1e9, ratio))]).rates().len()
        };
        assert_eq!([of(2.0, 1e9), of(0.99, 1e9), of(2.0, 0.0), of(f64::NAN, 1e9)], [2, 1, 1, 1]);
    }
}
