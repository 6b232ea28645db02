//! Dumps of MPI programs: the transport, and the library for C and Python.
#![cfg(feature = "mpi")]

mod background;
mod copies;
mod door;
mod failure;
mod helper;
pub mod log;
mod messages;
mod once;
mod restart;
mod window;
mod world;

pub use background::*;
pub use door::*;
pub use failure::*;
pub use once::*;
pub use restart::*;
pub use world::{MpiWorld, open_store};
