//! Strided copies of bytes between buffers, with the widest registers of the machine. All SIMD code, and its unsafe
//! code, is here.

mod kernel;
mod moves;
mod run;

pub use kernel::Level;
pub use moves::{Hull, Move, Moves, Steps};
