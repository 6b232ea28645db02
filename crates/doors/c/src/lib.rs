//! The C API of Terrace. Every function returns a status; [`terrace_last_error`] returns the message. No panic crosses the boundary.

// C passes raw pointers; each function documents their requirements.
#![allow(unsafe_code)]
// Only C calls these functions, where `unsafe` has no meaning.
#![allow(clippy::not_unsafe_ptr_arg_deref)]

mod bytes;
mod compression;
mod dataset;
mod failure;
mod file;
mod names;
mod options;
mod receipt;
mod store;
mod stream;

pub use bytes::*;
pub use compression::*;
pub use dataset::*;
pub use failure::*;
pub use file::*;
pub use names::*;
pub use options::*;
pub use receipt::*;
pub use store::*;
pub use stream::*;
