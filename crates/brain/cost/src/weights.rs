//! [`Weights`]: the importance of the parts of a replica's cost.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::NotUnderstood;

/// The weights of compression time (w_c), decompression time (w_d) and ratio (w_r); their sum is 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// w_c, the weight of the time to encode.
    pub compress: f64,
    /// w_d, the weight of the time to decode.
    pub decompress: f64,
    /// w_r, the weight of the saved bytes.
    pub ratio: f64,
}

impl Weights {
    /// Equal weights: the default.
    pub const EQUAL: Weights = Weights { compress: 1.0 / 3.0, decompress: 1.0 / 3.0, ratio: 1.0 / 3.0 };
    /// Only fast writes matter (HCompress Table II).
    pub const ASYNCHRONOUS: Weights = Weights { compress: 1.0, decompress: 0.0, ratio: 0.0 };
    /// Only space matters (HCompress Table II).
    pub const ARCHIVAL: Weights = Weights { compress: 0.0, decompress: 0.0, ratio: 1.0 };
    /// Written once, then read (HCompress Table II).
    pub const READ_AFTER_WRITE: Weights = Weights { compress: 0.3, decompress: 0.3, ratio: 0.4 };

    /// Makes weights from (w_c, w_d, w_r), divided by their sum. Returns `None` if one is negative or none is positive.
    pub fn new(compress: f64, decompress: f64, ratio: f64) -> Option<Weights> {
        let sum = compress + decompress + ratio;
        let valid = [compress, decompress, ratio].iter().all(|w| *w >= 0.0) && sum > 0.0 && sum.is_finite();
        valid.then(|| Weights { compress: compress / sum, decompress: decompress / sum, ratio: ratio / sum })
    }
}

impl FromStr for Weights {
    type Err = NotUnderstood;

    /// Parses a preset's name, or w_c, w_d and w_r with commas between.
    fn from_str(text: &str) -> Result<Weights, NotUnderstood> {
        match text.trim() {
            "asynchronous" => return Ok(Weights::ASYNCHRONOUS),
            "archival" => return Ok(Weights::ARCHIVAL),
            "read-after-write" => return Ok(Weights::READ_AFTER_WRITE),
            _ => {}
        }
        let numbers: Result<Vec<f64>, _> = text.split(',').map(|number| number.trim().parse()).collect();
        let weights = match numbers.as_deref() {
            Ok(&[compress, decompress, ratio]) => Weights::new(compress, decompress, ratio),
            _ => None,
        };
        let write = "\"asynchronous\", \"archival\", \"read-after-write\" or \"0.3,0.3,0.4\"";
        weights.ok_or_else(|| NotUnderstood::new(text, "set of weights", write))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_and_numbers_are_read_and_sum_to_one() {
        assert_eq!("archival".parse(), Ok(Weights { compress: 0.0, decompress: 0.0, ratio: 1.0 }));
        assert_eq!("1, 1, 2".parse(), Ok(Weights { compress: 0.25, decompress: 0.25, ratio: 0.5 }));
        for wrong in ["", "fast", "1,2", "0,0,0", "-1,1,1", "NaN,1,1", "inf,1,1"] {
            assert!(wrong.parse::<Weights>().expect_err(wrong).to_string().contains("archival"));
        }
    }
}
