//! The calls by which the C library gives the program memory that it has allocated itself. The program gets a copy in its own heap, which
//! checkpoints have.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::ptr;

use libc::{FILE, size_t, ssize_t};
use rustix_futex_sync::Mutex;

use super::behind::Behind;
use super::memory::free;
use crate::heap::PROGRAM_HEAP;
use crate::objects;

with_caller! {
    getenv("rsi") => get_variable;
    getcwd("rdx") => get_folder;
    realpath("rdx") => resolve_path;
    getline("rcx") => read_line;
    getdelim("r8") => read_to_delimiter;
    __getdelim("r8") => read_to_delimiter;
    vasprintf("rcx") => print_to_new;
}

/// The values of variables that the program has asked for, with their copies. A restart replaces the copies by those of the checkpoint.
static KEPT_VALUES: Mutex<BTreeMap<Vec<u8>, usize>> = Mutex::new(BTreeMap::new());

/// Forgets the copies of variables, which a restart has replaced.
pub fn forget_variables() {
    KEPT_VALUES.lock().clear();
}

/// Declares a function of the C library that ours continues with.
macro_rules! behind {
    ($name:literal as $kind:ty) => {{
        static FOUND_FUNCTION: Behind = Behind::new(concat!($name, "\0"));
        // SAFETY: the C library's function has this signature.
        unsafe { mem::transmute::<usize, $kind>(FOUND_FUNCTION.find()) }
    }};
}

extern "C" fn get_variable(name: *const c_char, caller: usize) -> *const c_char {
    let get = behind!("getenv" as unsafe extern "C" fn(*const c_char) -> *const c_char);
    // SAFETY: it gets what this function got.
    let value = unsafe { get(name) };
    if value.is_null() || !objects::is_program(caller) {
        return value;
    }
    // SAFETY: the C library returns a text, which stays until the program changes the environment.
    let text = unsafe { CStr::from_ptr(value) }.to_bytes_with_nul();
    let mut kept = KEPT_VALUES.lock();
    if let Some(copy) = kept.get(text) {
        return *copy as *const c_char;
    }
    let copy = PROGRAM_HEAP.allocate(1, text.len()).cast::<c_char>();
    if copy.is_null() {
        return value;
    }
    // SAFETY: the copy has this number of bytes.
    unsafe { ptr::copy_nonoverlapping(text.as_ptr().cast(), copy, text.len()) };
    kept.insert(text.to_vec(), copy as usize);
    copy
}

extern "C" fn get_folder(out: *mut c_char, size: size_t, caller: usize) -> *mut c_char {
    let get = behind!("getcwd" as unsafe extern "C" fn(*mut c_char, size_t) -> *mut c_char);
    // SAFETY: it gets what this function got.
    let path = unsafe { get(out, size) };
    if out.is_null() { adopt_text(path, caller) } else { path }
}

extern "C" fn resolve_path(path: *const c_char, out: *mut c_char, caller: usize) -> *mut c_char {
    type ResolvePath = unsafe extern "C" fn(*const c_char, *mut c_char) -> *mut c_char;
    let resolve = behind!("realpath" as ResolvePath);
    // SAFETY: it gets what this function got.
    let resolved = unsafe { resolve(path, out) };
    if out.is_null() { adopt_text(resolved, caller) } else { resolved }
}

extern "C" fn read_line(line: *mut *mut c_char, size: *mut size_t, file: *mut FILE, caller: usize) -> ssize_t {
    read_to_delimiter(line, size, c_int::from(b'\n'), file, caller)
}

extern "C" fn read_to_delimiter(
    line: *mut *mut c_char,
    size: *mut size_t,
    delimiter: c_int,
    file: *mut FILE,
    caller: usize,
) -> ssize_t {
    type ReadToDelimiter = unsafe extern "C" fn(*mut *mut c_char, *mut size_t, c_int, *mut FILE) -> ssize_t;
    let read = behind!("getdelim" as ReadToDelimiter);
    // SAFETY: it gets what this function got. Both places are valid unless the C library has refused them.
    unsafe {
        let length = read(line, size, delimiter, file);
        if !line.is_null() && !size.is_null() && !(*line).is_null() {
            *line = adopt((*line).cast(), *size, caller).cast();
        }
        length
    }
}

/// `arguments` is a `va_list`, which this function only passes on.
extern "C" fn print_to_new(
    out: *mut *mut c_char,
    format: *const c_char,
    arguments: *mut c_void,
    caller: usize,
) -> c_int {
    type PrintToNew = unsafe extern "C" fn(*mut *mut c_char, *const c_char, *mut c_void) -> c_int;
    let print = behind!("vasprintf" as PrintToNew);
    // SAFETY: it gets what this function got. Without an error, the place has a text.
    unsafe {
        let length = print(out, format, arguments);
        if length >= 0 {
            *out = adopt_text(*out, caller);
        }
        length
    }
}

fn adopt_text(text: *mut c_char, caller: usize) -> *mut c_char {
    if text.is_null() {
        return text;
    }
    // SAFETY: it is a text of the C library.
    let size = unsafe { libc::strlen(text) } + 1;
    adopt(text.cast(), size, caller).cast()
}

/// Moves a block of the C library into the program's heap, if the program is to have it.
fn adopt(block: *mut c_void, size: usize, caller: usize) -> *mut c_void {
    if PROGRAM_HEAP.has(block) || !objects::is_program(caller) {
        return block;
    }
    let own = PROGRAM_HEAP.allocate(1, size);
    if own.is_null() {
        return block;
    }
    // SAFETY: both blocks have at least this number of bytes, and nobody else has the one of the C library.
    unsafe {
        ptr::copy_nonoverlapping(block.cast::<u8>(), own.cast(), size);
        free(block);
    }
    own
}
