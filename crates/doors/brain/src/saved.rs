//! [`Saved`]: the learned state as bytes.
//!
//! They begin with `TRB1` and the XXH3 of the rest, little-endian. The rest is [`Saved`] in postcard's format.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::Failure;
use crate::storage::LearnedSpeeds;
use crate::streams::Memories;

const SAVED_MAGIC: &[u8; 4] = b"TRB1";
/// The length of the magic and of the checksum.
const HEADER_BYTES: usize = 12;

/// The learned state: of encodings, of streams and of tiers.
#[derive(Serialize, Deserialize)]
pub(crate) struct Saved {
    /// The predictor's model, as JSON.
    pub model: String,
    pub streams: Memories,
    pub tiers: Vec<LearnedSpeeds>,
}

impl Saved {
    /// Returns the bytes to save.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Failure> {
        let body = postcard::to_stdvec(self).map_err(|error| Failure::Internal(error.to_string()))?;
        Ok(add_header(&body))
    }

    /// Gives bytes the header that they need to be read.
    pub fn seal(bytes: &[u8]) -> Vec<u8> {
        add_header(bytes.get(HEADER_BYTES..).unwrap_or_default())
    }

    /// Reads saved bytes.
    pub fn of_bytes(bytes: &[u8]) -> Result<Saved, Failure> {
        let damaged = |reason: &str| Failure::Damaged(format!("{reason}; load what terrace_brain_save made"));
        let (magic, rest) = bytes.split_first_chunk().ok_or_else(|| damaged("the bytes are too few"))?;
        if magic != SAVED_MAGIC {
            return Err(damaged("the bytes begin otherwise"));
        }
        let (checksum, body) = rest.split_first_chunk().ok_or_else(|| damaged("the bytes are too few"))?;
        if u64::from_le_bytes(*checksum) != xxh3_64(body) {
            return Err(damaged("the checksum is another"));
        }
        postcard::from_bytes(body).map_err(|error| damaged(&error.to_string()))
    }
}

fn add_header(body: &[u8]) -> Vec<u8> {
    [SAVED_MAGIC.as_slice(), &xxh3_64(body).to_le_bytes(), body].concat()
}
