//! The brain of Terrace for C hosts: the planner and the predictor without a store. The host describes its tiers as plain data, and gets plans; it
//! moves the bytes itself, and reports how that went. Every function returns a status; [`terrace_brain_last_error`] returns the message. No panic
//! crosses the boundary.

// C passes raw pointers; each function documents their requirements.
#![allow(unsafe_code)]
// Only C calls these functions, where `unsafe` has no meaning.
#![allow(clippy::not_unsafe_ptr_arg_deref)]

mod brain;
mod calls;
mod encodings;
mod failure;
#[doc(hidden)]
pub mod hostile;
mod outcome;
mod piece;
mod request;
mod saved;
mod storage;
mod streams;
mod target;

pub use brain::Brain;
pub use calls::*;
pub use encodings::*;
pub use failure::*;
pub use outcome::BrainOutcome;
pub use piece::*;
pub use request::BrainRequest;
pub use target::BrainTarget;
