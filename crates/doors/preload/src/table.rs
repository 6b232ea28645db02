//! The table of this process's open files, by descriptor.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Arc;

use rustix_futex_sync::{RwLock, RwLockWriteGuard};

use crate::description::OpenDescription;
use crate::errors::{CallResult, refuse};
use crate::{numbers, real};

/// A leaf, held for a look-up or a change; and while this process forks, so that the child finds it unlocked and complete.
static OPEN_FILES: RwLock<OpenTable> = RwLock::new(OpenTable(BTreeMap::new()));

/// The open files.
pub struct OpenTable(BTreeMap<c_int, Arc<OpenDescription>>);

/// Returns the open file of a descriptor.
#[inline]
pub fn get(fd: c_int) -> Option<Arc<OpenDescription>> {
    if numbers::has(fd) { OPEN_FILES.read().0.get(&fd).cloned() } else { None }
}

/// Locks the table.
pub fn lock() -> RwLockWriteGuard<'static, OpenTable> {
    OPEN_FILES.write()
}

/// Adds a descriptor. Closes it if its number is too high.
pub fn add(fd: c_int, description: Arc<OpenDescription>) -> CallResult<c_int> {
    // Dropped after the lock: it may write to the store.
    let _replaced = lock().0.insert(fd, description);
    if !numbers::enter(fd) {
        lock().0.remove(&fd);
        // SAFETY: the descriptor is new, and nobody has got it.
        unsafe { real::close(fd) };
        return refuse(libc::EMFILE);
    }
    Ok(fd)
}

/// Removes a descriptor. Called before the kernel closes it: afterwards, another thread may get its number.
pub fn remove(fd: c_int) -> Option<Arc<OpenDescription>> {
    if !numbers::has(fd) {
        return None;
    }
    let mut table = lock();
    let removed = table.0.remove(&fd)?;
    numbers::leave(fd);
    Some(removed)
}

/// Returns the descriptors from `first` to `last`.
pub fn range(first: c_int, last: c_int) -> Vec<c_int> {
    if first > last { Vec::new() } else { OPEN_FILES.read().0.range(first..=last).map(|(fd, _)| *fd).collect() }
}

/// Tells the open files about a renamed file or directory.
pub fn rename(from: &[u8], to: &[u8]) {
    for description in lock().0.values() {
        let path = description.path();
        if let Some(rest) = path.strip_prefix(from).filter(|rest| rest.is_empty() || rest.starts_with(b"/")) {
            description.move_to(&[to, rest].concat());
        }
    }
}

impl OpenTable {
    /// Replaces all open files in a forked process.
    pub fn renew(&mut self) {
        let old = std::mem::take(&mut self.0);
        let mut renewed: Vec<(*const OpenDescription, Arc<OpenDescription>)> = Vec::new();
        for (fd, description) in old {
            // Descriptors that shared a description still do.
            let at = Arc::as_ptr(&description);
            let known = renewed.iter().find(|(of, _)| *of == at).map(|(_, new)| new.clone());
            let new = known.unwrap_or_else(|| Arc::new(description.forked()));
            renewed.push((at, new.clone()));
            self.0.insert(fd, new);
            // Its locks and its file belong to the parent's threads and engine, which do not exist here.
            std::mem::forget(description);
        }
    }
}
