//! Mounts a store's files as a FUSE file system. A thin layer: it passes each request to [`terrace_tree::Tree`] and sends the reply.

mod answer;
mod handles;
mod mount;
mod namespace;
mod opened;
mod pages;
mod read_ahead;
mod stale;
mod system;

pub use mount::{Mount, MountError};
pub use namespace::enter;
