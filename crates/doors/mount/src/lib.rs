//! A store's files as a mounted file system, by FUSE. Thin: requests in, [`terrace_tree::Tree`], answers out.

mod answer;
mod handles;
mod mount;
mod namespace;
mod stale;
mod system;

pub use mount::{Mount, MountError};
pub use namespace::enter;
