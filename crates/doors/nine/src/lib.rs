//! Serves a store by network protocols: so far 9P2000.
//!
//! [`Server::begin`] serves [`terrace::Files`] and the views of datasets at an [`Address`]. [`Server::end`] stops the server after it has
//! answered the requests in progress.

mod activity;
mod address;
pub mod nine;
mod server;
mod stream;

pub use address::{Address, ServeError};
pub use server::{Limits, Server};
