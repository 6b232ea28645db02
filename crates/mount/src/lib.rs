//! A store's files as a mounted file system, by FUSE. Thin: requests in, [`terrace::Files`], answers out.

mod answer;
mod handles;
mod mount;
mod namespace;
mod nodes;
mod system;
mod views;

pub use mount::{Mount, MountError};
pub use namespace::enter;
