//! Extended attributes: an object's user pairs, as `user.NAME`.

use std::ffi::{CStr, c_char, c_int, c_void};

use libc::{size_t, ssize_t};
use terrace::files::{FileError, Presence};
use terrace_posix::{to_attribute_names, to_pair_name, to_presence};

use crate::answer::complain;
use crate::calls::by_descriptor;
use crate::errors::{CallResult, ErrorNumber, refuse};
use crate::paths::{LastLink, by_path};
use crate::pointers::{check, given, put_bytes};
use crate::{opened, real};

/// Copies an answer to a caller; if there is no room, only its length is told.
unsafe fn hand_out(bytes: &[u8], out: *mut c_void, size: size_t) -> CallResult<ssize_t> {
    if size > 0 {
        if bytes.len() > size {
            return refuse(libc::ERANGE);
        }
        // SAFETY: the caller gives `size` bytes of room.
        unsafe { put_bytes(bytes, out.cast())? };
    }
    Ok(bytes.len() as ssize_t)
}

/// Returns the name of the pair that an attribute stands for.
unsafe fn pair_name<'a>(name: *const c_char) -> CallResult<&'a str> {
    check(name, 1)?;
    // SAFETY: the caller gives a text.
    to_pair_name(unsafe { CStr::from_ptr(name) }.to_bytes()).ok_or(ErrorNumber(libc::EOPNOTSUPP))
}

unsafe fn get(path: &[u8], name: *const c_char, out: *mut c_void, size: size_t) -> CallResult<ssize_t> {
    // SAFETY: the caller gives a text, and room of this size.
    unsafe {
        let name = pair_name(name)?;
        let value = opened::get()?.files.pair(path, name)?;
        hand_out(value.as_bytes(), out, size)
    }
}

unsafe fn list(path: &[u8], out: *mut c_char, size: size_t) -> CallResult<ssize_t> {
    let names = to_attribute_names(opened::get()?.files.pairs(path)?);
    // SAFETY: the caller gives room of this size.
    unsafe { hand_out(&names, out.cast(), size) }
}

unsafe fn set(path: &[u8], name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> CallResult<c_int> {
    // SAFETY: the caller gives a text, and a value of this size.
    unsafe {
        let name = pair_name(name)?;
        let value = given(value.cast::<u8>(), size)?;
        let value = std::str::from_utf8(value).or(refuse(libc::EOPNOTSUPP))?;
        opened::get()?.files.set_pair(path, name, Some(value), to_presence(flags)).inspect_err(|error| {
            if matches!(error, FileError::NotUnderstood { .. }) {
                complain(&error.to_string());
            }
        })?;
    }
    Ok(0)
}

unsafe fn take(path: &[u8], name: *const c_char) -> CallResult<c_int> {
    // SAFETY: the caller gives a text.
    let name = unsafe { pair_name(name)? };
    opened::get()?.files.set_pair(path, name, None, Presence::There)?;
    Ok(0)
}

/// Exports the three forms of a call: by a path whose last link is followed or kept, and by a descriptor.
macro_rules! forms {
    ($below:ident($($argument:ident: $kind:ty),*) -> $result:ty: $follow:ident, $keep:ident, $open:ident;) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $follow(path: *const c_char, $($argument: $kind),*) -> $result {
            // SAFETY: the caller gives a path, and what the call needs.
            unsafe {
                let elsewhere = |_, path| real::$follow(path, $($argument),*);
                by_path(libc::AT_FDCWD, path, LastLink::Follow, elsewhere, |path, _| $below(path, $($argument),*))
            }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $keep(path: *const c_char, $($argument: $kind),*) -> $result {
            // SAFETY: as above.
            unsafe {
                let elsewhere = |_, path| real::$keep(path, $($argument),*);
                by_path(libc::AT_FDCWD, path, LastLink::Keep, elsewhere, |path, _| $below(path, $($argument),*))
            }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $open(fd: c_int, $($argument: $kind),*) -> $result {
            // SAFETY: as above.
            unsafe { by_descriptor(fd, || real::$open(fd, $($argument),*), |open| $below(&open.path(), $($argument),*)) }
        }
    };
}

forms! { get(name: *const c_char, out: *mut c_void, size: size_t) -> ssize_t: getxattr, lgetxattr, fgetxattr; }
forms! { list(out: *mut c_char, size: size_t) -> ssize_t: listxattr, llistxattr, flistxattr; }
forms! { set(name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> c_int: setxattr, lsetxattr, fsetxattr; }
forms! { take(name: *const c_char) -> c_int: removexattr, lremovexattr, fremovexattr; }
