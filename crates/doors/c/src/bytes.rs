//! Compression without a store (HCompress).
//!
//! The result begins with 24 bytes: `TRC1`, the encoding (transform, element, codec, level), the raw length and the
//! XXH3 of the raw bytes, little-endian.

use std::cell::RefCell;
use std::ffi::{c_char, c_void};

use terrace_codec::{Encoding, Scratch, decode};
use terrace_cost::{Objective, TargetRates};
use terrace_predict::{Choice, Predictor, Stream};
use xxhash_rust::xxh3::xxh3_64;

use crate::failure::guard;
use crate::options::encoding;
use crate::{Failure, Status};
use terrace_foreign::{caller_buffer, caller_bytes, text, write_out};

const COMPRESSED_MAGIC: &[u8; 4] = b"TRC1";
const HEADER_BYTES: usize = 24;
/// The longest input: the codecs count in 32 bits.
const MAX_RAW_BYTES: usize = 1 << 30;

/// The cost assumptions for bytes compressed without a store: written to a disk, and read once.
fn disk_objective() -> Objective {
    Objective::time(TargetRates::from_speeds(200e6, 200e6, 5e-3), 1.0)
}

thread_local! {
    static CODEC_SCRATCH: RefCell<Scratch> = RefCell::default();
    static SHARED_PREDICTOR: RefCell<Option<Predictor>> = const { RefCell::new(None) };
}

/// Returns the largest number of bytes that `terrace_compress` can make of `length` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_compressed_most(length: usize) -> usize {
    length.saturating_add(HEADER_BYTES)
}

/// Compresses at most one gibibyte into `out`; `made` gets the number of bytes. `encoding` is a name such as
/// `"shuffle4+zstd-1"`; if it is null, an encoding is chosen for the bytes. Bytes that do not shrink are stored raw.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_compress(
    encoding: *const c_char,
    bytes: *const c_void,
    length: usize,
    out: *mut c_void,
    capacity: usize,
    made: *mut usize,
) -> Status {
    guard(|| {
        let (raw, out) = (caller_bytes(bytes, length)?, caller_buffer(out, capacity)?);
        check_length(length)?;
        let wanted = text(encoding, "the encoding")?.map(self::encoding).transpose()?;
        let wanted = wanted.unwrap_or_else(|| choose(raw, &disk_objective()).encoding);
        let packed = Packed::of(wanted, raw)?;
        packed.write_to(raw, out, made)
    })
}

/// Encoded bytes.
pub(crate) struct Packed {
    /// Their encoding: none, if they did not shrink.
    pub encoding: Encoding,
    /// Empty, if they did not shrink.
    stored: Vec<u8>,
    /// The length with the header.
    pub length: usize,
}

impl Packed {
    /// Encodes bytes.
    pub fn of(wanted: Encoding, raw: &[u8]) -> Result<Packed, Failure> {
        let mut stored = Vec::new();
        let shrunk = CODEC_SCRATCH.with_borrow_mut(|scratch| terrace_codec::encode(wanted, raw, &mut stored, scratch));
        let shrunk = shrunk.map_err(|error| Failure::Internal(error.to_string()))?;
        let encoding = if shrunk.is_some() { wanted } else { Encoding::NONE };
        Ok(Packed { encoding, stored, length: HEADER_BYTES + shrunk.unwrap_or(raw.len()) })
    }

    /// Writes the header and the encoded bytes of `raw` to the caller's buffer.
    pub fn write_to(&self, raw: &[u8], out: &mut [u8], made: *mut usize) -> Result<(), Failure> {
        let (need, have) = (self.length, out.len());
        let target = out.get_mut(..need).ok_or(Failure::TooShort { need: need as u64, have })?;
        target[..4].copy_from_slice(COMPRESSED_MAGIC);
        target[4..8].copy_from_slice(&self.encoding.to_bytes());
        target[8..16].copy_from_slice(&(raw.len() as u64).to_le_bytes());
        target[16..24].copy_from_slice(&xxh3_64(raw).to_le_bytes());
        target[HEADER_BYTES..].copy_from_slice(if self.encoding == Encoding::NONE { raw } else { &self.stored });
        write_out(made, need);
        Ok(())
    }
}

/// Decompresses the result of `terrace_compress` into `out`; `made` gets the number of bytes. If `capacity` is too
/// small, the call returns `TERRACE_STATUS_TOO_SHORT`, and `made` gets the needed capacity.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_decompress(
    bytes: *const c_void,
    length: usize,
    out: *mut c_void,
    capacity: usize,
    made: *mut usize,
) -> Status {
    guard(|| {
        let (stored, out) = (caller_bytes(bytes, length)?, caller_buffer(out, capacity)?);
        let damaged = |reason: &str| Failure::Damaged(reason.to_owned());
        let (header, payload) =
            stored.split_at_checked(HEADER_BYTES).ok_or_else(|| damaged("the bytes are too few"))?;
        let number = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&header[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let names = [header[4], header[5], header[6], header[7]];
        let encoding = Encoding::from_bytes(names).map_err(|error| Failure::Damaged(error.to_string()))?;
        let need = number(8);
        if &header[..4] != COMPRESSED_MAGIC || need > MAX_RAW_BYTES as u64 {
            return Err(damaged("the bytes begin otherwise"));
        }
        write_out(made, need as usize);
        let have = out.len();
        let raw = out.get_mut(..need as usize).ok_or(Failure::TooShort { need, have })?;
        let decoded = CODEC_SCRATCH.with_borrow_mut(|scratch| decode(encoding, payload, raw, scratch));
        decoded.map_err(|error| Failure::Damaged(error.to_string()))?;
        match xxh3_64(raw) == number(16) {
            true => Ok(()),
            false => Err(damaged("the checksum is another")),
        }
    })
}

/// Refuses bytes that are too many for the codecs.
pub(crate) fn check_length(length: usize) -> Result<(), Failure> {
    let refused = || format!("{length} bytes are too many for one call; {MAX_RAW_BYTES} are the most");
    if length > MAX_RAW_BYTES { Err(Failure::Invalid(refused())) } else { Ok(()) }
}

/// Chooses the cheapest encoding for bytes like these. The thread's predictor remembers its measurements.
pub(crate) fn choose(raw: &[u8], objective: &Objective) -> Choice {
    SHARED_PREDICTOR.with_borrow_mut(|predictor| {
        let predictor = predictor.get_or_insert_default();
        let mut stream = Stream::new().with_length(raw.len() as u64);
        predictor.choose(&mut stream, raw, objective)
    })
}
