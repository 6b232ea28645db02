//! The current directory, if it is below the prefix.
//!
//! The kernel's current directory is then one in the store's own directory that has the same path. So a started program finds where it is,
//! and a relative path that no call of ours sees leads into an empty directory.

use std::ffi::{CStr, CString};
use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix_futex_sync::{RwLock, RwLockWriteGuard};

use crate::errors::{CallResult, ErrorNumber, of_kernel, refuse};
use crate::{real, settings};

/// The folder in the store's directory whose directories stand for those below the prefix.
const SHADOW_FOLDER: &str = "preload/folders";

/// Whether `CURRENT_PATH` has a path, without a lock.
static IS_BELOW: AtomicBool = AtomicBool::new(false);
/// A leaf, held for a copy or a replacement; and while this process forks.
static CURRENT_PATH: RwLock<Option<Vec<u8>>> = RwLock::new(None);

/// Whether the current directory is below the prefix.
#[inline]
pub fn is_below() -> bool {
    IS_BELOW.load(Ordering::Relaxed)
}

/// Returns the current directory's path below the prefix, if it is there.
pub fn get() -> Option<Vec<u8>> {
    if is_below() { CURRENT_PATH.read().clone() } else { None }
}

/// Locks the path while the process forks.
pub fn lock() -> RwLockWriteGuard<'static, Option<Vec<u8>>> {
    CURRENT_PATH.write()
}

fn set(path: Option<Vec<u8>>) {
    let mut current = lock();
    IS_BELOW.store(path.is_some(), Ordering::Relaxed);
    *current = path;
}

fn shadow(path: &[u8]) -> Option<PathBuf> {
    Some(settings::store_dir()?.join(SHADOW_FOLDER).join(std::ffi::OsStr::from_bytes(path)))
}

/// Notes that the kernel's current directory is an ordinary one.
pub fn leave() {
    if is_below() {
        set(None);
    }
}

/// Makes a directory of the store the current one.
pub fn enter(path: Vec<u8>) -> CallResult<()> {
    let Some(shadow) = shadow(&path) else { return refuse(libc::ENXIO) };
    let failed = |error: std::io::Error| ErrorNumber(error.raw_os_error().unwrap_or(libc::EIO));
    DirBuilder::new().recursive(true).mode(0o700).create(&shadow).map_err(failed)?;
    let shadow = CString::new(shadow.into_os_string().into_encoded_bytes()).map_err(|_| ErrorNumber(libc::EINVAL))?;
    // SAFETY: the path ends with a zero byte.
    of_kernel(unsafe { real::chdir(shadow.as_ptr()) })?;
    set(Some(path));
    Ok(())
}

/// Finds the current directory that this process inherited.
pub fn inherit() {
    let mut bytes = [0u8; libc::PATH_MAX as usize];
    // SAFETY: the kernel writes a path with a zero byte into the buffer, or fails.
    if unsafe { libc::syscall(libc::SYS_getcwd, bytes.as_mut_ptr(), bytes.len()) } <= 0 {
        return;
    }
    let Ok(here) = CStr::from_bytes_until_nul(&bytes) else { return };
    if !here.to_bytes().windows(SHADOW_FOLDER.len()).any(|part| part == SHADOW_FOLDER.as_bytes()) {
        return;
    }
    let Some(root) = shadow(b"").map(|root| root.canonicalize().unwrap_or(root)) else { return };
    let mut root = root.into_os_string().into_encoded_bytes();
    while root.ends_with(b"/") {
        root.pop();
    }
    if let Some(rest) = here.to_bytes().strip_prefix(root.as_slice()) {
        match rest {
            [] => set(Some(Vec::new())),
            [b'/', path @ ..] => set(Some(path.to_vec())),
            _ => {}
        }
    }
}
