//! Runs the program on a stack of its own, and switches between this stack and the one with which the process began.
//!
//! While the program pauses, all its registers are on its stack. So a copy of its memory is enough to continue it, also in another process.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_int, c_void, ucontext_t};
use terrace_dump::{Error, Result};

use crate::heap;
use crate::ranges::{Addresses, PAGE_BYTES};

/// The address behind the stack, below the heap.
const STACK_END: usize = 0x17ff_0000_0000;
/// The largest size of the stack, also if the user's limit is larger or missing. Pages that the program never touches take no memory.
const MAX_STACK_BYTES: usize = 1 << 34;
const MIN_STACK_BYTES: usize = 1 << 20;
/// The number of bytes below the stack pointer that a function may use.
const RED_ZONE_BYTES: usize = 128;

/// The registers of the paused program, on its stack.
pub type Paused = *mut ucontext_t;

/// The registers of the process's own thread (the host), with which it continues when the program pauses.
static HOST_CONTEXT: AtomicPtr<ucontext_t> = AtomicPtr::new(ptr::null_mut());
/// The program's registers while it pauses.
static PAUSED_CONTEXT: AtomicPtr<ucontext_t> = AtomicPtr::new(ptr::null_mut());

/// Returns the addresses of the stack. Its size is the user's limit when the process began.
pub fn addresses() -> Addresses {
    static STACK_BYTES: OnceLock<usize> = OnceLock::new();
    let size = || {
        let mut limit = MaybeUninit::uninit();
        // SAFETY: `limit` is valid memory, and is read only if the call has succeeded.
        let limit = unsafe {
            if libc::getrlimit(libc::RLIMIT_STACK, limit.as_mut_ptr()) == 0 { limit.assume_init().rlim_cur } else { 0 }
        };
        (limit as usize).clamp(MIN_STACK_BYTES, MAX_STACK_BYTES) / PAGE_BYTES * PAGE_BYTES
    };
    STACK_END - *STACK_BYTES.get_or_init(size)..STACK_END
}

/// Returns the part of the stack that a paused program uses.
pub fn used_part(paused: Paused) -> Addresses {
    // SAFETY: the program pauses, so `paused` points to its saved registers.
    let pointer = unsafe { (*paused).uc_mcontext.gregs[libc::REG_RSP as usize] } as usize;
    let used = pointer.min(paused as usize) - RED_ZONE_BYTES;
    used / PAGE_BYTES * PAGE_BYTES..STACK_END
}

/// Returns whether the stack with which the process began is executable. Programs need that whose compiler writes code on the stack: GCC does
/// so for a nested function that is passed on.
fn is_first_stack_executable() -> Result<bool> {
    let failed = |error| Error::Refused(format!("reading /proc/self/maps: {error}; the kernel must offer it"));
    let maps = fs::read("/proc/self/maps").map_err(failed)?;
    let is_executable = |line: &str| line.split(' ').nth(1).is_some_and(|access| access.contains('x'));
    Ok(String::from_utf8_lossy(&maps).lines().any(|line| line.ends_with("[stack]") && is_executable(line)))
}

fn make_executable(stack: &Addresses) -> Result<()> {
    let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: the stack was just mapped, and nobody uses it yet.
    match unsafe { libc::mprotect(stack.start as *mut c_void, stack.len(), access) } {
        0 => Ok(()),
        _ => Err(Error::Refused(format!("the stack cannot be made executable: {}", io::Error::last_os_error()))),
    }
}

/// Runs a program on its stack. Each time it pauses, calls `serve`, which returns the registers with which the program continues. Returns
/// only with an error: a program that ran ends the process.
pub fn run(program: extern "C" fn(), mut serve: impl FnMut(Paused) -> Paused) -> Result<()> {
    let stack = addresses();
    if !heap::map(stack.clone()) {
        return Err(Error::Refused(format!("there is no room for a stack at {:#x}", stack.start)));
    }
    if is_first_stack_executable()? {
        make_executable(&stack)?;
    }
    let (mut program_context, mut own) = (MaybeUninit::<ucontext_t>::zeroed(), MaybeUninit::<ucontext_t>::zeroed());
    // Relaxed, here and below: one thread runs on both stacks.
    HOST_CONTEXT.store(own.as_mut_ptr(), Ordering::Relaxed);
    let mut next = program_context.as_mut_ptr();
    // SAFETY: the stack was just mapped. `program` never returns, so `uc_link` may be null.
    unsafe {
        libc::getcontext(next);
        (*next).uc_stack.ss_sp = stack.start as *mut c_void;
        (*next).uc_stack.ss_size = stack.len();
        (*next).uc_link = ptr::null_mut();
        libc::makecontext(next, program, 0);
    }
    loop {
        // SAFETY: `next` has the registers of a program that has not begun, or that pauses. The call returns once, as the compiler expects:
        // when the program pauses. The stack of this function does not change until then.
        unsafe { switch(own.as_mut_ptr(), next) };
        next = serve(PAUSED_CONTEXT.load(Ordering::Relaxed));
    }
}

/// Pauses the program: switches to the host, and returns when the host continues the program. It may then be in another process, whose MPI
/// library has another state.
pub fn pause() {
    let mut context = MaybeUninit::<ucontext_t>::zeroed();
    PAUSED_CONTEXT.store(context.as_mut_ptr(), Ordering::Relaxed);
    // SAFETY: the host waits in `run`. Each of the two stacks stays as it is until its owner continues.
    unsafe { switch(context.as_mut_ptr(), HOST_CONTEXT.load(Ordering::Relaxed)) };
}

/// Saves the registers in `from`, and continues with those in `to`.
///
/// # Safety
/// `to` has the registers of a stack that nobody else uses.
unsafe fn switch(from: *mut ucontext_t, to: *const ucontext_t) {
    // SAFETY: the caller guarantees this. The call fails only if a stack is too small for it, and these are not.
    let _: c_int = unsafe { libc::swapcontext(from, to) };
}

/// Returns the stack guard. Functions keep a copy of this word on the stack, and compare both when they return, to notice an overwritten
/// stack. Each process has its own guard, so a program that continues in another process needs the one of the first.
pub fn read_guard() -> usize {
    let guard: usize;
    // SAFETY: on x86-64, the C library keeps the guard at this address.
    unsafe { std::arch::asm!("mov {}, fs:[0x28]", out(reg) guard, options(nostack, readonly, preserves_flags)) };
    guard
}

/// Replaces the stack guard.
///
/// # Safety
/// No function that runs on the present stack compares its copy with the guard when it returns.
pub unsafe fn write_guard(guard: usize) {
    // SAFETY: as the caller guarantees.
    unsafe { std::arch::asm!("mov fs:[0x28], {}", in(reg) guard, options(nostack, preserves_flags)) };
}
