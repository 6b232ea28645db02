//! Targets of other nodes.
//!
//! A [`Server`] serves directories of its machine by HTTP, and a tier of `kind = "node"` ([`NodeKind`]) uses them from another machine.
//! `docs/design.md`, section "Targets of other nodes", has the protocol and its rules. Both sides are threads that wait: each
//! connection belongs to one thread at a time, and no runtime is between.

mod buffers;
mod connection;
mod kind;
mod options;
mod remote;
mod secret;
mod segments;
mod serve;
mod socket;
mod tls;
mod wire;

pub use kind::NodeKind;
pub use secret::Secret;
pub use serve::{Handler, HandlerRequest, ServedTarget, Server, ServerOptions};
pub use tls::{Identity, NODE_NAME, client_config};
pub use wire::{read_headers, write_header};

/// Registers `kind = "node"`. More than one call does no harm.
pub fn register() {
    // An error means that it is registered already.
    let _ = terrace_tier::register_kind("node", NodeKind);
}
