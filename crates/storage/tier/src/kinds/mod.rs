//! The built-in kinds.

mod directory;
mod memory;
#[cfg(not(feature = "object"))]
mod no_object;
#[cfg(feature = "object")]
mod object;

pub use directory::DirectoryKind;
pub use memory::MemoryKind;
#[cfg(not(feature = "object"))]
pub use no_object::{ObjectKind, unavailable};
#[cfg(feature = "object")]
pub use object::ObjectKind;
