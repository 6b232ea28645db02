//! Pointers that programs pass: the kernel answers a call with one that leads nowhere by `EFAULT`.
//!
//! Only pointers that lead nowhere in any program are recognized, for a comparison each. To ask the kernel about the others takes as long as a third of a
//! `stat`; so they end the program, as in any function of the C library.

use std::slice;

use crate::errors::{CallResult, refuse};

/// No memory of a program is in the first page.
const MIN_ADDRESS: isize = 4096;

/// Whether a pointer leads nowhere: it is null or nearly, or in the kernel's half of the addresses.
#[inline]
pub fn is_wild<T>(at: *const T) -> bool {
    (at as isize) < MIN_ADDRESS
}

/// Refuses memory that is nowhere, or reaches out of a program's half of the addresses.
#[inline]
pub fn check<T>(at: *const T, count: usize) -> CallResult<()> {
    let end = (at as usize).saturating_add(count.saturating_mul(size_of::<T>()));
    if is_wild(at) || end > isize::MAX as usize { refuse(libc::EFAULT) } else { Ok(()) }
}

/// Hands an answer to the caller.
///
/// # Safety
/// The pointer leads to room for it, or nowhere.
#[inline]
pub unsafe fn put<T>(answer: T, at: *mut T) -> CallResult<()> {
    check(at, 1)?;
    // SAFETY: as the caller says.
    unsafe { at.write(answer) };
    Ok(())
}

/// Hands bytes to the caller.
///
/// # Safety
/// As [`put`].
pub unsafe fn put_bytes(bytes: &[u8], at: *mut u8) -> CallResult<()> {
    check(at, bytes.len())?;
    // SAFETY: as the caller says.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
    Ok(())
}

/// Takes values of the caller.
///
/// # Safety
/// The pointer leads to this number of values, which nobody changes meanwhile, or nowhere.
#[inline]
pub unsafe fn given<'a, T>(at: *const T, count: usize) -> CallResult<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    check(at, count)?;
    // SAFETY: as the caller says.
    Ok(unsafe { slice::from_raw_parts(at, count) })
}
