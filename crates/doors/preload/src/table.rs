//! The table of this process's open files, by descriptor.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_ulong};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use rustix_futex_sync::{RwLock, RwLockWriteGuard};

use crate::description::OpenDescription;
use crate::errors::{CallResult, refuse};
use crate::real;

/// Descriptors of files of the store are below this number.
const MAX_DESCRIPTORS: usize = 1 << 16;

/// The engine's own descriptors get numbers from here on, if the limit of open files allows them: programs choose low numbers.
const ENGINE_DESCRIPTORS_START: c_ulong = 600;

/// The user of each descriptor, without a lock: all that a call with another descriptor costs.
static USER_OF: [AtomicU8; MAX_DESCRIPTORS] = [const { AtomicU8::new(PROGRAM_USER) }; MAX_DESCRIPTORS];
/// The program has it from the kernel, or it is closed.
const PROGRAM_USER: u8 = 0;
/// It is a file of the store, in `OPEN_FILES`.
const STORE_USER: u8 = 1;
/// The engine has opened it. The program knows nothing of it, but may close or replace numbers that it has not opened.
const ENGINE_USER: u8 = 2;
static OUR_COUNT: AtomicUsize = AtomicUsize::new(0);
/// A leaf, held for a look-up or a change; and while this process forks, so that the child finds it unlocked and complete.
static OPEN_FILES: RwLock<OpenTable> = RwLock::new(OpenTable(BTreeMap::new()));

/// The open files.
pub struct OpenTable(BTreeMap<c_int, Arc<OpenDescription>>);

#[inline]
fn user_of(fd: c_int) -> Option<&'static AtomicU8> {
    usize::try_from(fd).ok().and_then(|fd| USER_OF.get(fd))
}

/// Whether a descriptor is that of a file of the store.
#[inline]
pub fn has(fd: c_int) -> bool {
    // Relaxed: a program may only use a descriptor on another thread after it has passed it there.
    user_of(fd).is_some_and(|user| user.load(Ordering::Relaxed) == STORE_USER)
}

/// Whether a descriptor is the engine's own.
#[inline]
pub fn is_engines(fd: c_int) -> bool {
    user_of(fd).is_some_and(|user| user.load(Ordering::Relaxed) == ENGINE_USER)
}

/// Moves a descriptor that the engine has just opened to where programs seldom go, and notes that it is the engine's.
pub fn keep_apart(fd: c_int) -> c_int {
    if fd < 0 {
        return fd;
    }
    // SAFETY: the descriptor is new, and nobody has got it. Closing the old number drops no lock, because none was taken yet.
    let moved = unsafe {
        match real::fcntl(fd, libc::F_DUPFD_CLOEXEC, ENGINE_DESCRIPTORS_START) {
            // The limit of open files is lower.
            -1 => fd,
            moved => {
                real::close(fd);
                moved
            }
        }
    };
    if let Some(user) = user_of(moved) {
        user.store(ENGINE_USER, Ordering::Relaxed);
    }
    moved
}

/// Returns the engine's descriptors from `first` to `last`, in their order.
pub fn engines_within(first: c_uint, last: c_uint) -> impl Iterator<Item = c_uint> {
    (first..=last).take_while(|fd| (*fd as usize) < MAX_DESCRIPTORS).filter(|fd| is_engines(*fd as c_int))
}

/// Notes that the engine closes a descriptor.
pub fn let_go(fd: c_int) {
    if is_engines(fd)
        && let Some(user) = user_of(fd)
    {
        user.store(PROGRAM_USER, Ordering::Relaxed);
    }
}

/// Whether any file of the store is open.
#[inline]
pub fn has_any() -> bool {
    count() > 0
}

/// The number of descriptors of files of the store.
pub fn count() -> usize {
    OUR_COUNT.load(Ordering::Relaxed)
}

/// Returns the open file of a descriptor.
#[inline]
pub fn get(fd: c_int) -> Option<Arc<OpenDescription>> {
    if has(fd) { OPEN_FILES.read().0.get(&fd).cloned() } else { None }
}

/// Locks the table.
pub fn lock() -> RwLockWriteGuard<'static, OpenTable> {
    OPEN_FILES.write()
}

/// Adds a descriptor. Closes it if its number is too high.
pub fn add(fd: c_int, description: Arc<OpenDescription>) -> CallResult<c_int> {
    let Some(user) = user_of(fd) else {
        // SAFETY: the descriptor is new, and nobody has got it.
        unsafe { real::close(fd) };
        return refuse(libc::EMFILE);
    };
    let replaced = lock().0.insert(fd, description);
    user.store(STORE_USER, Ordering::Relaxed);
    if replaced.is_none() {
        OUR_COUNT.fetch_add(1, Ordering::Relaxed);
    }
    Ok(fd)
}

/// Removes a descriptor. Called before the kernel closes it: afterwards, another thread may get its number.
pub fn remove(fd: c_int) -> Option<Arc<OpenDescription>> {
    if !has(fd) {
        return None;
    }
    let mut table = lock();
    let removed = table.0.remove(&fd)?;
    USER_OF[fd as usize].store(PROGRAM_USER, Ordering::Relaxed);
    OUR_COUNT.fetch_sub(1, Ordering::Relaxed);
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
