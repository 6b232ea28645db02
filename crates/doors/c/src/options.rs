//! Requirements for a store or a call.

use std::ffi::c_char;
use std::mem::{MaybeUninit, offset_of};
use std::ptr;

use engine::{Ack, Asked, Element, PutOptions};
use terrace_codec::Encoding;

use crate::Failure;
use terrace_foreign::{parsed, text};

/// Requirements. In `terrace_open` they apply to the application; in a call they apply to that operation and take
/// precedence. Zeros leave everything to the store's rules.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    /// Requirements by name, such as `"min_read_latency,max_durability=4"`; or null.
    pub requirements: *const c_char,
    /// The state that a write waits for: `"placed"`, `"replicated"` or `"durable"`; or null.
    pub ack: *const c_char,
    /// The weights for choosing encodings: `"compress,decompress,ratio"` or a preset's name; or null.
    pub weights: *const c_char,
    /// The maximum of stored bytes for each given byte, such as `"3x"`; or null.
    pub budget: *const c_char,
    /// The type of the elements, such as `"f64"`; or null.
    pub element: *const c_char,
    /// The number of replicas; or 0.
    pub replicas: u8,
    /// `sizeof(terrace_options)`, if the program sets any of the fields below. They count only with it, because programs that were
    /// compiled before they existed pass a shorter structure.
    pub size: u32,
    /// The highest latency, in seconds, of the target that holds the first replica; or 0.
    pub max_latency: f64,
    /// The only tiers to use, such as `"ram+disk"`; or null.
    pub tiers: *const c_char,
}

/// The length of the first version of the structure. `size` was padding in it.
const FIRST_SIZE: usize = offset_of!(Options, max_latency);
/// A longer structure is none: its `size` is padding that nobody has set.
const MAX_SIZE: usize = 4096;

/// Returns the element type that encodings have under this name.
fn element(name: &str) -> Result<Element, Failure> {
    name.parse().map_err(|error| Failure::Invalid(format!("element: {error}")))
}

pub(crate) fn encoding(name: &str) -> Result<Encoding, Failure> {
    name.parse().map_err(|error| Failure::Invalid(format!("encoding: {error}")))
}

pub(crate) fn ack(name: &str) -> Result<Ack, Failure> {
    name.parse().map_err(|error| Failure::Invalid(format!("ack: {error}")))
}

impl Options {
    /// Checks and parses the fields.
    fn parse(&self) -> Result<PutOptions, Failure> {
        let requirements = text(self.requirements, "requirements")?.unwrap_or_default();
        let wrong = |error| Failure::Invalid(format!("requirements: {error}"));
        let requirements = Asked::parse_all(requirements).map_err(wrong)?;
        Ok(PutOptions {
            requirements,
            replicas: (self.replicas > 0).then_some(self.replicas),
            ack: text(self.ack, "ack")?.map(ack).transpose()?,
            weights: parsed(self.weights, "weights")?,
            budget: parsed(self.budget, "budget")?,
            element: text(self.element, "element")?.map(element).transpose()?,
            max_latency: (self.max_latency != 0.0).then_some(self.max_latency),
            tiers: text(self.tiers, "tiers")?.map(|names| names.split('+').map(str::to_owned).collect()),
            ..PutOptions::default()
        })
    }
}

/// Returns the options at a caller's pointer; the defaults for null.
pub(crate) fn put_options(options: *const Options) -> Result<PutOptions, Failure> {
    if options.is_null() {
        return Ok(PutOptions::default());
    }
    let asked = copy_options(options)?.parse()?;
    asked.check().map_err(|error| Failure::Invalid(error.to_string()))?;
    Ok(asked)
}

/// Copies the options of a caller that may know fewer fields than this library, or more.
fn copy_options(options: *const Options) -> Result<Options, Failure> {
    // SAFETY: `size` lies within the shortest structure that a caller can pass, where it was padding. No reference to the whole is made,
    // because a short structure ends before `max_latency`.
    let told = unsafe { ptr::addr_of!((*options).size).read_unaligned() } as usize;
    let given = if (size_of::<Options>()..=MAX_SIZE).contains(&told) { told } else { FIRST_SIZE };
    let known = given.min(size_of::<Options>());
    let mut copy = MaybeUninit::<Options>::zeroed();
    // SAFETY: the caller's structure has `known` bytes, and the copy has at least as many.
    unsafe { ptr::copy_nonoverlapping(options.cast::<u8>(), copy.as_mut_ptr().cast::<u8>(), known) };
    // SAFETY: the caller's structure has `given` bytes.
    let unknown = unsafe { std::slice::from_raw_parts(options.cast::<u8>().add(known), given - known) };
    if unknown.iter().any(|byte| *byte != 0) {
        let reason =
            "the program was compiled with a newer terrace.h, and sets options that this library does not know";
        return Err(Failure::Invalid(format!("{reason}; install the newer library")));
    }
    // SAFETY: each field has the caller's value or zeros, and zeros are values of all fields.
    Ok(unsafe { copy.assume_init() })
}
