//! [`BrainOutcome`]: how writing or reading a piece went, as a C host tells it.

use std::ffi::c_char;

use terrace_codec::{Element, Encoding};

use crate::Failure;
use crate::encodings::{MAX_RAW_BYTES, encoding_of};
use terrace_foreign::{parsed, text};

/// A piece that was written or read, for `terrace_brain_report`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BrainOutcome {
    /// The key of the request; or null.
    pub key: *const c_char,
    /// The element of the request; or null.
    pub element: *const c_char,
    /// The number of the target.
    pub target: u32,
    /// The planned encoding, also if the bytes did not shrink and another one was used.
    pub encoding: u32,
    /// The number of bytes.
    pub length: u64,
    /// The number of stored bytes.
    pub stored: u64,
    /// The seconds that encoding or decoding took; or 0, if that was not measured.
    pub codec_seconds: f64,
    /// The seconds that writing or reading the stored bytes took; or 0, if that was not measured.
    pub target_seconds: f64,
    /// 0, if the piece was written: its stored bytes are taken from the target's free ones. 1, if it was read.
    pub was_read: u8,
}

/// A [`BrainOutcome`] whose values were checked.
pub(crate) struct Reported<'a> {
    pub key: &'a str,
    pub element: Option<Element>,
    pub target: usize,
    /// The planned encoding.
    pub encoding: Encoding,
    pub length: usize,
    pub stored: usize,
    pub is_write: bool,
    /// The time of the codec in seconds, if it was measured.
    pub codec_seconds: Option<f64>,
    /// The time of the target in seconds, if it was measured.
    pub target_seconds: Option<f64>,
}

impl Reported<'_> {
    /// Checks an outcome.
    pub fn new<'a>(outcome: &BrainOutcome) -> Result<Reported<'a>, Failure> {
        Ok(Reported {
            key: text(outcome.key, "the key")?.unwrap_or_default(),
            element: parsed(outcome.element, "element")?,
            target: outcome.target as usize,
            encoding: encoding_of(outcome.encoding)?,
            length: check_count(outcome.length, "length")?,
            stored: check_count(outcome.stored, "stored")?,
            is_write: outcome.was_read == 0,
            codec_seconds: check_seconds(outcome.codec_seconds, "codec_seconds")?,
            target_seconds: check_seconds(outcome.target_seconds, "target_seconds")?,
        })
    }
}

/// Refuses a number of bytes that no piece has.
fn check_count(count: u64, what: &str) -> Result<usize, Failure> {
    let refused = || Failure::Invalid(format!("{what}: {count} bytes are more than the {MAX_RAW_BYTES} of a piece"));
    usize::try_from(count).ok().filter(|count| *count <= MAX_RAW_BYTES).ok_or_else(refused)
}

/// Refuses a time that is none. Zero was not measured.
fn check_seconds(seconds: f64, what: &str) -> Result<Option<f64>, Failure> {
    if !(seconds >= 0.0 && seconds.is_finite()) {
        return Err(Failure::Invalid(format!("{what}: {seconds} is no time; give seconds, or 0 if it is not known")));
    }
    Ok((seconds > 0.0).then_some(seconds))
}
