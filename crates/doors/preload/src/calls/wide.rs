//! Wide characters through streams of the store. The C library reads and writes such streams by bytes only: wide characters would end the program.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

use libc::{FILE, mbstate_t, size_t, wchar_t};

use crate::calls::stdio::{has_bytes_only, mark_failed, standard_input, standard_output};
use crate::calls::twins;
use crate::errors::set_error_number;
use crate::real;

/// `wint_t`: a wide character, or the end of a stream, or an error.
type WideAnswer = u32;
const WIDE_END: WideAnswer = WideAnswer::MAX;
/// The most bytes of a character, in any encoding.
const MAX_CHARACTER_BYTES: usize = 16;
/// The lengths by which a conversion says that it needs more bytes, or that they are no character.
const UNFINISHED_LENGTH: size_t = size_t::MAX - 1;
const INVALID_LENGTH: size_t = size_t::MAX;

unsafe extern "C" {
    fn flockfile(stream: *mut FILE);
    fn funlockfile(stream: *mut FILE);
    fn mbrtowc(out: *mut wchar_t, bytes: *const c_char, length: size_t, state: *mut mbstate_t) -> size_t;
    fn wcrtomb(out: *mut c_char, letter: wchar_t, state: *mut mbstate_t) -> size_t;
}

/// Lets no other thread of the program use a stream meanwhile.
unsafe fn alone<T>(stream: *mut FILE, run: impl FnOnce() -> T) -> T {
    // SAFETY: the caller gives a stream.
    unsafe {
        flockfile(stream);
        let done = run();
        funlockfile(stream);
        done
    }
}

unsafe fn fail(stream: *mut FILE) -> WideAnswer {
    set_error_number(libc::EILSEQ);
    // SAFETY: the caller gives a stream.
    unsafe { mark_failed(stream) };
    WIDE_END
}

/// Reads the bytes of a character.
unsafe fn read_one(stream: *mut FILE) -> WideAnswer {
    let mut bytes = [0 as c_char; MAX_CHARACTER_BYTES];
    for length in 1..=MAX_CHARACTER_BYTES {
        // SAFETY: the caller gives a stream. Zeros are the first state.
        let read = unsafe {
            match libc::fgetc(stream) {
                libc::EOF if length == 1 => return WIDE_END,
                libc::EOF => return fail(stream),
                byte => bytes[length - 1] = byte as c_char,
            }
            let mut letter: wchar_t = 0;
            let mut state = MaybeUninit::<mbstate_t>::zeroed();
            (mbrtowc(&mut letter, bytes.as_ptr(), length, state.as_mut_ptr()), letter)
        };
        match read {
            (UNFINISHED_LENGTH, _) => {}
            (INVALID_LENGTH, _) => break,
            (_, letter) => return letter as WideAnswer,
        }
    }
    // SAFETY: as above.
    unsafe { fail(stream) }
}

/// Returns the bytes of a character.
fn bytes_of(letter: wchar_t) -> Option<Vec<u8>> {
    let mut bytes = [0u8; MAX_CHARACTER_BYTES];
    let mut state = MaybeUninit::<mbstate_t>::zeroed();
    // SAFETY: there is room for any character. Zeros are the first state.
    let length = unsafe { wcrtomb(bytes.as_mut_ptr().cast(), letter, state.as_mut_ptr()) };
    bytes.get(..length).map(<[u8]>::to_vec)
}

unsafe fn write_one(letter: wchar_t, stream: *mut FILE) -> WideAnswer {
    // SAFETY: the caller gives a stream.
    unsafe {
        let Some(bytes) = bytes_of(letter) else { return fail(stream) };
        match libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stream) == bytes.len() {
            true => letter as WideAnswer,
            false => WIDE_END,
        }
    }
}

