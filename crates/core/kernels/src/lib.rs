//! Strided copies of bytes between buffers, in the widest registers that the machine has. All SIMD, and its unsafe, is here.

mod kernel;
mod moves;
mod run;

pub use kernel::Level;
pub use moves::{Hull, Move, Moves, Steps};
