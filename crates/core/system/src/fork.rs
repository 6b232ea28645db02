//! Detects that this process was forked from the one that opened a store, because LMDB, locks and threads do not survive a
//! fork.
//!
//! Locks between threads come from `rustix-futex-sync`, not from `parking_lot`. A fork copies `parking_lot`'s table of waiting threads,
//! but not the threads. The child could then wait for one of them for ever.

use std::cell::RefCell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};

static FORK_COUNT: AtomicU32 = AtomicU32::new(0);
/// Points to a number that the kernel clears in each new process with memory of its own: programs also make these by `clone` and `_Fork`, which
/// call no handlers. Null if the kernel cannot do that.
static FORK_WITNESS: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
/// The number there in a process that was counted.
const COUNTED_MARK: u32 = 1;
/// The number of existing [`Held`]. It uses the standard library's lock, which keeps no queue: a lock that is handed to the
/// next waiting thread could, in a fork, be handed to a thread that does not exist there.
static HELD_COUNT: Mutex<usize> = Mutex::new(0);
static NONE_HELD: Condvar = Condvar::new();

thread_local! {
    /// The lock, while this thread forks.
    static FORK_GUARD: RefCell<Option<MutexGuard<'static, usize>>> = const { RefCell::new(None) };
}

/// While one exists, in any thread, this process does not fork. So no fork begins with a store that is half opened or
/// closed.
pub struct Held(());

/// Prevents this process from forking as long as the result lives.
pub fn hold() -> Held {
    register();
    *held() += 1;
    Held(())
}

impl Drop for Held {
    fn drop(&mut self) {
        *held() -= 1;
        NONE_HELD.notify_all();
    }
}

fn held() -> MutexGuard<'static, usize> {
    HELD_COUNT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of forks between this process and the first one that called this. Processes that were made without `fork` count, too, but no
/// [`Held`] keeps them from being made.
pub fn count() -> u32 {
    register();
    // Relaxed: a new process has one thread, which sees the cleared number, as the kernel left it.
    if let Some(witness) = witness()
        && witness.load(Ordering::Relaxed) != COUNTED_MARK
        && witness.swap(COUNTED_MARK, Ordering::Relaxed) != COUNTED_MARK
    {
        FORK_COUNT.fetch_add(1, Ordering::Relaxed);
    }
    FORK_COUNT.load(Ordering::Relaxed)
}

/// Returns the number that the kernel clears, if it can.
#[allow(unsafe_code)]
fn witness() -> Option<&'static AtomicU32> {
    // SAFETY: the pointer is null, or that of a page which is never unmapped, and which is only used as this number. Relaxed: the page was
    // mapped, and its number set, before `register` returned in this thread or the one that started it.
    unsafe { FORK_WITNESS.load(Ordering::Relaxed).as_ref() }
}

/// Maps a page for the number.
#[allow(unsafe_code)]
fn make_witness() {
    let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the page is new, so nothing else uses it. The number fits, is aligned, and is zero as all of a new page.
    unsafe {
        let length = size_of::<AtomicU32>();
        let page = libc::mmap(ptr::null_mut(), length, rights, kind, -1, 0);
        // Kernels before 4.14 cannot clear it; then only forks count.
        if page == libc::MAP_FAILED || libc::madvise(page, length, libc::MADV_WIPEONFORK) != 0 {
            return;
        }
        let witness: *mut AtomicU32 = page.cast();
        (*witness).store(COUNTED_MARK, Ordering::Relaxed);
        FORK_WITNESS.store(witness, Ordering::Relaxed);
    }
}

extern "C" fn before() {
    let none_held = NONE_HELD.wait_while(held(), |held| *held > 0);
    FORK_GUARD.set(Some(none_held.unwrap_or_else(PoisonError::into_inner)));
}

extern "C" fn in_parent() {
    FORK_GUARD.set(None);
}

extern "C" fn in_child() {
    // Also without a witness. With one, this does not count again.
    if let Some(witness) = witness() {
        witness.store(COUNTED_MARK, Ordering::Relaxed);
    }
    FORK_COUNT.fetch_add(1, Ordering::Relaxed);
    in_parent();
}

#[allow(unsafe_code)]
fn register() {
    static REGISTER_ONCE: Once = Once::new();
    REGISTER_ONCE.call_once(|| {
        make_witness();
        // SAFETY: the handlers only access an atomic number, and a lock that is never held by a thread which the fork lacks.
        let registered = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        debug_assert_eq!(registered, 0, "only a lack of memory keeps them from being registered");
    });
}

#[cfg(test)]
#[allow(unsafe_code, clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn processes_count_however_they_are_made() {
        let before = count();
        // The child calls nothing that allocates or locks, since other threads may have held locks.
        let child = |made: libc::c_long| -> i32 {
            if made == 0 {
                let (first, second) = (count(), count());
                // SAFETY: it ends the child, and runs no handlers.
                unsafe { libc::_exit(if first == before + 1 && second == first { 0 } else { 1 }) };
            }
            let mut status = 0;
            // SAFETY: the number is that of a child, and the status is a place of this thread.
            assert_eq!(unsafe { libc::waitpid(made as libc::pid_t, &raw mut status, 0) }, made as libc::pid_t);
            status
        };
        // SAFETY: the child only does what is said above.
        assert_eq!(child(unsafe { libc::fork() }.into()), 0, "by fork");
        // SAFETY: as above; without flags it is a process with memory of its own, on a copy of this stack.
        let cloned = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        assert_eq!(child(cloned), 0, "by the system call");
        assert_eq!(count(), before);
    }
}
