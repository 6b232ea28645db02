//! The common part of the libraries that show a store below a path prefix, in the process of a program that does not know it: those of
//! `terrace-preload` and `terrace-hdf5`. The supervisor of `terrace-supervise`, which is another process, uses `route` and `access`.
//!
//! `settings` reads the prefix and the store's directory from the environment, `route` resolves paths below the prefix, `access` has the
//! kernel's rules of who may open a file, `locks` the files that stand for objects in `flock` and `fcntl`, `folders` the directories
//! that stand for current directories. `calls` runs the engine for a
//! call of C.

// The environment and the system's calls are C's. Each module says why its use of them is safe.
#![allow(unsafe_code)]

pub mod access;
pub mod calls;
pub mod folders;
pub mod locks;
pub mod route;
pub mod settings;
