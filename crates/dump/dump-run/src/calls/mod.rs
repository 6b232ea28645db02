//! The functions that take the place of those of the C library and of MPI.

/// Exports functions that pass on their arguments, and behind them the address of their caller.
macro_rules! with_caller {
    ($($name:ident($register:literal) => $inner:ident;)*) => { $(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            std::arch::naked_asm!(concat!("mov ", $register, ", [rsp]"), "jmp {inner}", inner = sym $inner)
        }
    )* };
}

#[macro_use]
mod noted;

mod behind;
mod ending;
pub mod given;
mod kinds;
mod makers;
mod memory;
mod others;
mod points;
pub mod requests;
pub mod thread_keys;
mod uses;
