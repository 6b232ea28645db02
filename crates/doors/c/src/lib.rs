//! Terrace for C. Every function returns a status; what went wrong in words is [`terrace_last_error`]'s. No panic comes out.

// C hands over pointers; what must hold of them is said at each function.
#![allow(unsafe_code)]
// Only C calls these: it cannot be told that they are unsafe.
#![allow(clippy::not_unsafe_ptr_arg_deref)]

mod bytes;
mod failure;
mod handles;
mod options;
mod receipt;
mod store;
mod words;

pub use bytes::*;
pub use failure::*;
pub use options::*;
pub use receipt::*;
pub use store::*;
