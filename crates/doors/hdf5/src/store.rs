//! The store, opened at the first touch of the prefix.

use std::ffi::{CStr, OsStr};
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix_futex_sync::Mutex;
use terrace::files::{FileError, FileResult};
use terrace::{Files, Store};
use terrace_prefix::route::{LastLink, Route, behind_prefix, resolve};
use terrace_prefix::{access, settings};
use terrace_system::fork;

use crate::failure::{DriverError, DriverResult, complain};

/// A variable that only the preload library has, in whose presence it serves all paths below the prefix.
const PRELOAD_MARK: &CStr = c"TERRACE_PRELOAD_SERVES";

/// The permissions of new folders, before the mask.
const NEW_FOLDER_MODE: u32 = 0o777;

/// The store in this process, and how often the process that opened it was forked from another. Held under `fork::hold` only, so that a
/// forked process finds it free.
static STORE_HERE: Mutex<Option<(Files, u32)>> = Mutex::new(None);

/// Returns the store. Opens it if this process has not.
pub fn get() -> DriverResult<Files> {
    let _held = fork::hold();
    let mut here = STORE_HERE.lock();
    match here.take() {
        Some((files, forks)) if forks == fork::count() => {
            *here = Some((files.clone(), forks));
            return Ok(files);
        }
        // The parent's engine: its threads are not here, and its locks may be held by them.
        Some(inherited) => mem::forget(inherited),
        None => {}
    }
    let Some(dir) = settings::store_dir() else {
        return Err(DriverError::new(libc::ENXIO, "TERRACE_STORE names no store"));
    };
    let open = || -> FileResult<Files> { Files::new(&Store::open(&dir)?) };
    let files = open()?;
    *here = Some((files.clone(), fork::count()));
    Ok(files)
}

/// Returns where a path leads, if it begins below the prefix.
pub fn find(name: &CStr) -> DriverResult<Option<(Files, Route)>> {
    if settings::prefix().is_empty() {
        complain_about_settings();
        return Ok(None);
    }
    if is_served_otherwise() {
        return Ok(None);
    }
    let path = absolute(name)?;
    let Some(rest) = behind_prefix(settings::prefix(), &path) else { return Ok(None) };
    let files = get()?;
    let route = resolve(&files, settings::prefix(), Vec::new(), rest, LastLink::Follow)?;
    Ok(Some((files, route)))
}

/// Makes the folders that a path below the prefix names before its last name.
pub fn make_folders_of(name: &CStr) -> DriverResult<()> {
    let path = absolute(name)?;
    let Some(rest) = behind_prefix(settings::prefix(), &path) else { return Ok(()) };
    let files = get()?;
    let mut names = rest.split(|&byte| byte == b'/').filter(|name| !matches!(*name, b"" | b".")).peekable();
    let mut folder = Vec::new();
    while let Some(name) = names.next()
        && names.peek().is_some()
    {
        folder.extend_from_slice(name);
        match files.make_directory(&folder, NEW_FOLDER_MODE & !access::mask(), access::caller()) {
            Ok(()) | Err(FileError::Exists(_)) => folder.push(b'/'),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn absolute(name: &CStr) -> DriverResult<Vec<u8>> {
    let path = path::absolute(OsStr::from_bytes(name.to_bytes()))?;
    Ok(path.into_os_string().into_encoded_bytes())
}

/// Says once why no file is the store's, though the program asks for this driver.
fn complain_about_settings() {
    // Relaxed: the swap alone lets one caller through.
    static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);
    if HAS_COMPLAINED.swap(true, Ordering::Relaxed) {
        return;
    }
    match settings::is_refused() {
        true => complain(settings::REFUSAL_ADVICE),
        false => complain("TERRACE_PREFIX is not set, so no file is a store's; set it and TERRACE_STORE"),
    }
}

/// Whether the preload library serves this process. Only one of both may have the store open.
fn is_served_otherwise() -> bool {
    // SAFETY: it only looks the name up.
    !unsafe { libc::dlsym(libc::RTLD_DEFAULT, PRELOAD_MARK.as_ptr()) }.is_null()
}
