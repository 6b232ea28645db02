//! A store for programs that speak other protocols: so far 9P2000.
//!
//! [`Server::begin`] serves [`terrace::Files`], and the views of datasets, at an [`Address`]; [`Server::end`] stops it when
//! the requests at hand are answered.

mod activity;
mod address;
pub mod nine;
mod server;
mod stream;

pub use address::{Address, ServeError};
pub use server::{Limits, Server};
