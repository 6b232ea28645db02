//! The functions that programs call instead of the C library's, one file for each family.
//!
//! Each has several names: plain, for 64-bit offsets (the same, where a word has 64 bits), fortified (with the buffer's size, which is checked),
//! and those that older programs were linked to. `open` and `fcntl` take a third argument in C only where they need it; here it is always
//! read, because it is in a register, whether it was set or not.
//!
//! They are of the kind `C-unwind`: a thread that is cancelled while it waits in the C library is unwound through them.

pub mod aio;
pub mod bytes;
pub mod change;
pub mod closing;
pub mod copy;
pub mod current;
pub mod descriptors;
pub mod directories;
#[cfg(target_arch = "x86_64")]
pub mod formatted;
pub mod globs;
pub mod links;
#[cfg(target_arch = "x86_64")]
pub mod load;
pub mod locks;
pub mod maps;
pub mod mpi;
pub mod names;
pub mod new_descriptors;
pub mod numbered;
pub mod open;
pub mod pairs;
pub mod prepared;
pub mod processes;
pub mod space;
pub mod spawn;
pub mod stat;
pub mod stdio;
pub mod streams;
pub mod sync;
pub mod temporary;
pub mod threads;
pub mod tree_steps;
pub mod trees;
pub mod wait;
pub mod walk;
pub mod wide;

use std::ffi::c_int;
use std::sync::Arc;

use crate::answer::answer;
use crate::description::OpenDescription;
use crate::errors::{CReturn, CallResult};
use crate::table;

/// Answers a call with a descriptor: by the C library if the descriptor is not that of a file of the store.
#[inline]
pub fn by_descriptor<T: CReturn>(
    fd: c_int,
    elsewhere: impl FnOnce() -> T,
    below: impl FnOnce(&Arc<OpenDescription>) -> CallResult<T>,
) -> T {
    match table::get(fd) {
        None => elsewhere(),
        // The closure drops the file, if it is the last one that has it: that is the engine's work, too.
        Some(open) => answer(move || below(&{ open })),
    }
}

/// Exports further names of a function.
macro_rules! twins {
    ($($function:ident $arguments:tt -> $result:ty: $($twin:ident),+;)*) => { $($(
        $crate::calls::twin! { $twin, $function $arguments -> $result }
    )+)* };
}

/// Exports one further name of a function.
macro_rules! twin {
    ($twin:ident, $function:ident($($argument:ident: $kind:ty),*) -> $result:ty) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $twin($($argument: $kind),*) -> $result {
            // SAFETY: the caller meets the conditions of the function that this is another name of.
            unsafe { $function($($argument),*) }
        }
    };
}

pub(crate) use {twin, twins};
