//! The numbers of descriptors, and who uses each: the program, the store's files or the engine.

use std::ffi::{CStr, c_int, c_uint, c_ulong};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix_futex_sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::errors::{CallResult, of_kernel};
use crate::real;
use crate::unseen::is_unseen;

/// Descriptors of files of the store are below this number.
const MAX_DESCRIPTORS: usize = 1 << 16;

/// The engine's own descriptors get numbers from here on, if the limit of open files allows them: programs choose low numbers.
const ENGINE_DESCRIPTORS_START: c_ulong = 600;

/// The user of each descriptor, without a lock: all that a call with another descriptor costs.
static USER_OF: [AtomicU8; MAX_DESCRIPTORS] = [const { AtomicU8::new(PROGRAM_USER) }; MAX_DESCRIPTORS];
/// The program has it from the kernel, or it is closed.
const PROGRAM_USER: u8 = 0;
/// It is a file of the store, in the table.
const STORE_USER: u8 = 1;
/// The engine has opened it. The program knows nothing of it, but may close or replace numbers that it has not opened.
const ENGINE_USER: u8 = 2;
/// Held shared while the engine opens or closes a descriptor and notes that, and alone while the program closes a range of numbers and while
/// this process forks: the program would otherwise close what the engine has just opened. A leaf.
static ENGINE_CHANGE: RwLock<()> = RwLock::new(());
/// How many threads of the engine hold `ENGINE_CHANGE`, and how many of the program choose or free a number. The kernel gives the engine the
/// lowest free number, too, before the engine moves it: a program that opens a file meanwhile would not get the number that it counts on, and one
/// that copies a file to that number would lose it to the move. So either waits for the other. Sequentially consistent: each notes itself
/// before it looks for the other.
static ENGINE_CHANGES: AtomicUsize = AtomicUsize::new(0);
static PROGRAM_CHANGES: AtomicUsize = AtomicUsize::new(0);
static PROGRAM_OPENS: AtomicUsize = AtomicUsize::new(0);
/// How long one waits for the other at most, which may have no processor for a while: a signal may interrupt the engine for a call of the program,
/// which would wait for itself.
const MAX_CHANGE_WAIT: Duration = Duration::from_millis(200);
/// How long the engine waits for `open` of the program at most: the program may stay in that for ever, as with a pipe.
const MAX_OPEN_WAIT: Duration = Duration::from_millis(2);

static OUR_COUNT: AtomicUsize = AtomicUsize::new(0);

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

/// While it lives, the engine opens or closes a descriptor.
pub struct EngineChange(#[allow(dead_code, reason = "held")] RwLockReadGuard<'static, ()>);

/// Lets the program choose no number, and close no range of them, while the engine opens or closes a descriptor.
pub fn change_engines() -> EngineChange {
    let held = ENGINE_CHANGE.read();
    ENGINE_CHANGES.fetch_add(1, Ordering::SeqCst);
    wait_for(&PROGRAM_CHANGES, MAX_CHANGE_WAIT);
    wait_for(&PROGRAM_OPENS, MAX_OPEN_WAIT);
    EngineChange(held)
}

impl Drop for EngineChange {
    fn drop(&mut self) {
        ENGINE_CHANGES.fetch_sub(1, Ordering::SeqCst);
    }
}

/// While it lives, the program chooses or frees a number.
pub struct ProgramChange(&'static AtomicUsize);

/// Lets the engine open nothing while the program chooses or frees a number. It takes no lock: the program may call from a signal's handler.
pub fn change_programs() -> ProgramChange {
    begin(&PROGRAM_CHANGES)
}

/// The same while the program opens a file, which may take for ever. The engine does not wait for that.
pub fn open_programs() -> ProgramChange {
    begin(&PROGRAM_OPENS)
}

fn begin(changes: &'static AtomicUsize) -> ProgramChange {
    // A process that the library has not seen being made has no engine, but may have inherited the count of one at work.
    let must_wait = || ENGINE_CHANGES.load(Ordering::SeqCst) > 0 && !is_unseen();
    let mut since = None;
    loop {
        changes.fetch_add(1, Ordering::SeqCst);
        if !must_wait() || since.get_or_insert_with(Instant::now).elapsed() >= MAX_CHANGE_WAIT {
            return ProgramChange(changes);
        }
        // The engine goes first, as it may be waiting.
        changes.fetch_sub(1, Ordering::SeqCst);
        wait_for(&ENGINE_CHANGES, MAX_CHANGE_WAIT);
    }
}

/// Notes in a forked process that no other thread chooses a number here.
pub fn forget_changes() {
    PROGRAM_CHANGES.store(0, Ordering::SeqCst);
    PROGRAM_OPENS.store(0, Ordering::SeqCst);
}

impl Drop for ProgramChange {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits until a count is 0, but no longer than `most`.
fn wait_for(changes: &AtomicUsize, most: Duration) {
    if changes.load(Ordering::SeqCst) == 0 {
        return;
    }
    let start = Instant::now();
    while changes.load(Ordering::SeqCst) > 0 && start.elapsed() < most {
        thread::yield_now();
    }
}

/// Lets the engine open and close nothing.
pub fn lock() -> RwLockWriteGuard<'static, ()> {
    ENGINE_CHANGE.write()
}

/// Opens a descriptor for the engine, where programs seldom go.
pub fn open_apart(open: impl FnOnce() -> c_int) -> c_int {
    let _change = change_engines();
    keep_apart(open())
}

/// Makes a file in memory for the engine.
pub fn memory_file(name: &CStr, flag: c_uint) -> CallResult<OwnedFd> {
    // SAFETY: the name ends with a zero byte.
    let open = |flags| of_kernel(open_apart(|| unsafe { real::memfd_create(name.as_ptr(), flags) }));
    // Kernels before 6.3 do not know the flag; later ones may insist on it.
    let fd = open(libc::MFD_CLOEXEC | flag).or_else(|_| open(libc::MFD_CLOEXEC))?;
    // SAFETY: the descriptor is new, and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Moves a descriptor that the engine has just opened, and notes that it is the engine's.
fn keep_apart(fd: c_int) -> c_int {
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

/// Notes that a descriptor is a file of the store. False if its number is too high.
pub fn enter(fd: c_int) -> bool {
    let Some(user) = user_of(fd) else { return false };
    if user.swap(STORE_USER, Ordering::Relaxed) != STORE_USER {
        OUR_COUNT.fetch_add(1, Ordering::Relaxed);
    }
    true
}

/// Notes that a descriptor is a file of the store no more.
pub fn leave(fd: c_int) {
    if has(fd)
        && let Some(user) = user_of(fd)
    {
        user.store(PROGRAM_USER, Ordering::Relaxed);
        OUR_COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}
