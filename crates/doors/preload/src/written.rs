//! The objects that this process has written since `MPI_Init`, which `MPI_Finalize` makes durable.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix_futex_sync::{Mutex, MutexGuard};

/// Whether the process is between `MPI_Init` and `MPI_Finalize`. Relaxed: a program that orders its writes and these calls orders this, too.
static IS_NOTING: AtomicBool = AtomicBool::new(false);
/// A leaf, held to add a number or to take all; and while this process forks.
static WRITTEN_OBJECTS: Mutex<WrittenObjects> = Mutex::new(WrittenObjects(BTreeSet::new()));

/// The numbers of written objects.
pub struct WrittenObjects(BTreeSet<u64>);

/// Notes objects from now on.
pub fn begin() {
    IS_NOTING.store(true, Ordering::Relaxed);
}

/// Whether objects are noted.
pub fn is_noting() -> bool {
    IS_NOTING.load(Ordering::Relaxed)
}

/// Notes that the process writes to an object.
pub fn note(object: u64) {
    if is_noting() {
        WRITTEN_OBJECTS.lock().0.insert(object);
    }
}

/// Returns the noted objects, and notes no more.
pub fn end() -> Vec<u64> {
    IS_NOTING.store(false, Ordering::Relaxed);
    std::mem::take(&mut WRITTEN_OBJECTS.lock().0).into_iter().collect()
}

/// Locks the numbers while the process forks.
pub fn lock() -> MutexGuard<'static, WrittenObjects> {
    WRITTEN_OBJECTS.lock()
}

impl WrittenObjects {
    /// Forgets them in a forked process: they are the parent's files.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}
