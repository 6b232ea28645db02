//! The libhdf5 that calls the driver, found at run time: a process may have several, whose names are any.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::{MaybeUninit, transmute};
use std::ptr::{self, NonNull};

use crate::class::{FAILURE_STATUS, HdfId, HdfStatus};

/// The depth to which a caller is looked for. HDF5 is right above this library.
const MAX_FRAMES: usize = 64;

/// A loaded libhdf5, or a program that contains it.
pub struct Library(NonNull<c_void>);

impl Library {
    /// Finds the library on this thread's stack that called this one.
    pub fn of_caller() -> Option<Library> {
        let own = object_of((Library::of_caller as fn() -> Option<Library> as *const ()).cast())?.dli_fbase;
        let mut frames = [ptr::null_mut::<c_void>(); MAX_FRAMES];
        // SAFETY: it writes at most as many addresses as there is room for.
        let count = unsafe { libc::backtrace(frames.as_mut_ptr(), frames.len() as c_int) };
        let objects = frames[..count.max(0) as usize].iter().filter_map(|frame| object_of(*frame));
        let foreign = objects.filter(|object| object.dli_fbase != own);
        let mut loaded = foreign.filter_map(|object| Library::loaded(object.dli_fname));
        loaded.find(|library| library.version().is_some())
    }

    fn loaded(path: *const c_char) -> Option<Library> {
        // SAFETY: the path is the linker's own; nothing is loaded that is not there.
        let handle = unsafe { libc::dlopen(path, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        NonNull::new(handle).map(Library)
    }

    /// Finds a function or a variable.
    fn find(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the library is loaded as long as its handle lives.
        NonNull::new(unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) })
    }

    /// Returns the first two numbers of the library's version. They are in a variable: a function of the library would forget the errors
    /// that its user has not seen.
    pub fn version(&self) -> Option<(u32, u32)> {
        let text = self.find(c"H5_lib_vers_info_g")?;
        // SAFETY: the variable is a text that is never changed, and ends with a zero byte.
        let text = unsafe { CStr::from_ptr(text.as_ptr().cast()) }.to_str().ok()?;
        let mut numbers = text.strip_prefix("HDF5 library version: ")?.split('.').map(|number| number.parse().ok());
        Some((numbers.next()??, numbers.next()??))
    }

    /// Whether these access properties say that a missing support for locks is ignored.
    pub fn ignores_missing_locks(&self, properties: HdfId) -> Option<bool> {
        type Function = unsafe extern "C" fn(HdfId, *mut bool, *mut bool) -> HdfStatus;
        let function = self.find(c"H5Pget_file_locking")?;
        let (mut locks, mut ignores) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: the function has this signature from 1.14 on, and sets both if it succeeds.
        unsafe {
            let status =
                transmute::<NonNull<c_void>, Function>(function)(properties, locks.as_mut_ptr(), ignores.as_mut_ptr());
            (status >= 0).then(|| ignores.assume_init())
        }
    }

    /// Adds an error to the stack that the library shows to its user. `major` and `minor` are the variables with the numbers of its classes.
    /// Returns whether the library has taken it.
    pub fn push_error(&self, major: &CStr, minor: &CStr, text: &str) -> bool {
        type Function = unsafe extern "C" fn(
            HdfId,
            *const c_char,
            *const c_char,
            c_uint,
            HdfId,
            HdfId,
            HdfId,
            *const c_char,
            ...
        ) -> HdfStatus;
        /// This thread's stack.
        const DEFAULT_STACK: HdfId = 0;
        let push = || {
            let function = self.find(c"H5Epush2")?;
            let (class, major, minor) = (self.number(c"H5E_ERR_CLS_g")?, self.number(major)?, self.number(minor)?);
            let text = CString::new(text).ok()?;
            // SAFETY: the function has this signature from 1.8 on, and copies the texts.
            Some(unsafe {
                transmute::<NonNull<c_void>, Function>(function)(
                    DEFAULT_STACK,
                    c"terrace".as_ptr(),
                    c"driver".as_ptr(),
                    0,
                    class,
                    major,
                    minor,
                    c"%s".as_ptr(),
                    text.as_ptr(),
                )
            })
        };
        push().unwrap_or(FAILURE_STATUS) >= 0
    }

    /// Returns the number in one of the library's variables.
    fn number(&self, name: &CStr) -> Option<HdfId> {
        // SAFETY: the variables that are asked for are such numbers, and the library has set them before it loads a plug-in.
        self.find(name).map(|variable| unsafe { variable.cast::<HdfId>().read() })
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle is this value's own. The library stays: it is on the stack.
        unsafe { libc::dlclose(self.0.as_ptr()) };
    }
}

/// Returns the library or program that contains an address.
fn object_of(address: *const c_void) -> Option<libc::Dl_info> {
    let mut info = MaybeUninit::uninit();
    // SAFETY: the linker fills the structure, or returns 0.
    unsafe { (libc::dladdr(address, info.as_mut_ptr()) != 0).then(|| info.assume_init()) }
}
