//! `posix_spawn`, and the actions that it carries out in the child before the program runs.

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::AsRawFd;

use libc::{pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};

use crate::answer::guard;
use crate::calls::prepared::{ChildPlace, PreparedActions, path_for_child};
use crate::calls::processes::{Program, load, script_arguments, search, share_all};
use crate::errors::ErrorNumber;
use crate::paths::Route;
use crate::real;

/// Runs a spawning function, which returns an error number, on a program that may be below the prefix. The child looks for it from `place`.
unsafe fn spawn(
    place: &ChildPlace,
    path: *const c_char,
    arguments: *const *mut c_char,
    run: impl Fn(*const c_char, *const *mut c_char) -> c_int,
) -> c_int {
    // SAFETY: the caller gives a path, and a list that ends with null.
    unsafe {
        match place.find(path) {
            Err(ErrorNumber(number)) => number,
            Ok(None) => run(path, arguments),
            Ok(Some(Route::Elsewhere(other))) => run(other.as_ptr(), arguments),
            Ok(Some(Route::Below(path, _))) => match guard(|| load(&path)) {
                Err(ErrorNumber(number)) => number,
                // This process has the copy open until the child runs it.
                Ok(Program::Copy(file)) => match path_for_child(file.as_raw_fd()) {
                    Err(ErrorNumber(number)) => number,
                    Ok(path) => run(path.as_ptr(), arguments),
                },
                Ok(Program::Script(interpreter, own)) => {
                    let all = script_arguments(&own, arguments.cast());
                    spawn(place, interpreter.as_ptr(), all.as_ptr().cast(), run)
                }
            },
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    // Dropped last: the pages of the files that are opened for the child are its own from then on.
    let _sharing = share_all();
    // SAFETY: the caller's arguments.
    unsafe {
        match PreparedActions::of(actions) {
            Err(ErrorNumber(number)) => number,
            Ok(prepared) => spawn(&prepared.place, path, arguments, |path, arguments| {
                real::posix_spawn(pid, path, prepared.actions(), attributes, arguments, environment)
            }),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    let _sharing = share_all();
    // SAFETY: the caller's arguments.
    unsafe {
        let found = if CStr::from_ptr(file).to_bytes().contains(&b'/') {
            Some(CStr::from_ptr(file).to_owned())
        } else {
            search(file)
        };
        if let Some(found) = found {
            return posix_spawn(pid, found.as_ptr(), actions, attributes, arguments, environment);
        }
        match PreparedActions::of(actions) {
            Err(ErrorNumber(number)) => number,
            Ok(prepared) => real::posix_spawnp(pid, file, prepared.actions(), attributes, arguments, environment),
        }
    }
}
