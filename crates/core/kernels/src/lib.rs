//! Strided copies of bytes between buffers, with the widest registers of the machine. All SIMD code, and its unsafe
//! code, is here.

mod fields;
mod kernel;
mod moves;
mod run;

pub use fields::{join_fields, join_fields_at, split_fields, split_fields_at};
pub use kernel::Level;
pub use moves::{Hull, Move, Moves, Steps};
