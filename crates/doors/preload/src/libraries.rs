//! The copies of libraries that were loaded from below the prefix.

// `dlopen` jumps to the C library's, by instructions of one architecture.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::fs::File;
use std::os::fd::AsRawFd;

use rustix_futex_sync::{Mutex, MutexGuard};

/// A leaf, held for a look-up and an insertion; and while this process forks.
static LIBRARY_COPIES: Mutex<LibraryCopies> = Mutex::new(LibraryCopies(BTreeMap::new()));

/// The copies by the number of the object and its time of modification: a library that is loaded twice is one.
pub struct LibraryCopies(BTreeMap<(u64, i64), LibraryCopy>);

/// A copy that stays open, so that it keeps its name.
struct LibraryCopy {
    _file: File,
    name: CString,
}

/// Locks the copies.
pub fn lock() -> MutexGuard<'static, LibraryCopies> {
    LIBRARY_COPIES.lock()
}

impl LibraryCopies {
    /// Returns the path of a copy, which is valid for ever.
    pub fn name(&self, version: (u64, i64)) -> Option<*const c_char> {
        self.0.get(&version).map(|copy| copy.name.as_ptr())
    }

    /// Adds a copy, unless another thread was first. Returns the path.
    pub fn add(&mut self, version: (u64, i64), file: File) -> *const c_char {
        let name = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default();
        // The text does not move with its owner.
        self.0.entry(version).or_insert(LibraryCopy { _file: file, name }).name.as_ptr()
    }
}
