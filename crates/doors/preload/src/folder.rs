//! The current directory, if it is below the prefix.
//!
//! The kernel's current directory is then one in the store's own directory that has the same path. So a started program finds where it is,
//! and a relative path that no call of ours sees leads into an empty directory.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix_futex_sync::{RwLock, RwLockWriteGuard};
use terrace_prefix::folders::{self, SHADOW_FOLDER, ShadowFolder};

use crate::errors::{CallResult, ErrorNumber, of_kernel, refuse};
use crate::inside::Inside;
use crate::{real, settings};

/// The kernel's words behind the path of a current directory that was removed.
const REMOVED_SUFFIX: &[u8] = b" (deleted)";

/// Whether `CURRENT_FOLDER` has one, without a lock. Relaxed: the folder itself is read under the lock, and a program that orders the calls of
/// its threads orders these, too.
static IS_BELOW: AtomicBool = AtomicBool::new(false);
/// A leaf, held for a copy or a replacement; and while this process forks.
static CURRENT_FOLDER: RwLock<Option<CurrentFolder>> = RwLock::new(None);
/// The first directory that a process enters removes those that ended processes have left.
static SWEPT_ONCE: Once = Once::new();

/// A current directory below the prefix.
pub struct CurrentFolder {
    /// The path below the prefix.
    path: Vec<u8>,
    /// Dropped when the process goes elsewhere.
    _shadow: ShadowFolder,
}

/// Whether the current directory is below the prefix.
#[inline]
pub fn is_below() -> bool {
    IS_BELOW.load(Ordering::Relaxed)
}

/// Returns the current directory's path below the prefix, if it is there.
pub fn get() -> Option<Vec<u8>> {
    if is_below() { CURRENT_FOLDER.read().as_ref().map(|folder| folder.path.clone()) } else { None }
}

/// Locks the current directory while the process forks.
pub fn lock() -> RwLockWriteGuard<'static, Option<CurrentFolder>> {
    CURRENT_FOLDER.write()
}

fn set(folder: Option<CurrentFolder>) {
    let mut current = lock();
    IS_BELOW.store(folder.is_some(), Ordering::Relaxed);
    let before = std::mem::replace(&mut *current, folder);
    drop(current);
    // It may be removed now, by the engine's calls.
    let _inside = Inside::enter();
    drop(before);
}

fn shadow(path: &[u8]) -> Option<PathBuf> {
    Some(settings::store_dir()?.join(SHADOW_FOLDER).join(OsStr::from_bytes(path)))
}

/// Notes that the kernel's current directory is an ordinary one.
pub fn leave() {
    if is_below() {
        set(None);
    }
}

/// Makes the directory that stands for one of the store. Returns its path, too.
pub fn stand_in(path: &[u8]) -> CallResult<(ShadowFolder, CString)> {
    let (Some(store), Some(shadow)) = (settings::store_dir(), shadow(path)) else { return refuse(libc::ENXIO) };
    // A directory that cannot be removed is in nobody's way.
    SWEPT_ONCE.call_once(|| drop(folders::sweep(&store)));
    let failed = |error: std::io::Error| ErrorNumber(error.raw_os_error().unwrap_or(libc::EIO));
    let shadow = ShadowFolder::enter(shadow).map_err(failed)?;
    let name = CString::new(shadow.path().as_os_str().as_bytes()).map_err(|_| ErrorNumber(libc::EINVAL))?;
    Ok((shadow, name))
}

/// Makes a directory of the store the current one.
pub fn enter(path: Vec<u8>) -> CallResult<()> {
    let (shadow, name) = stand_in(&path)?;
    // SAFETY: the path ends with a zero byte.
    of_kernel(unsafe { real::chdir(name.as_ptr()) })?;
    set(Some(CurrentFolder { path, _shadow: shadow }));
    Ok(())
}

/// Finds the current directory that this process inherited.
pub fn inherit() {
    let Some(path) = inherited_path() else { return };
    // Where the process is not served, it is in an empty directory.
    let _ = enter(path);
}

/// Returns the path below the prefix of the directory that this process inherited.
fn inherited_path() -> Option<Vec<u8>> {
    let here = std::fs::read_link("/proc/self/cwd").ok()?.into_os_string().into_encoded_bytes();
    if !here.windows(SHADOW_FOLDER.len()).any(|part| part == SHADOW_FOLDER.as_bytes()) {
        return None;
    }
    let root = shadow(b"").map(|root| root.canonicalize().unwrap_or(root))?;
    let here = PathBuf::from(OsString::from_vec(here));
    // The process before this one may have gone elsewhere, and removed it.
    let removed = here.as_os_str().as_bytes().strip_suffix(REMOVED_SUFFIX).filter(|_| !here.exists());
    let below = removed.map_or(here.as_path(), |path| Path::new(OsStr::from_bytes(path))).strip_prefix(root).ok()?;
    Some(below.as_os_str().as_bytes().to_vec())
}
