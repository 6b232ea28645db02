//! 9P2000, the protocol of Plan 9's file servers, as section 5 of its manual has it (`intro(5)`, `stat(5)`, ...).
//!
//! Requests of a connection are answered one after the other, so that a `Tflush` finds nothing to stop. A message that
//! cannot be read ends the connection, and the end of a connection closes what it had open.

mod connection;
mod directory;
mod fids;
mod files;
pub mod message;
pub mod record;
mod refusal;
mod reply;
mod session;
mod settings;

pub(crate) use connection::serve;
pub use reply::Reply;
