//! Dumps of MPI programs: the transport, and the library for C and Python.
#![cfg(feature = "mpi")]

mod door;
mod failure;
mod log;
mod window;
#[path = "../../../doors/c/src/words.rs"]
mod words;
mod world;

pub use door::*;
pub use failure::*;
pub use world::MpiWorld;
