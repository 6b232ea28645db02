//! Runs the program's `main` on its own stack.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use terrace_dump::{Error, Result};

use crate::handle_heap::HANDLE_HEAP;
use crate::heap::PROGRAM_HEAP;
use crate::host::DumpHost;
use crate::{objects, settings, stack};

type Main = unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;

/// The program's `main` and its arguments.
struct StartedProgram {
    main: Main,
    count: c_int,
    arguments: *mut *mut c_char,
    environment: *mut *mut c_char,
}

// SAFETY: one thread makes it and uses it.
unsafe impl Send for StartedProgram {}
// SAFETY: as above.
unsafe impl Sync for StartedProgram {}

static PROGRAM_MAIN: OnceLock<Main> = OnceLock::new();
static STARTED_PROGRAM: OnceLock<StartedProgram> = OnceLock::new();

/// Takes the place of the C library's function, which a program's first instructions call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_start_main(
    main: Main,
    count: c_int,
    arguments: *mut *mut c_char,
    init: *mut c_void,
    fini: *mut c_void,
    linker_fini: *mut c_void,
    stack_end: *mut c_void,
) -> c_int {
    type StartMain = unsafe extern "C" fn(
        Main,
        c_int,
        *mut *mut c_char,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        *mut c_void,
    ) -> c_int;
    let mut first = main;
    match prepare() {
        Ok(true) => first = PROGRAM_MAIN.set(main).map_or(main, |()| run_main as Main),
        Ok(false) => {}
        Err(error) => {
            eprintln!("terrace dump run: {error}");
            std::process::exit(1);
        }
    }
    // SAFETY: the C library has this function, with this signature, and gets what this one got.
    unsafe {
        let start = libc::dlsym(libc::RTLD_NEXT, c"__libc_start_main".as_ptr());
        std::mem::transmute::<*mut c_void, StartMain>(start)(
            first,
            count,
            arguments,
            init,
            fini,
            linker_fini,
            stack_end,
        )
    }
}

/// Makes the heaps, before the program's constructors allocate. Returns whether `terrace dump run` has begun the process.
fn prepare() -> Result<bool> {
    if settings::read()?.is_none() {
        return Ok(false);
    }
    if !PROGRAM_HEAP.create() || !HANDLE_HEAP.create() {
        return Err(Error::Refused(
            "the addresses of the heap are taken; run the program without `terrace dump run`".into(),
        ));
    }
    register_forks();
    objects::find();
    Ok(true)
}

/// Runs `main` with its arguments on its own stack.
extern "C" fn run_main(count: c_int, arguments: *mut *mut c_char, environment: *mut *mut c_char) -> c_int {
    let Some(main) = PROGRAM_MAIN.get() else { return 1 };
    // SAFETY: the C library passes the arguments of the process.
    let arguments = unsafe { copy_arguments(count, arguments) };
    STARTED_PROGRAM.get_or_init(|| StartedProgram { main: *main, count, arguments, environment });
    let mut host = DumpHost::default();
    if let Err(error) = stack::run(run_program, |paused| host.serve(paused)) {
        eprintln!("terrace dump run: {error}");
    }
    1
}

extern "C" fn run_program() {
    if let Some(StartedProgram { main, count, arguments, environment }) = STARTED_PROGRAM.get() {
        // SAFETY: the program's `main` gets its arguments, and its result ends the process, as the C library does it.
        unsafe { libc::exit(main(*count, *arguments, *environment)) };
    }
}

/// Copies the arguments to the program's heap, so that they are the same after a restart.
///
/// # Safety
/// There is this number of arguments, and a null behind them.
unsafe fn copy_arguments(count: c_int, arguments: *mut *mut c_char) -> *mut *mut c_char {
    let count = count as usize;
    let copies = PROGRAM_HEAP.allocate(1, (count + 1) * size_of::<*mut c_char>()).cast::<*mut c_char>();
    if copies.is_null() {
        return arguments;
    }
    for i in 0..count {
        // SAFETY: the argument is a text, and the copies have room for it and a null at the end.
        unsafe {
            let argument = CStr::from_ptr(*arguments.add(i)).to_bytes_with_nul();
            let copy = PROGRAM_HEAP.allocate(1, argument.len()).cast::<c_char>();
            if copy.is_null() {
                return arguments;
            }
            ptr::copy_nonoverlapping(argument.as_ptr().cast(), copy, argument.len());
            copies.add(i).write(copy);
        }
    }
    // SAFETY: as above.
    unsafe { copies.add(count).write(ptr::null_mut()) };
    copies
}

/// Lets a fork wait until no thread uses the heaps: a child has none of the other threads, which would unlock it.
fn register_forks() {
    extern "C" fn lock_all() {
        PROGRAM_HEAP.lock_for_fork();
        HANDLE_HEAP.lock_for_fork();
    }
    extern "C" fn unlock_all() {
        // SAFETY: this thread, or its copy in the child, has locked them above.
        unsafe {
            HANDLE_HEAP.unlock_after_fork();
            PROGRAM_HEAP.unlock_after_fork();
        }
    }
    // SAFETY: the functions may be called at any time. Without memory for them, only forks of programs with threads are less safe.
    let _: i32 = unsafe { libc::pthread_atfork(Some(lock_all), Some(unlock_all), Some(unlock_all)) };
}
