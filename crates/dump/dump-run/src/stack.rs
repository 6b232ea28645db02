//! The program's stack, and the switches between it and the stack that the process has begun with.
//!
//! A program that pauses has all its registers on its stack. So its memory is enough to continue it, in another process, too.

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
/// A stack without a limit gets this size, and a larger limit counts as this one. Pages that are never touched take no memory.
const MAX_STACK_BYTES: usize = 1 << 34;
const MIN_STACK_BYTES: usize = 1 << 20;
/// Functions may use this number of bytes below the stack's pointer.
const RED_ZONE_BYTES: usize = 128;

/// The registers of the paused program, on its stack.
pub type Paused = *mut ucontext_t;

/// The place at which the program continues the process's own thread.
static HOST_CONTEXT: AtomicPtr<ucontext_t> = AtomicPtr::new(ptr::null_mut());
/// The program's registers while it pauses.
static PAUSED_CONTEXT: AtomicPtr<ucontext_t> = AtomicPtr::new(ptr::null_mut());

/// Returns the addresses of the stack, which has the size that the user's limit had at the start.
pub fn addresses() -> Addresses {
    static STACK_BYTES: OnceLock<usize> = OnceLock::new();
    let size = || {
        let mut limit = MaybeUninit::uninit();
        // SAFETY: the place is valid, and without success it is not read.
        let limit = unsafe {
            if libc::getrlimit(libc::RLIMIT_STACK, limit.as_mut_ptr()) == 0 { limit.assume_init().rlim_cur } else { 0 }
        };
        (limit as usize).clamp(MIN_STACK_BYTES, MAX_STACK_BYTES) / PAGE_BYTES * PAGE_BYTES
    };
    STACK_END - *STACK_BYTES.get_or_init(size)..STACK_END
}

/// Returns the part of the stack that a paused program uses.
pub fn used_part(paused: Paused) -> Addresses {
    // SAFETY: the program pauses, so its registers are there.
    let pointer = unsafe { (*paused).uc_mcontext.gregs[libc::REG_RSP as usize] } as usize;
    let used = pointer.min(paused as usize) - RED_ZONE_BYTES;
    used / PAGE_BYTES * PAGE_BYTES..STACK_END
}

/// Runs a program on its stack. While it pauses, `serve` works here, and returns the registers to continue with. Does not return with success:
/// the program ends the process.
pub fn run(program: extern "C" fn(), mut serve: impl FnMut(Paused) -> Paused) -> Result<()> {
    let stack = addresses();
    if !heap::map(stack.clone()) {
        return Err(Error::Refused(format!("there is no room for a stack at {:#x}", stack.start)));
    }
    let (mut program_context, mut own) = (MaybeUninit::<ucontext_t>::zeroed(), MaybeUninit::<ucontext_t>::zeroed());
    HOST_CONTEXT.store(own.as_mut_ptr(), Ordering::Relaxed);
    let mut next = program_context.as_mut_ptr();
    // SAFETY: the stack was just mapped, and the function does not return, so that it needs no context to continue with.
    unsafe {
        libc::getcontext(next);
        (*next).uc_stack.ss_sp = stack.start as *mut c_void;
        (*next).uc_stack.ss_size = stack.len();
        (*next).uc_link = ptr::null_mut();
        libc::makecontext(next, program, 0);
    }
    loop {
        // SAFETY: `next` has the registers of a program that has not begun, or that pauses. For the compiler, this is a call that returns
        // once: whatever continues here finds the stack of this function as it was.
        unsafe { switch(own.as_mut_ptr(), next) };
        next = serve(PAUSED_CONTEXT.load(Ordering::Relaxed));
    }
}

/// Lets the host work, and returns when it lets the program continue: perhaps in another process, with what MPI knows there.
pub fn pause() {
    let mut context = MaybeUninit::<ucontext_t>::zeroed();
    PAUSED_CONTEXT.store(context.as_mut_ptr(), Ordering::Relaxed);
    // SAFETY: the host waits for this thread. Its stack and this one are left as they are until each goes on.
    unsafe { switch(context.as_mut_ptr(), HOST_CONTEXT.load(Ordering::Relaxed)) };
}

/// Saves the registers in one place, and continues with those of another.
///
/// # Safety
/// The second place has registers of a stack that nobody else uses.
unsafe fn switch(from: *mut ucontext_t, to: *const ucontext_t) {
    // SAFETY: as the caller guarantees. It fails only for a stack that is too small for a signal, which is no case here.
    let _: c_int = unsafe { libc::swapcontext(from, to) };
}

/// Returns the word by which functions notice that their stack was overwritten. It is on the program's stack, and another one in each process.
pub fn read_guard() -> usize {
    let guard: usize;
    // SAFETY: the C library of this architecture has the word there.
    unsafe { std::arch::asm!("mov {}, fs:[0x28]", out(reg) guard, options(nostack, readonly, preserves_flags)) };
    guard
}

/// Replaces that word.
///
/// # Safety
/// No function that has begun on the present stack checks it when it returns.
pub unsafe fn write_guard(guard: usize) {
    // SAFETY: as the caller guarantees.
    unsafe { std::arch::asm!("mov fs:[0x28], {}", in(reg) guard, options(nostack, preserves_flags)) };
}
