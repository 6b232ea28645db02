//! Files and directories with random names.

use std::ffi::{CStr, c_char, c_int};

use libc::FILE;

use crate::calls::{descriptors, names, open, stdio, twins};
use crate::paths::{LastLink, Route, find};
use crate::real;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mkdtemp(template: *mut c_char) -> *mut c_char {
    // SAFETY: the caller gives a path that ends with six X.
    unsafe {
        with_random_name(template, 0, |path| names::mkdir(path, 0o700)).map_or(std::ptr::null_mut(), |_| template)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
    let flags = flags & !libc::O_ACCMODE | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    // SAFETY: as above.
    unsafe { with_random_name(template, suffix, |path| open::open(path, flags, 0o600)).unwrap_or(-1) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mkostemp(template: *mut c_char, flags: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { mkostemps(template, 0, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mkstemps(template: *mut c_char, suffix: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { mkostemps(template, suffix, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mkstemp(template: *mut c_char) -> c_int {
    // SAFETY: as above.
    unsafe { mkostemps(template, 0, 0) }
}

/// The C library makes the file by calls of its own, in `/tmp`: it is made here if that is below the prefix.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tmpfile() -> *mut FILE {
    let mut template = *b"/tmp/tmpfXXXXXX\0";
    let path = template.as_mut_ptr().cast::<c_char>();
    // SAFETY: the template ends with six X and a zero byte.
    unsafe {
        if !matches!(find(libc::AT_FDCWD, path, LastLink::Follow), Ok(Some(Route::Below(..)))) {
            return real::tmpfile();
        }
        let fd = mkostemp(path, 0);
        if fd < 0 {
            return std::ptr::null_mut();
        }
        // It lives until it is closed.
        names::unlinkat(libc::AT_FDCWD, path, 0);
        let stream = stdio::fdopen(fd, c"w+".as_ptr());
        if stream.is_null() {
            descriptors::close(fd);
        }
        stream
    }
}

/// Replaces the six X of a template by random letters until `make` finds a free name.
unsafe fn with_random_name(
    template: *mut c_char,
    suffix: c_int,
    make: impl Fn(*const c_char) -> c_int,
) -> Option<c_int> {
    const RANDOM_LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    // SAFETY: the caller gives a template that it lets us change.
    unsafe {
        let length = CStr::from_ptr(template).to_bytes().len();
        let start = length.checked_sub(6 + suffix.max(0) as usize);
        let Some(letters) = start.map(|start| std::slice::from_raw_parts_mut(template.cast::<u8>().add(start), 6))
        else {
            return give_none(libc::EINVAL);
        };
        if letters != b"XXXXXX" {
            return give_none(libc::EINVAL);
        }
        loop {
            let mut random = [0u8; 6];
            if libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) != 6 {
                return give_none(libc::EIO);
            }
            for (letter, random) in letters.iter_mut().zip(random) {
                *letter = RANDOM_LETTERS[usize::from(random % 64)];
            }
            match make(template) {
                -1 if crate::errors::error_number() == libc::EEXIST => {}
                -1 => return None,
                made => return Some(made),
            }
        }
    }
}

/// Fails with an error number.
fn give_none<T>(number: c_int) -> Option<T> {
    crate::errors::set_error_number(number);
    None
}

twins! {
    mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int: mkostemps64;
    mkostemp(template: *mut c_char, flags: c_int) -> c_int: mkostemp64;
    mkstemps(template: *mut c_char, suffix: c_int) -> c_int: mkstemps64;
    mkstemp(template: *mut c_char) -> c_int: mkstemp64;
    tmpfile() -> *mut FILE: tmpfile64;
}
