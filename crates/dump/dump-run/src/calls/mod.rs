//! The functions that take the place of those of the C library and of MPI.

mod behind;
mod handles;
mod memory;
mod others;
mod points;
