//! Finds the functions behind ours.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A function of the libraries that follow this one in the linker's order.
pub struct Behind {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Behind {
    /// `name` ends with a zero byte.
    pub const fn new(name: &'static str) -> Behind {
        let name = match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => name,
            Err(_) => c"",
        };
        Behind { name, address: AtomicUsize::new(0) }
    }

    /// Returns its address. Ends the process if there is none: the program could not have been linked.
    pub fn find(&self) -> usize {
        // Relaxed: threads that look at once find the same function.
        let known = self.address.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        // SAFETY: the name ends with a zero byte.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
        if found == 0 {
            eprintln!("terrace dump run: no library has {}", self.name.to_string_lossy());
            std::process::abort();
        }
        self.address.store(found, Ordering::Relaxed);
        found
    }
}
