//! Serves a store by network protocols: so far 9P2000.
//!
//! [`Server::begin`] serves [`terrace::Files`] and the views of datasets at an [`Address`]. [`Server::end`] stops the server after it has
//! answered the requests in progress.

mod activity;
mod error;
pub mod nine;
mod server;
mod stream;

pub use error::ServeError;
pub use server::{Limits, Server};
pub use terrace_system::Address;
