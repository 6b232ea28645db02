//! Values behind a caller's pointers.

use std::ffi::{CStr, CString, c_char, c_void};
use std::slice;
use std::str::FromStr;

use crate::BadArgument;

/// Returns the bytes of a caller's string.
pub fn string<'a>(pointer: *const c_char, what: &str) -> Result<&'a [u8], BadArgument> {
    if pointer.is_null() {
        return Err(BadArgument(format!("{what} is null")));
    }
    // SAFETY: the caller passes a string that ends with a NUL.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// Returns the text at a caller's pointer; `None` for null.
pub fn text<'a>(pointer: *const c_char, what: &str) -> Result<Option<&'a str>, BadArgument> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller passes a string that ends with a NUL.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map(Some).map_err(|_| BadArgument(format!("{what} is not UTF-8")))
}

/// Returns the text at a caller's pointer, which must not be null.
pub fn required_text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, BadArgument> {
    text(pointer, what)?.ok_or_else(|| BadArgument(format!("{what} is null")))
}

/// Parses the text at a caller's pointer; `None` for null.
pub fn parsed<T: FromStr<Err: std::fmt::Display>>(
    pointer: *const c_char,
    what: &str,
) -> Result<Option<T>, BadArgument> {
    let wrong = |error: T::Err| BadArgument(format!("{what}: {error}"));
    text(pointer, what)?.map(|text| text.parse().map_err(wrong)).transpose()
}

/// Returns a caller's bytes.
pub fn caller_bytes<'a>(bytes: *const c_void, length: usize) -> Result<&'a [u8], BadArgument> {
    match (bytes.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(BadArgument("the bytes are null".into())),
        (false, _) if isize::try_from(length).is_err() => Err(too_many(length)),
        // SAFETY: the caller passes a pointer to this number of bytes.
        (false, _) => Ok(unsafe { slice::from_raw_parts(bytes.cast(), length) }),
    }
}

/// Returns a caller's buffer.
pub fn caller_buffer<'a>(bytes: *mut c_void, length: usize) -> Result<&'a mut [u8], BadArgument> {
    match (bytes.is_null(), length) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(BadArgument("the buffer is null".into())),
        (false, _) if isize::try_from(length).is_err() => Err(too_many(length)),
        // SAFETY: the caller passes a pointer to this number of bytes, and no other code uses them during the call.
        (false, _) => Ok(unsafe { slice::from_raw_parts_mut(bytes.cast(), length) }),
    }
}

/// Returns a caller's array.
pub fn items<'a, T>(items: *const T, count: usize, what: &str) -> Result<&'a [T], BadArgument> {
    match (items.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(BadArgument(format!("{what} are null"))),
        (false, _) if count.checked_mul(size_of::<T>()).is_none_or(|bytes| isize::try_from(bytes).is_err()) => {
            Err(BadArgument(format!("{count} are more than any memory has; is the number negative?")))
        }
        (false, _) if !items.is_aligned() => Err(BadArgument(format!("{what} are not where such structures can be"))),
        // SAFETY: the caller passes a pointer to this number of items.
        (false, _) => Ok(unsafe { slice::from_raw_parts(items, count) }),
    }
}

fn too_many(length: usize) -> BadArgument {
    BadArgument(format!("{length} bytes are more than any memory has; is the length negative?"))
}

/// Writes a value to a caller's place, unless that is null.
pub fn write_out<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller passes null or a valid place for the value.
        unsafe { place.write(value) };
    }
}

/// Writes a text to a caller's place, which `terrace_free` frees.
pub fn write_out_text(place: *mut *mut c_char, text: String) -> Result<(), BadArgument> {
    if place.is_null() {
        return Err(BadArgument("the place for the answer is null".into()));
    }
    // A string of C ends with its first NUL.
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    write_out(place, text.into_raw());
    Ok(())
}
