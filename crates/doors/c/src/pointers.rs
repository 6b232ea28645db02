//! Values behind a caller's pointers. The library of the brain includes this file, too.

use std::ffi::{CStr, CString, c_char, c_void};
use std::slice;
use std::str::FromStr;

use crate::Failure;

/// Returns the bytes of a caller's string.
pub fn string<'a>(pointer: *const c_char, what: &str) -> Result<&'a [u8], Failure> {
    if pointer.is_null() {
        return Err(Failure::Invalid(format!("{what} is null")));
    }
    // SAFETY: the caller passes a string that ends with a NUL.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// Returns the text at a caller's pointer; `None` for null.
pub fn text<'a>(pointer: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller passes a string that ends with a NUL.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map(Some).map_err(|_| Failure::Invalid(format!("{what} is not UTF-8")))
}

/// Parses the text at a caller's pointer; `None` for null.
pub fn parsed<T: FromStr<Err: std::fmt::Display>>(pointer: *const c_char, what: &str) -> Result<Option<T>, Failure> {
    let wrong = |error: T::Err| Failure::Invalid(format!("{what}: {error}"));
    text(pointer, what)?.map(|text| text.parse().map_err(wrong)).transpose()
}

/// Returns a caller's bytes.
pub fn given<'a>(bytes: *const c_void, length: usize) -> Result<&'a [u8], Failure> {
    match (bytes.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::Invalid("the bytes are null".into())),
        (false, _) if isize::try_from(length).is_err() => Err(too_many(length)),
        // SAFETY: the caller passes a pointer to this number of bytes.
        (false, _) => Ok(unsafe { slice::from_raw_parts(bytes.cast(), length) }),
    }
}

/// Returns a caller's buffer.
pub fn room<'a>(bytes: *mut c_void, length: usize) -> Result<&'a mut [u8], Failure> {
    match (bytes.is_null(), length) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Failure::Invalid("the buffer is null".into())),
        (false, _) if isize::try_from(length).is_err() => Err(too_many(length)),
        // SAFETY: the caller passes a pointer to this number of bytes, and no other code uses them during the call.
        (false, _) => Ok(unsafe { slice::from_raw_parts_mut(bytes.cast(), length) }),
    }
}

/// Returns a caller's array.
pub fn items<'a, T>(items: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    match (items.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::Invalid(format!("{what} are null"))),
        (false, _) if count.checked_mul(size_of::<T>()).is_none_or(|bytes| isize::try_from(bytes).is_err()) => {
            Err(too_many(count))
        }
        (false, _) if !items.is_aligned() => {
            Err(Failure::Invalid(format!("{what} are not where such structures can be")))
        }
        // SAFETY: the caller passes a pointer to this number of items.
        (false, _) => Ok(unsafe { slice::from_raw_parts(items, count) }),
    }
}

fn too_many(length: usize) -> Failure {
    Failure::Invalid(format!("{length} bytes are more than any memory has; is the length negative?"))
}

/// Gives the caller a value, unless the place for it is null.
pub fn give<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller passes null or a valid place for the value.
        unsafe { place.write(value) };
    }
}

/// Gives the caller a text, which `terrace_free` frees.
pub fn give_text(place: *mut *mut c_char, text: String) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::Invalid("the place for the answer is null".into()));
    }
    let text = CString::new(text).map_err(|_| Failure::Internal("an answer has a NUL in it".into()))?;
    give(place, text.into_raw());
    Ok(())
}
