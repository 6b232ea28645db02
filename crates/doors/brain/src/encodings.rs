//! Encoding and decoding of planned pieces.

use std::cell::RefCell;
use std::ffi::c_void;

use terrace_codec::{Encoding, Scratch, decode, encode};

use crate::Failure;
use crate::failure::{BrainStatus, guard};
use crate::piece::number_of;
use terrace_foreign::{caller_buffer, caller_bytes, write_out};

/// The longest piece: the codecs count in 32 bits.
pub(crate) const MAX_RAW_BYTES: usize = 1 << 30;

thread_local! {
    static CODEC_SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Encodes a piece into `out`, which has `capacity` bytes: `length` of them are always enough. `encoding` is the planned one, and gets the one that
/// was used: 0, if the bytes do not shrink and are copied as they are. `made` gets the number of bytes. The host keeps the encoding and both
/// lengths, and a checksum if it needs one.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_brain_encode(
    encoding: *mut u32,
    bytes: *const c_void,
    length: usize,
    out: *mut c_void,
    capacity: usize,
    made: *mut usize,
) -> BrainStatus {
    guard(|| {
        if encoding.is_null() || made.is_null() {
            return Err(Failure::Invalid("the place for the encoding or for the number of bytes is null".into()));
        }
        let (raw, out) = (caller_bytes(bytes, length)?, caller_buffer(out, capacity)?);
        check_length(length)?;
        // SAFETY: the caller passes a valid place with a number.
        let wanted = encoding_of(unsafe { encoding.read() })?;
        let mut stored = Vec::new();
        let shrunk = CODEC_SCRATCH.with_borrow_mut(|scratch| encode(wanted, raw, &mut stored, scratch));
        let shrunk = shrunk.map_err(|error| Failure::Internal(error.to_string()))?.is_some();
        let (used, encoded) = if shrunk { (wanted, stored.as_slice()) } else { (Encoding::NONE, raw) };
        let (need, have) = (encoded.len(), out.len());
        write_out(made, need);
        out.get_mut(..need).ok_or(Failure::TooShort { what: "bytes", need, have })?.copy_from_slice(encoded);
        write_out(encoding, number_of(used));
        Ok(())
    })
}

/// Decodes what `terrace_brain_encode` made, with the encoding that it used, into `out`, which gets exactly `length` bytes. Bytes that are damaged
/// are an error, or become other bytes: only a checksum of the host tells.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_brain_decode(
    encoding: u32,
    bytes: *const c_void,
    stored: usize,
    out: *mut c_void,
    length: usize,
) -> BrainStatus {
    guard(|| {
        let (stored, raw) = (caller_bytes(bytes, stored)?, caller_buffer(out, length)?);
        check_length(length)?;
        let encoding = encoding_of(encoding)?;
        let decoded = CODEC_SCRATCH.with_borrow_mut(|scratch| decode(encoding, stored, raw, scratch));
        decoded.map_err(|error| Failure::Damaged(error.to_string()))
    })
}

/// Refuses bytes that are too many for the codecs.
pub(crate) fn check_length(length: usize) -> Result<(), Failure> {
    let refused = || format!("{length} bytes are too many for one call; {MAX_RAW_BYTES} are the most");
    if length > MAX_RAW_BYTES { Err(Failure::Invalid(refused())) } else { Ok(()) }
}

/// Returns the encoding with this number.
pub(crate) fn encoding_of(number: u32) -> Result<Encoding, Failure> {
    let wrong = |error: terrace_codec::Error| Failure::Invalid(format!("the encoding {number}: {error}"));
    Encoding::from_bytes(number.to_le_bytes()).map_err(wrong)
}
