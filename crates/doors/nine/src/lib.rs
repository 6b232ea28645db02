//! Serves a store by network protocols: so far 9P2000.
//!
//! [`serve_files`] serves [`terrace::Files`] and the views of datasets at an [`Address`], until the server that it
//! returns ends.

pub mod nine;
mod server;

pub use server::{Limits, serve_files};
pub use terrace_kit::Address;
