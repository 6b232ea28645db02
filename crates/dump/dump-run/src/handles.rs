//! The communicators, types and other things of MPI that the program has made. It knows them by addresses of this process, so a restart
//! needs the same ones at the same addresses.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix_futex_sync::Mutex;

/// The handles that exist, in the order in which they were made. Held for a look or a change.
static MADE_HANDLES: Mutex<Vec<MadeHandle>> = Mutex::new(Vec::new());
/// Set once the program was at its first call. A restarted program has only what it makes before.
static IS_PAST_FIRST_CALL: AtomicBool = AtomicBool::new(false);
/// Set while the host works, whose handles are not the program's.
static IS_HOST_AT_WORK: AtomicBool = AtomicBool::new(false);

struct MadeHandle {
    address: usize,
    /// Whether it was made after the first call.
    is_late: bool,
}

/// The thread in which the program makes a handle, by the address of its error number; 0 while none does.
static MAKING_THREAD: AtomicUsize = AtomicUsize::new(0);

fn this_thread() -> usize {
    // SAFETY: the C library has the number for each thread.
    unsafe { libc::__errno_location() as usize }
}

/// Returns whether this thread makes a handle for the program now.
pub fn is_making() -> bool {
    // Relaxed: a thread that sees its own address has written it.
    let making = MAKING_THREAD.load(Ordering::Relaxed);
    making != 0 && making == this_thread()
}

/// Makes a handle for the program. MPI's blocks for it are of the heap for handles.
pub fn make<T>(make: impl FnOnce() -> T) -> T {
    if IS_HOST_AT_WORK.load(Ordering::Relaxed) {
        return make();
    }
    MAKING_THREAD.store(this_thread(), Ordering::Relaxed);
    let made = make();
    MAKING_THREAD.store(0, Ordering::Relaxed);
    made
}

/// Tells whether the host works now.
pub fn note_host(works: bool) {
    // Relaxed: the one thread that makes handles sets it.
    IS_HOST_AT_WORK.store(works, Ordering::Relaxed);
}

/// Notes that the program has made a handle.
pub fn add(handle: usize) {
    if !IS_HOST_AT_WORK.load(Ordering::Relaxed) {
        let is_late = IS_PAST_FIRST_CALL.load(Ordering::Relaxed);
        MADE_HANDLES.lock().push(MadeHandle { address: handle, is_late });
    }
}

/// Notes that a handle is freed.
pub fn remove(handle: usize) {
    let mut made = MADE_HANDLES.lock();
    if let Some(place) = made.iter().rposition(|one| one.address == handle) {
        made.remove(place);
    }
}

/// Returns the handles that exist.
pub fn list() -> Vec<usize> {
    MADE_HANDLES.lock().iter().map(|one| one.address).collect()
}

/// Notes that the program is at its first call.
pub fn note_first_call() {
    // Relaxed: the one thread that makes handles sets it.
    IS_PAST_FIRST_CALL.store(true, Ordering::Relaxed);
}

/// Returns whether a handle exists that was made after the first call. In its place, a restarted program would have another one, or none.
pub fn are_late() -> bool {
    MADE_HANDLES.lock().iter().any(|one| one.is_late)
}
