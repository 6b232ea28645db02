//! `dprintf` and `wprintf`, with their relatives, on files of the store: the C library formats into memory, and the text is written as by `write`
//! and `fputws`.
//!
//! C passes on a list of arguments by a pointer. A function with any number of arguments makes such a list of its registers, as
//! the system's interface of x86-64 says.

use std::arch::naked_asm;
use std::ffi::{c_char, c_int, c_void};
use std::slice;

use libc::{FILE, size_t, wchar_t};

use crate::calls::stdio::{has_bytes_only, standard_output};
use crate::calls::{bytes, wide};
use crate::{numbers, real};

unsafe extern "C" {
    fn __vasprintf_chk(out: *mut *mut c_char, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn open_wmemstream(out: *mut *mut wchar_t, length: *mut size_t) -> *mut FILE;
}

/// Writes all bytes, as the C library does.
unsafe fn write_all(fd: c_int, mut text: &[u8]) -> c_int {
    let length = text.len();
    while !text.is_empty() {
        // SAFETY: the bytes are alive.
        match unsafe { bytes::write(fd, text.as_ptr().cast(), text.len()) } {
            written @ 0.. => text = &text[written as usize..],
            _ => return -1,
        }
    }
    length as c_int
}

unsafe fn print_to(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
    let mut text = std::ptr::null_mut();
    // SAFETY: the caller gives a format and what it needs. The C library allocates the text.
    unsafe {
        let length = __vasprintf_chk(&mut text, flag, format, arguments);
        if length < 0 {
            return length;
        }
        let written = write_all(fd, slice::from_raw_parts(text.cast(), length as usize));
        libc::free(text.cast());
        written
    }
}

unsafe fn print_wide_to(stream: *mut FILE, flag: c_int, format: *const wchar_t, arguments: *mut c_void) -> c_int {
    let (mut text, mut length) = (std::ptr::null_mut(), 0);
    // SAFETY: the caller gives a format and what it needs. The C library allocates the text, and sets both when the memory's stream is closed.
    unsafe {
        let memory = open_wmemstream(&mut text, &mut length);
        if memory.is_null() {
            return -1;
        }
        let mut printed = real::__vfwprintf_chk(memory, flag, format, arguments);
        libc::fclose(memory);
        if printed >= 0 && wide::write_all(slice::from_raw_parts(text, length), stream) < 0 {
            printed = -1;
        }
        libc::free(text.cast());
        printed
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
    // SAFETY: the caller gives a format and what it needs.
    unsafe { if numbers::has(fd) { print_to(fd, 0, format, arguments) } else { real::vdprintf(fd, format, arguments) } }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __vdprintf_chk(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        match numbers::has(fd) {
            true => print_to(fd, flag, format, arguments),
            false => real::__vdprintf_chk(fd, flag, format, arguments),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vfwprintf(stream: *mut FILE, format: *const wchar_t, arguments: *mut c_void) -> c_int {
    // SAFETY: as above, and a stream.
    unsafe {
        match has_bytes_only(stream) {
            true => print_wide_to(stream, 0, format, arguments),
            false => real::vfwprintf(stream, format, arguments),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __vfwprintf_chk(
    stream: *mut FILE,
    flag: c_int,
    format: *const wchar_t,
    arguments: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        match has_bytes_only(stream) {
            true => print_wide_to(stream, flag, format, arguments),
            false => real::__vfwprintf_chk(stream, flag, format, arguments),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vwprintf(format: *const wchar_t, arguments: *mut c_void) -> c_int {
    // SAFETY: as above. The stream is the C library's, or its replacement.
    unsafe { vfwprintf(standard_output(), format, arguments) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __vwprintf_chk(flag: c_int, format: *const wchar_t, arguments: *mut c_void) -> c_int {
    // SAFETY: as above.
    unsafe { __vfwprintf_chk(standard_output(), flag, format, arguments) }
}

/// Exports a function with any number of arguments. It calls the one that takes them as a list, which is that function's argument in `$list`.
/// `$named` is the number of bytes of the registers of its named arguments.
macro_rules! with_any_arguments {
    ($($name:ident calls $listed:ident with $named:literal, $list:literal;)*) => { $(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name() {
            // Below the frame: 24 bytes of the list, then the 176 of the registers' values, 48 of these for whole numbers.
            // The frame's description lets a thread that is cancelled while it writes be unwound.
            naked_asm!(
                ".cfi_startproc",
                "push rbp",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset rbp, -16",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                "sub rsp, 208",
                "mov [rsp + 32], rdi",
                "mov [rsp + 40], rsi",
                "mov [rsp + 48], rdx",
                "mov [rsp + 56], rcx",
                "mov [rsp + 64], r8",
                "mov [rsp + 72], r9",
                "test al, al",
                "je 2f",
                "movaps [rsp + 80], xmm0",
                "movaps [rsp + 96], xmm1",
                "movaps [rsp + 112], xmm2",
                "movaps [rsp + 128], xmm3",
                "movaps [rsp + 144], xmm4",
                "movaps [rsp + 160], xmm5",
                "movaps [rsp + 176], xmm6",
                "movaps [rsp + 192], xmm7",
                "2:",
                concat!("mov dword ptr [rsp], ", $named),
                "mov dword ptr [rsp + 4], 48",
                "lea rax, [rbp + 16]",
                "mov [rsp + 8], rax",
                "lea rax, [rsp + 32]",
                "mov [rsp + 16], rax",
                concat!("mov ", $list, ", rsp"),
                "call {listed}",
                "leave",
                ".cfi_def_cfa rsp, 8",
                "ret",
                ".cfi_endproc",
                listed = sym $listed,
            )
        }
    )* };
}

with_any_arguments! {
    dprintf calls vdprintf with 16, "rdx";
    __dprintf_chk calls __vdprintf_chk with 24, "rcx";
    fwprintf calls vfwprintf with 16, "rdx";
    __fwprintf_chk calls __vfwprintf_chk with 24, "rcx";
    wprintf calls vwprintf with 8, "rsi";
    __wprintf_chk calls __vwprintf_chk with 16, "rdx";
}
