//! Conversion between layouts: descriptors are computed once, and kernels apply them to any byte range of a view.

mod choose;
mod clip;
mod elements;
mod field;
mod gathered;
mod join;
mod plan;
mod request;
mod route;
mod side;
mod touches;
mod walk;

pub use choose::Stored;
pub use elements::{Elements, Slab};
pub use gathered::Gathered;
pub use plan::Plan;
pub use request::{Missing, Window, WindowMut};
pub use touches::Touched;
