//! `libterrace_preload.so`: unmodified programs use a store below a path prefix.
//!
//! ```text
//! TERRACE_PREFIX=/terrace TERRACE_STORE=DIR LD_PRELOAD=libterrace_preload.so PROGRAM
//! ```
//!
//! The dynamic linker gives a program these functions instead of those of the C library. A call with a path below the prefix, or with a
//! descriptor of a file there, goes to [`terrace::Files`]; any other call goes on to the C library. Each file in `calls` has one family
//! of calls. `paths` alone decides whether a path is below the prefix, `numbers` whether a
//! descriptor is that of a file of the store.
//!
//! **A descriptor is one of the kernel's**, opened with `O_PATH`: a call that is not intercepted fails with `EBADF`, and never touches
//! another file. Its file is a page of shared memory, the *note* (`note`): forks and executed programs find there which file is
//! open, and share its offset.

// The C library's functions take raw pointers. Each module says why its use of them is safe.
#![allow(unsafe_code)]

mod actions;
mod answer;
mod asked;
mod calls;
mod description;
mod errors;
mod folder;
mod forks;
mod inside;
mod kernel;
mod libraries;
mod life;
mod note;
mod numbers;
mod opened;
mod paths;
mod pointers;
mod real;
mod table;
mod tree_entry;
mod unseen;
mod written;

use terrace_prefix::settings;