/// Writes all characters. Returns a number below 0 if that fails.
///
/// # Safety
/// The stream is valid.
pub unsafe fn write_all(text: &[wchar_t], stream: *mut FILE) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        alone(stream, || match text.iter().all(|letter| write_one(*letter, stream) != WIDE_END) {
            true => 1,
            false => libc::EOF,
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fgetwc(stream: *mut FILE) -> WideAnswer {
    // SAFETY: the caller gives a stream.
    unsafe { if has_bytes_only(stream) { alone(stream, || read_one(stream)) } else { real::fgetwc(stream) } }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getwchar() -> WideAnswer {
    // SAFETY: the stream is the C library's, or its replacement.
    unsafe { fgetwc(standard_input()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fgetws(out: *mut wchar_t, room: c_int, stream: *mut FILE) -> *mut wchar_t {
    // SAFETY: the caller gives a stream, and this much room.
    unsafe {
        if room < 1 || !has_bytes_only(stream) {
            return real::fgetws(out, room, stream);
        }
        alone(stream, || {
            let mut length = 0;
            while length < room as usize - 1 {
                match read_one(stream) {
                    WIDE_END if length == 0 || libc::ferror(stream) != 0 => return std::ptr::null_mut(),
                    WIDE_END => break,
                    letter => out.add(length).write(letter as wchar_t),
                }
                length += 1;
                if *out.add(length - 1) == wchar_t::from(b'\n') {
                    break;
                }
            }
            out.add(length).write(0);
            out
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __fgetws_chk(
    out: *mut wchar_t,
    size: size_t,
    room: c_int,
    stream: *mut FILE,
) -> *mut wchar_t {
    if usize::try_from(room).is_ok_and(|room| room > size) {
        std::process::abort();
    }
    // SAFETY: the buffer is long enough, which is checked.
    unsafe { fgetws(out, room, stream) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ungetwc(letter: WideAnswer, stream: *mut FILE) -> WideAnswer {
    // SAFETY: the caller gives a stream.
    unsafe {
        if letter == WIDE_END || !has_bytes_only(stream) {
            return real::ungetwc(letter, stream);
        }
        let Some(bytes) = bytes_of(letter as wchar_t) else { return fail(stream) };
        let back = |byte: &u8| libc::ungetc(c_int::from(*byte), stream) != libc::EOF;
        alone(stream, || if bytes.iter().rev().all(back) { letter } else { WIDE_END })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fputwc(letter: wchar_t, stream: *mut FILE) -> WideAnswer {
    // SAFETY: the caller gives a stream.
    unsafe { if has_bytes_only(stream) { write_one(letter, stream) } else { real::fputwc(letter, stream) } }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn putwchar(letter: wchar_t) -> WideAnswer {
    // SAFETY: the stream is the C library's, or its replacement.
    unsafe { fputwc(letter, standard_output()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fputws(text: *const wchar_t, stream: *mut FILE) -> c_int {
    // SAFETY: the caller gives a stream, and a text that ends with a zero.
    unsafe {
        if !has_bytes_only(stream) {
            return real::fputws(text, stream);
        }
        let mut length = 0;
        while *text.add(length) != 0 {
            length += 1;
        }
        write_all(std::slice::from_raw_parts(text, length), stream)
    }
}

twins! {
    fgetwc(stream: *mut FILE) -> WideAnswer: getwc, fgetwc_unlocked, getwc_unlocked;
    getwchar() -> WideAnswer: getwchar_unlocked;
    fgetws(out: *mut wchar_t, room: c_int, stream: *mut FILE) -> *mut wchar_t: fgetws_unlocked;
    __fgetws_chk(out: *mut wchar_t, size: size_t, room: c_int, stream: *mut FILE) -> *mut wchar_t: __fgetws_unlocked_chk;
    fputwc(letter: wchar_t, stream: *mut FILE) -> WideAnswer: putwc, fputwc_unlocked, putwc_unlocked;
    putwchar(letter: wchar_t) -> WideAnswer: putwchar_unlocked;
    fputws(text: *const wchar_t, stream: *mut FILE) -> c_int: fputws_unlocked;
}
