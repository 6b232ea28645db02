//! The communicators, types and other things of MPI that the program has made, or changed. It knows them by addresses of this process, so a restart
//! needs the same ones at the same addresses.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix_futex_sync::Mutex;

use crate::objects;

/// The handles that exist, in the order in which they were made. Held for a look or a change.
static MADE_HANDLES: Mutex<Vec<MadeHandle>> = Mutex::new(Vec::new());
/// Set once the program was at its first call. A restarted program has only what it makes before.
static IS_PAST_FIRST_CALL: AtomicBool = AtomicBool::new(false);
/// Set while the host works, whose handles are not the program's.
static IS_HOST_AT_WORK: AtomicBool = AtomicBool::new(false);
/// The changes after the first call of what was made before it. Held for a look or a change.
static HANDLE_CHANGES: Mutex<Vec<HandleChange>> = Mutex::new(Vec::new());

struct MadeHandle {
    address: usize,
    /// The call that has made it.
    maker: &'static str,
    /// Whether it was made after the first call.
    is_late: bool,
}

struct HandleChange {
    handle: usize,
    call: &'static str,
    /// The value at the first call, if a later change can bring it back.
    before: Option<usize>,
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

/// Tells whether the host works now.
pub fn note_host(works: bool) {
    // Relaxed: the one thread that makes handles sets it.
    IS_HOST_AT_WORK.store(works, Ordering::Relaxed);
}

/// Returns whether calls of MPI are the program's, and not the host's. MPI itself calls other names.
pub fn are_of_program() -> bool {
    !IS_HOST_AT_WORK.load(Ordering::Relaxed)
}

/// Makes a handle for the program. MPI's blocks for it are of the heap for handles.
pub fn make<T>(make: impl FnOnce() -> T) -> T {
    MAKING_THREAD.store(this_thread(), Ordering::Relaxed);
    let made = make();
    MAKING_THREAD.store(0, Ordering::Relaxed);
    made
}

/// Notes that the program has made a handle, or has one more claim on it. MPI's own, which are variables, are always there.
pub fn add(handle: usize, maker: &'static str) {
    if !objects::is_variable(handle) {
        let is_late = IS_PAST_FIRST_CALL.load(Ordering::Relaxed);
        MADE_HANDLES.lock().push(MadeHandle { address: handle, maker, is_late });
    }
}

/// Notes that a handle is freed. Returns whether it was made before the first call, and is freed after it.
pub fn remove(handle: usize) -> bool {
    let mut made = MADE_HANDLES.lock();
    let Some(place) = made.iter().rposition(|one| one.address == handle) else { return false };
    let was_late = made.remove(place).is_late;
    if !made.iter().any(|one| one.address == handle) {
        HANDLE_CHANGES.lock().retain(|change| change.handle != handle);
    }
    !was_late && IS_PAST_FIRST_CALL.load(Ordering::Relaxed)
}

/// Notes that a call changes a handle, or, by 0, something of the process.
pub fn note_change(handle: usize, call: &'static str) {
    if stays_changed(handle) {
        let mut changes = HANDLE_CHANGES.lock();
        if !changes.iter().any(|change| (change.handle, change.call) == (handle, call)) {
            changes.push(HandleChange { handle, call, before: None });
        }
    }
}

/// Notes that a call replaces the one value that a handle has. The value before may come back.
pub fn note_value(handle: usize, call: &'static str, before: impl FnOnce() -> usize, after: usize) {
    if !stays_changed(handle) {
        return;
    }
    let mut changes = HANDLE_CHANGES.lock();
    match changes.iter().position(|change| (change.handle, change.call) == (handle, call)) {
        Some(place) if changes[place].before == Some(after) => drop(changes.remove(place)),
        Some(_) => {}
        None => {
            let before = before();
            if before != after {
                changes.push(HandleChange { handle, call, before: Some(before) });
            }
        }
    }
}

/// Returns whether a change of a handle now is one that a restarted program would lack. Changes before the first call are made again, and those
/// of a handle that was made after it go with it.
fn stays_changed(handle: usize) -> bool {
    let is_late = |one: &MadeHandle| one.address == handle && one.is_late;
    IS_PAST_FIRST_CALL.load(Ordering::Relaxed) && !MADE_HANDLES.lock().iter().any(is_late)
}

/// Returns whether a handle exists.
pub fn has(handle: usize) -> bool {
    MADE_HANDLES.lock().iter().any(|one| one.address == handle)
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

/// Returns the calls that have made what exists after the first call. In its place, a restarted program would have another one, or none.
pub fn list_late() -> Vec<&'static str> {
    sort(MADE_HANDLES.lock().iter().filter(|one| one.is_late).map(|one| one.maker))
}

/// Returns the calls that have changed something after the first call, which a restarted program would have as it was before.
pub fn list_changes() -> Vec<&'static str> {
    sort(HANDLE_CHANGES.lock().iter().map(|change| change.call))
}

fn sort(calls: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    calls.collect::<BTreeSet<_>>().into_iter().collect()
}
