//! Copying between files and the store.

mod check;
mod get;
mod put;
mod restore;
mod tree;

pub use check::check;
pub use get::{cat, get};
pub use put::put;
