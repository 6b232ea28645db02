//! `dlopen` of a library below the prefix: the C library loads a copy in memory.
//!
//! The C library looks from where it is called, to know the caller's search path for libraries. So this function does not call it, but
//! jumps there, with the return address of its own caller.

use std::ffi::{c_char, c_int, c_void};

use crate::answer::guard;
use crate::calls::processes;
use crate::errors::CallResult;
use crate::paths::{LastLink, Route, find};
use crate::{libraries, opened};

#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void {
    // Keeps `flags`, and the stack aligned for the calls.
    std::arch::naked_asm!(
        "push rsi",
        "call {choose}",
        "push rax",
        "sub rsp, 8",
        "call {real}",
        "add rsp, 8",
        "pop rdi",
        "pop rsi",
        "jmp rax",
        choose = sym choose,
        real = sym crate::real::dlopen_address,
    )
}

/// Returns the path that the C library opens: that of a copy for a library of the store. Where none can be made, the C library finds
/// nothing at the path, and says so.
extern "C" fn choose(path: *const c_char) -> *const c_char {
    // SAFETY: the caller of `dlopen` gives a path or null.
    let route = unsafe { find(libc::AT_FDCWD, path, LastLink::Follow) };
    match route {
        Ok(Some(Route::Below(below, Some(_)))) => guard(|| copy_of(&below)).unwrap_or(path),
        _ => path,
    }
}

/// Returns the path of a copy of a file. It is valid for ever.
fn copy_of(path: &[u8]) -> CallResult<*const c_char> {
    let stat = opened::get()?.files.stat(path)?;
    let version = (stat.id.unwrap_or_default(), stat.modified);
    let known = libraries::lock().name(version);
    if let Some(known) = known {
        return Ok(known);
    }
    let file = processes::copy(&processes::read_all(path, libc::R_OK)?)?;
    Ok(libraries::lock().add(version, file))
}
