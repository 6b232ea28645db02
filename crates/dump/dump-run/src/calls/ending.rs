//! The call by which a program ends its use of MPI.

use super::behind::Behind;
use crate::outcome;

/// Exports functions that say at the end whether the program was dumped, and continue with the function behind.
macro_rules! endings {
    ($($name:ident;)*) => { $(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name() {
            static END_CALL: Behind = Behind::new(concat!(stringify!($name), "\0"));
            // Keeps the argument that Fortran passes, and the stack aligned for the call.
            std::arch::naked_asm!(
                "push rdi",
                "lea rdi, [rip + {call}]",
                "call {end}",
                "pop rdi",
                "jmp rax",
                call = sym END_CALL,
                end = sym end,
            )
        }
    )* };
}

endings! {
    MPI_Finalize;
    mpi_finalize_;
    mpi_finalize_f08_;
}

/// Warns if the program was not dumped. Returns the function to continue with.
extern "C" fn end(call: &'static Behind) -> usize {
    outcome::warn_if_not_dumped();
    call.find()
}
