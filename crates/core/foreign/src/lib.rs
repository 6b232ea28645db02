//! Handles, values behind a caller's pointers, and the last error of each thread: the libraries for C share them.

// C passes raw pointers; each function documents their requirements.
#![allow(unsafe_code)]
// Only functions that C calls use these, where `unsafe` has no meaning.
#![allow(clippy::not_unsafe_ptr_arg_deref)]

mod guard;
mod handles;
mod pointers;

pub use guard::{keep_error, last_error};
pub use handles::Handles;
pub use pointers::*;

/// An argument of a call that makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadArgument(pub String);
