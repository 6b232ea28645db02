//! Processes: `fork`, `exec`, and the end.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io::Write;
use std::os::fd::AsRawFd;

use libc::{FILE, pid_t};
use terrace::Kind;

use crate::answer::{give, guard};
use crate::calls::{descriptors, stat};
use crate::errors::{CallResult, ErrorNumber, refuse};
use crate::note::Sharing;
use crate::paths::{LastLink, Route, find, shown};
use crate::pointers::is_wild;
use crate::{folder, forks, inside, numbers, opened, real, settings};

/// A list of texts that ends with null.
pub type Texts = *const *const c_char;

unsafe extern "C" {
    static environ: Texts;
}

/// The longest first line of a script, as in the kernel.
const MAX_SCRIPT_LINE_BYTES: usize = 256;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fork() -> pid_t {
    // SAFETY: `forks::fork` keeps this library's state valid in the child.
    forks::fork(|| unsafe { real::fork() })
}

/// A child of `vfork` shares its parent's memory, with the table of open files, but has descriptors of its own. So it becomes a fork.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vfork() -> pid_t {
    // SAFETY: as above.
    unsafe { fork() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn daemon(stays: c_int, keeps: c_int) -> c_int {
    // It returns in the child only.
    // SAFETY: as above.
    let done = forks::fork(|| unsafe { real::daemon(stays, keeps) });
    // The C library has changed these by calls of its own.
    if done == 0 && stays == 0 {
        folder::leave();
    }
    if done == 0 && keeps == 0 {
        for fd in 0..3 {
            descriptors::kernels(fd);
        }
    }
    done
}

/// Writes buffered bytes before another program starts, which may look for them, and which has this one's descriptors while the result
/// lives. Bytes that cannot be written stay buffered, and the file's next sync or close returns the error.
pub fn share_all() -> Sharing {
    if !inside::is_inside() {
        let _ = guard(opened::flush);
    }
    Sharing::begin()
}

/// A program below the prefix, as the kernel can run it.
pub enum Program {
    /// A copy of the file.
    Copy(std::fs::File),
    /// The script's interpreter, and the arguments before the script's own.
    Script(CString, Vec<CString>),
}

/// Reads a file that the caller may use so.
pub fn read_all(path: &[u8], wanted: c_int) -> CallResult<Vec<u8>> {
    let file = opened::get()?.files.open(path)?;
    stat::check_access(&file.stat()?, wanted)?;
    let mut bytes = vec![0; file.stat()?.length as usize];
    let length = file.read_at(0, &mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Reads a program of the store.
pub fn load(path: &[u8]) -> CallResult<Program> {
    let bytes = read_all(path, libc::X_OK)?;
    if let Some(line) = bytes.strip_prefix(b"#!") {
        let line =
            line[..line.len().min(MAX_SCRIPT_LINE_BYTES)].split(|&byte| byte == b'\n').next().unwrap_or_default();
        let text = |bytes: &[u8]| CString::new(bytes.trim_ascii()).or(refuse(libc::ENOEXEC));
        let line = line.trim_ascii();
        let (interpreter, option) = match line.iter().position(|byte| byte.is_ascii_whitespace()) {
            Some(at) => (text(&line[..at])?, Some(text(&line[at..])?)),
            None => (text(line)?, None),
        };
        let arguments = [Some(interpreter.clone()), option, Some(text(&shown(path))?)].into_iter().flatten().collect();
        return Ok(Program::Script(interpreter, arguments));
    }
    Ok(Program::Copy(copy(&bytes)?))
}

/// Makes a file in memory that holds all bytes.
pub fn copy(bytes: &[u8]) -> CallResult<std::fs::File> {
    let mut file = std::fs::File::from(numbers::memory_file(c"terrace-program", libc::MFD_EXEC)?);
    file.write_all(bytes).map_err(|error| ErrorNumber(error.raw_os_error().unwrap_or(libc::EIO)))?;
    Ok(file)
}

/// Returns the arguments of a script's interpreter: its own, then those of the script without its name.
pub unsafe fn script_arguments(own: &[CString], arguments: Texts) -> Vec<*const c_char> {
    let mut all: Vec<*const c_char> = own.iter().map(|text| text.as_ptr()).collect();
    // SAFETY: the caller gives a list that ends with null.
    unsafe {
        let mut next = if arguments.is_null() || (*arguments).is_null() { std::ptr::null() } else { arguments.add(1) };
        while !next.is_null() && !(*next).is_null() {
            all.push(*next);
            next = next.add(1);
        }
    }
    all.push(std::ptr::null());
    all
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execve(path: *const c_char, arguments: Texts, environment: Texts) -> c_int {
    let _sharing = share_all();
    // SAFETY: the caller gives a path, and lists that end with null.
    unsafe {
        match find(libc::AT_FDCWD, path, LastLink::Follow) {
            Err(error) => give(Err(error)),
            Ok(None) => real::execve(path, arguments, environment),
            Ok(Some(Route::Elsewhere(other))) => real::execve(other.as_ptr(), arguments, environment),
            Ok(Some(Route::Below(path, _))) => match guard(|| load(&path)) {
                Err(error) => give(Err(error)),
                Ok(Program::Copy(file)) => real::fexecve(file.as_raw_fd(), arguments, environment),
                Ok(Program::Script(interpreter, own)) => {
                    execve(interpreter.as_ptr(), script_arguments(&own, arguments).as_ptr(), environment)
                }
            },
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execv(path: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: as above.
    unsafe { execve(path, arguments, environ) }
}

/// Finds a program below the prefix by its name, if the search path leads there.
pub unsafe fn search(file: *const c_char) -> Option<CString> {
    // SAFETY: the caller gives a name.
    unsafe {
        let name = CStr::from_ptr(file).to_bytes();
        if settings::prefix().is_empty() || inside::is_inside() || name.is_empty() {
            return None;
        }
        if name.contains(&b'/') {
            let below = matches!(find(libc::AT_FDCWD, file, LastLink::Follow), Ok(Some(Route::Below(..))));
            return below.then(|| CStr::from_ptr(file).to_owned());
        }
        let path = libc::getenv(c"PATH".as_ptr());
        let path = if path.is_null() { b"".as_slice() } else { CStr::from_ptr(path).to_bytes() };
        for folder in path.split(|&byte| byte == b':') {
            let whole = CString::new([folder, b"/", name].concat()).ok()?;
            if stat::access(whole.as_ptr(), libc::X_OK) == 0 {
                return folder.starts_with(settings::prefix()).then_some(whole);
            }
        }
        None
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execvpe(file: *const c_char, arguments: Texts, environment: Texts) -> c_int {
    let _sharing = share_all();
    // SAFETY: the caller gives a name, and lists that end with null.
    unsafe {
        match search(file) {
            Some(found) => execve(found.as_ptr(), arguments, environment),
            None => real::execvpe(file, arguments, environment),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execvp(file: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: as above.
    unsafe { execvpe(file, arguments, environ) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fexecve(fd: c_int, arguments: Texts, environment: Texts) -> c_int {
    let _sharing = share_all();
    // SAFETY: the caller gives lists that end with null.
    unsafe {
        match crate::table::get(fd) {
            None => real::fexecve(fd, arguments, environment),
            Some(open) => match CString::new(shown(&open.path())) {
                Ok(path) => execve(path.as_ptr(), arguments, environment),
                Err(_) => give(refuse(libc::EINVAL)),
            },
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execveat(
    dir: c_int,
    path: *const c_char,
    arguments: Texts,
    environment: Texts,
    flags: c_int,
) -> c_int {
    let _sharing = share_all();
    // SAFETY: the caller gives a path, and lists that end with null.
    unsafe {
        if flags & libc::AT_EMPTY_PATH != 0 && numbers::has(dir) && !is_wild(path) && *path == 0 {
            return fexecve(dir, arguments, environment);
        }
        let last = if flags & libc::AT_SYMLINK_NOFOLLOW != 0 { LastLink::Keep } else { LastLink::Follow };
        match find(dir, path, last) {
            Err(error) => give(Err(error)),
            Ok(None) => real::execveat(dir, path, arguments, environment, flags),
            Ok(Some(Route::Elsewhere(other))) => {
                real::execveat(libc::AT_FDCWD, other.as_ptr(), arguments, environment, flags)
            }
            Ok(Some(Route::Below(_, Some(found)))) if found.kind == Kind::Symlink => give(refuse(libc::ELOOP)),
            Ok(Some(Route::Below(path, _))) => match CString::new(shown(&path)) {
                Ok(path) => execve(path.as_ptr(), arguments, environment),
                Err(_) => give(refuse(libc::EINVAL)),
            },
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn system(command: *const c_char) -> c_int {
    let _sharing = share_all();
    // SAFETY: the caller gives a text or null.
    unsafe { real::system(command) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
    let _sharing = share_all();
    // SAFETY: the caller gives two texts.
    unsafe { real::popen(command, mode) }
}

/// Ends the process without the handlers of `exit`, which would write what is buffered.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn _exit(status: c_int) -> ! {
    opened::end();
    loop {
        // SAFETY: it takes a number only, and does not return.
        unsafe { real::syscall(libc::SYS_exit_group, status.into(), 0, 0, 0, 0, 0) };
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn _Exit(status: c_int) -> ! {
    _exit(status)
}
