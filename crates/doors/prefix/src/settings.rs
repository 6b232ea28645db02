//! The prefix and the store's directory, from the environment.

use std::cell::UnsafeCell;
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// The longest value that is read; the kernel's limit for paths.
const MAX_VALUE_BYTES: usize = libc::PATH_MAX as usize;

/// A variable of the environment, copied: programs overwrite their environment. No memory is allocated, because the first call may be the
/// allocator's.
struct Variable(UnsafeCell<([u8; MAX_VALUE_BYTES], usize)>);

// SAFETY: written once, by the thread that changed `READ_STATE` to `READING_STATE`, and read after it is `READ_DONE_STATE`.
unsafe impl Sync for Variable {}

static PREFIX_VALUE: Variable = Variable(UnsafeCell::new(([0; MAX_VALUE_BYTES], 0)));
static STORE_VALUE: Variable = Variable(UnsafeCell::new(([0; MAX_VALUE_BYTES], 0)));
static IS_REFUSED: AtomicBool = AtomicBool::new(false);
static READ_STATE: AtomicU8 = AtomicU8::new(UNREAD_STATE);
const UNREAD_STATE: u8 = 0;
const READING_STATE: u8 = 1;
const READ_DONE_STATE: u8 = 2;

unsafe extern "C" {
    static environ: *const *const c_char;
}

impl Variable {
    /// Copies the variable without slashes at its end. A value that is too long counts as missing.
    ///
    /// # Safety
    /// Nobody reads or writes it meanwhile.
    unsafe fn read(&self, name: &CStr) {
        // SAFETY: `getenv` only reads, and its result ends with a zero byte.
        unsafe {
            let found = libc::getenv(name.as_ptr());
            if found.is_null() {
                return;
            }
            let mut value = CStr::from_ptr(found).to_bytes();
            while let Some(shorter) = value.strip_suffix(b"/") {
                value = shorter;
            }
            if value.len() < MAX_VALUE_BYTES {
                let (bytes, length) = &mut *self.0.get();
                bytes[..value.len()].copy_from_slice(value);
                *length = value.len();
            }
        }
    }

    fn get(&'static self) -> &'static [u8] {
        if !is_read() {
            return &[];
        }
        // SAFETY: it was written once, before.
        let (bytes, length) = unsafe { &*self.0.get() };
        &bytes[..*length]
    }
}

/// Whether the variables were read. They cannot be before the C library has the environment.
#[inline]
fn is_read() -> bool {
    READ_STATE.load(Ordering::Acquire) == READ_DONE_STATE || read()
}

#[cold]
fn read() -> bool {
    // SAFETY: the C library sets the pointer before it runs any constructor but its own.
    if unsafe { environ.is_null() } {
        return false;
    }
    if READ_STATE.compare_exchange(UNREAD_STATE, READING_STATE, Ordering::Acquire, Ordering::Acquire).is_ok() {
        // SAFETY: this thread alone changed the state, and others wait for the next one.
        unsafe {
            PREFIX_VALUE.read(c"TERRACE_PREFIX");
            STORE_VALUE.read(c"TERRACE_STORE");
            let (prefix, store) = (&mut *PREFIX_VALUE.0.get(), &*STORE_VALUE.0.get());
            if prefix.1 > 0 && !(is_usable(&prefix.0[..prefix.1]) && is_usable(&store.0[..store.1])) {
                prefix.1 = 0;
                IS_REFUSED.store(true, Ordering::Relaxed);
            }
        }
        READ_STATE.store(READ_DONE_STATE, Ordering::Release);
    }
    while READ_STATE.load(Ordering::Acquire) != READ_DONE_STATE {
        std::hint::spin_loop();
    }
    true
}

/// Returns the prefix without a slash at its end. It is empty if no store is shown.
#[inline]
pub fn prefix() -> &'static [u8] {
    PREFIX_VALUE.get()
}

/// Returns the store's directory, if it is known.
pub fn store_dir() -> Option<PathBuf> {
    let value = STORE_VALUE.get();
    (!value.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(value)))
}

/// Whether the prefix is one that no program sees, because a variable cannot be used.
pub fn is_refused() -> bool {
    is_read() && IS_REFUSED.load(Ordering::Relaxed)
}

/// The advice for a refused prefix.
pub const REFUSAL_ADVICE: &str =
    "TERRACE_PREFIX and TERRACE_STORE must be absolute paths without . and ..; programs see no store until they are";

fn is_usable(path: &[u8]) -> bool {
    path.starts_with(b"/") && !path.split(|&byte| byte == b'/').any(|name| name == b"." || name == b"..")
}
