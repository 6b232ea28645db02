//! 9P2000, the protocol of Plan 9's file servers, as defined in section 5 of its manual (`intro(5)`, `stat(5)`, ...).
//!
//! The requests of a connection are answered one after the other, so a `Tflush` never finds a request in progress. A message that cannot
//! be decoded ends the connection, and the end of a connection closes its files.

mod connection;
mod directory;
mod fids;
mod fields;
mod files;
mod held;
pub mod message;
pub mod record;
mod refusal;
mod reply;
mod session;
mod settings;

pub(crate) use connection::serve;
pub use reply::Reply;
