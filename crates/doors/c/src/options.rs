//! Requirements for a store or a call.

use std::ffi::{CStr, c_char};
use std::str::FromStr;

use engine::{Ack, Asked, Element, PutOptions};
use terrace_codec::Encoding;

use crate::Failure;

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
}

/// Returns the text at a caller's pointer; `None` for null.
pub(crate) fn text<'a>(pointer: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller passes a string that ends with a NUL.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map(Some).map_err(|_| Failure::Invalid(format!("{what} is not UTF-8")))
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(pointer: *const c_char, what: &str) -> Result<Option<T>, Failure> {
    let wrong = |error: T::Err| Failure::Invalid(format!("{what}: {error}"));
    text(pointer, what)?.map(|text| text.parse().map_err(wrong)).transpose()
}

/// Returns the element type that encodings have under this name.
fn element(name: &str) -> Result<Element, Failure> {
    let known = Element::ALL.iter().copied().find(|element| element.name() == name);
    let names = || Element::ALL.iter().map(|element| element.name()).collect::<Vec<_>>().join(", ");
    known.ok_or_else(|| Failure::Invalid(format!("element: {name:?} is none of {}", names())))
}

pub(crate) fn encoding(name: &str) -> Result<Encoding, Failure> {
    name.parse().map_err(|error| Failure::Invalid(format!("encoding: {error}")))
}

pub(crate) fn ack(name: &str) -> Result<Ack, Failure> {
    name.parse().map_err(|error| Failure::Invalid(format!("ack: {error}")))
}

impl Options {
    fn understood(&self) -> Result<PutOptions, Failure> {
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
            ..PutOptions::default()
        })
    }
}

/// Returns the options at a caller's pointer; the defaults for null.
pub(crate) fn understood(options: *const Options) -> Result<PutOptions, Failure> {
    // SAFETY: the caller passes null or a valid pointer.
    unsafe { options.as_ref() }.map_or_else(|| Ok(PutOptions::default()), Options::understood)
}
