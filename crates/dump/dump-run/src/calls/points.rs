//! The calls at which a program may pause: collective ones of MPI, and one of this library.

use std::ffi::c_int;

use mpi::ffi;
use terrace_dump::flags::PausePoint;

use super::behind::Behind;
use crate::{objects, settings, stack};

/// A call at which a program may pause.
struct PauseCall {
    point: PausePoint,
    behind: Behind,
    /// Whether Fortran calls it, which passes the number of a communicator by its address.
    is_fortran: bool,
}

/// Exports functions that pause the program, if it is to pause there, and continue with the function behind. The communicator is in a
/// register.
macro_rules! points {
    ($($name:ident($communicator:literal): $point:ident, $is_fortran:literal;)*) => { $(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name() {
            static PAUSE_CALL: PauseCall = PauseCall {
                point: PausePoint::$point,
                behind: Behind::new(concat!(stringify!($name), "\0")),
                is_fortran: $is_fortran,
            };
            // Keeps the arguments, and the stack aligned for the call.
            std::arch::naked_asm!(
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "sub rsp, 8",
                concat!("mov rdi, ", $communicator),
                "mov rsi, [rsp + 56]",
                "lea rdx, [rip + {call}]",
                "call {arrive}",
                "add rsp, 8",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp rax",
                call = sym PAUSE_CALL,
                arrive = sym arrive,
            )
        }
    )* };
}

points! {
    MPI_Barrier("rdi"): Barrier, false;
    mpi_barrier_("rdi"): Barrier, true;
    mpi_barrier_f08_("rdi"): Barrier, true;
    MPI_Allreduce("r9"): Allreduce, false;
    mpi_allreduce_("r9"): Allreduce, true;
    mpi_allreduce_f08_("r9"): Allreduce, true;
}

/// Pauses the program, if it is to pause at this call. Returns the function to continue with.
extern "C" fn arrive(communicator: usize, caller: usize, call: &'static PauseCall) -> usize {
    let is_chosen = settings::get().is_some_and(|settings| settings.at == call.point);
    // MPI calls such functions, too, and so does the host.
    if is_chosen && objects::is_program(caller) && has_all_ranks(communicator, call.is_fortran) {
        stack::pause();
    }
    call.behind.find()
}

/// Whether a communicator has all ranks. Only then all arrive.
fn has_all_ranks(communicator: usize, is_fortran: bool) -> bool {
    // SAFETY: the program passes a communicator, or a number of one by its address.
    unsafe {
        let communicator = match is_fortran {
            true => ffi::PMPI_Comm_f2c(*(communicator as *const c_int)),
            false => ffi::MPI_Comm(communicator as *mut _),
        };
        let (mut size, mut all) = (0, 0);
        ffi::PMPI_Comm_size(communicator, &mut size);
        ffi::PMPI_Comm_size(ffi::RSMPI_COMM_WORLD, &mut all);
        size == all
    }
}

/// A point that a program may have itself. All ranks call it, between MPI_Init and MPI_Finalize.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_checkpoint_here() {
    if settings::get().is_some_and(|settings| settings.at == PausePoint::Here) && is_mpi_ready() {
        stack::pause();
    }
}

fn is_mpi_ready() -> bool {
    let (mut has_begun, mut has_ended) = (0, 0);
    // SAFETY: these two functions may be called at any time.
    unsafe {
        ffi::PMPI_Initialized(&mut has_begun);
        ffi::PMPI_Finalized(&mut has_ended);
    }
    has_begun != 0 && has_ended == 0
}
