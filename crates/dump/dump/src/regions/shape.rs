//! The description of regions, which is the first buffer of a checkpoint.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Error, Result, manifest};

/// How the ranks share the regions of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Split {
    /// Each region belongs to its rank alone; only as many ranks can restart.
    Own,
    /// All ranks have the same bytes, and any rank gets them.
    Same,
    /// The regions are parts of one array; this one begins at byte `start`. Any ranks get any parts.
    Part {
        /// The position of the region's first byte in the array.
        start: u64,
    },
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Split::Own => "each rank's own",
            Split::Same => "the same on all ranks",
            Split::Part { .. } => "parts of an array",
        })
    }
}

/// A region without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionShape {
    /// The region's number.
    pub number: u32,
    /// How the ranks share it.
    pub split: Split,
    /// Its length in bytes.
    pub length: u64,
}

/// Encodes the numbers of regions and, unless each belongs to its rank alone, their splits behind them. Earlier versions
/// read only the numbers.
pub fn encode_head(regions: impl Iterator<Item = (u32, Split)>) -> Result<Vec<u8>> {
    let (numbers, splits): (Vec<u32>, Vec<Split>) = regions.unzip();
    let mut head = manifest::encode(&numbers)?;
    if splits.iter().any(|split| *split != Split::Own) {
        head.extend(manifest::encode(&splits)?);
    }
    Ok(head)
}

/// Decodes the numbers and splits of regions.
pub fn decode_head(head: &[u8]) -> Result<Vec<(u32, Split)>> {
    let damaged = |error: &dyn fmt::Display| Error::damaged("the description of regions", error);
    let (numbers, rest): (Vec<u32>, _) = postcard::take_from_bytes(head).map_err(|error| damaged(&error))?;
    let splits: Vec<Split> = match rest.is_empty() {
        true => vec![Split::Own; numbers.len()],
        false => manifest::decode("the description of regions", rest)?,
    };
    match numbers.len() == splits.len() {
        true => Ok(numbers.into_iter().zip(splits).collect()),
        false => Err(damaged(&"it does not say of each region how it is split")),
    }
}
