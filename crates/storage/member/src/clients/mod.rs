//! The processes of a machine and their node: they send it changes over a socket in the store's directory, and read its catalog.
//!
//! A change is carried out once, even if the connection breaks or the node is killed and started again: the client connects again, and asks
//! with the same session and number.

mod client;
mod server;
pub(crate) mod wire;

pub use client::Client;
pub use server::ClientServer;
