//! The bracket of an MPI program: `MPI_Init` opens the store, and `MPI_Finalize` makes durable what the process has written. Neither
//! waits for other ranks.
//!
//! No MPI library is linked. The functions behind ours are found when they are called, so a program without MPI never uses one.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use crate::answer::{complain, guard};
use crate::asked::SyncMoment;
use crate::errors::CallResult;
use crate::real::c_name;
use crate::{asked, opened, settings, written};

/// The value that functions return if no MPI library is loaded. No library takes it for success, which is 0.
const NO_LIBRARY_STATUS: c_int = 16;

/// Stands for the functions of an MPI library that is not there. Those of Fortran return nothing.
extern "C" fn missing() -> c_int {
    complain("the program calls MPI, but no MPI library is loaded");
    NO_LIBRARY_STATUS
}

/// Finds the function that an MPI program means: that of the next library, which may be a profiler's, or else the MPI library's own,
/// by its profiling name. A library that was loaded for one module alone, as Python may do, is not among the next ones.
fn find(name: &'static CStr, profiling_name: &'static CStr) -> *mut c_void {
    // SAFETY: the names end with zero bytes.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if !next.is_null() {
        return next;
    }
    let found = loaded_libraries().iter().find_map(|library| {
        // SAFETY: as above. The library is loaded already, so nothing of it runs now, and it stays loaded when this handle is closed.
        unsafe {
            let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if handle.is_null() {
                return None;
            }
            let found = libc::dlsym(handle, profiling_name.as_ptr());
            libc::dlclose(handle);
            (!found.is_null()).then_some(found)
        }
    });
    found.unwrap_or(missing as *mut c_void)
}

/// Returns the paths of the libraries that are loaded.
fn loaded_libraries() -> Vec<CString> {
    unsafe extern "C" fn note(library: *mut libc::dl_phdr_info, _: usize, out: *mut c_void) -> c_int {
        // SAFETY: the linker gives a valid entry, whose name ends with a zero byte; `out` is the list below.
        unsafe {
            let (name, out) = ((*library).dlpi_name, &mut *out.cast::<Vec<CString>>());
            if !name.is_null() && *name != 0 {
                out.push(CStr::from_ptr(name).to_owned());
            }
        }
        0
    }
    let mut libraries: Vec<CString> = Vec::new();
    // SAFETY: the list outlives the call, and nobody else uses it.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut libraries).cast()) };
    libraries
}

/// Runs a function that begins MPI. Then opens the store: what keeps the program from using it is said now, not after hours.
fn begin<T>(run: impl FnOnce() -> T) -> T {
    let is_shown = !settings::prefix().is_empty();
    if is_shown {
        written::begin();
    }
    let returned = run();
    if is_shown {
        // An error was written to standard error. The calls that need the store return it.
        let _ = guard(opened::get);
    }
    returned
}

/// Runs a function that ends MPI, after this process's files were written. A rank does not wait for the others.
fn end<T>(run: impl FnOnce() -> T) -> T {
    if written::is_noting() && guard(write_files).is_err() {
        complain(
            "files that this rank has written may be lost in a power cut: they could not be synced in MPI_Finalize",
        );
    }
    run()
}

fn write_files() -> CallResult<()> {
    let objects = written::end();
    let Some(shown) = opened::if_open() else { return Ok(()) };
    shown.files.flush()?;
    if asked::sync_moment() != SyncMoment::Never && !objects.is_empty() {
        shown.files.store().make_all_durable(&objects).inspect_err(|error| complain(&error.to_string()))?;
    }
    Ok(())
}

/// Exports functions of MPI, with what happens around them.
macro_rules! bracket {
    ($($around:ident: $name:ident behind $profiling_name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)*) => { $(
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C-unwind" fn $name($($argument: $kind),*) $(-> $result)? {
            const OWN_NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
            const PROFILING_NAME: &CStr = c_name(concat!(stringify!($profiling_name), "\0"));
            // SAFETY: MPI's function of this name has this signature, and gets the caller's arguments.
            unsafe {
                let function: unsafe extern "C-unwind" fn($($kind),*) $(-> $result)? = std::mem::transmute(find(OWN_NAME, PROFILING_NAME));
                $around(|| function($($argument),*))
            }
        }
    )* };
}

bracket! {
    begin: MPI_Init behind PMPI_Init(count: *mut c_int, arguments: *mut *mut *mut c_char) -> c_int;
    begin: MPI_Init_thread behind PMPI_Init_thread(count: *mut c_int, arguments: *mut *mut *mut c_char, required: c_int, provided: *mut c_int) -> c_int;
    end: MPI_Finalize behind PMPI_Finalize() -> c_int;
    begin: mpi_init_ behind pmpi_init_(status: *mut c_int);
    begin: mpi_init_thread_ behind pmpi_init_thread_(required: *mut c_int, provided: *mut c_int, status: *mut c_int);
    end: mpi_finalize_ behind pmpi_finalize_(status: *mut c_int);
    begin: mpi_init_f08_ behind pmpi_init_f08_(status: *mut c_int);
    begin: mpi_init_thread_f08_ behind pmpi_init_thread_f08_(required: *mut c_int, provided: *mut c_int, status: *mut c_int);
    end: mpi_finalize_f08_ behind pmpi_finalize_f08_(status: *mut c_int);
}
