//! Serves a store to clients of Redis, by RESP2 and RESP3, and to those of memcached, by its text protocol (`memcached`).
//!
//! [`RedisServer::begin`] serves the flat key spaces below a folder: one for each database. A string is an object; hashes, lists, sets
//! and sorted sets are small documents, one object each (`datum`). Commands use values through a pass, whose changes reach the
//! store by one commit (`pass`); an executor runs the commands of many clients in one pass (`executor`). A worker is a thread with
//! some of the connections (`worker`).
//!
//! **Requests are read by code of our own**, although protocols come from libraries elsewhere. Published parsers of Redis's protocol read arrays in arrays by
//! recursion without a limit, so that a short request exhausts the stack, begin again with a request whenever bytes arrive, and know no
//! lines of words. `request.rs` reads only arrays of strings and such lines. For memcached (`memcached/reader.rs`), crates.io has clients, which parse replies, and no
//! parser of requests. Both are tested with hostile bytes.

mod channels;
mod client_memory;
mod clock;
mod commands;
mod connection;
mod datum;
mod encoding_names;
mod error;
mod executor;
mod held;
#[doc(hidden)]
pub mod hostile;
mod input_buffer;
mod limits;
mod mailbox;
pub mod memcached;
mod number;
mod pass;
mod password;
mod pattern;
mod planned_flush;
mod problem;
mod random;
pub mod request;
mod requests;
mod resp;
mod scan_positions;
mod server;
mod server_facts;
mod session;
mod stream;
mod tls_stream;
mod waiters;
mod worker;

pub use error::RedisServeError;
pub use limits::{Dialect, RedisLimits};
pub use password::Password;
pub use server::{RedisOptions, RedisServer};
pub use terrace_kit::Address;
