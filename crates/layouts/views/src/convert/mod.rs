//! The conversion between layouts: descriptors, made once, and kernels that carry them out for any bytes of a view.

mod choose;
mod clip;
mod field;
mod gathered;
mod join;
mod plan;
mod request;
mod side;
mod touches;
mod walk;

pub use choose::Stored;
pub use gathered::Gathered;
pub use plan::Plan;
pub use request::{Missing, Window, WindowMut};
pub(crate) use side::is_regular;
pub use touches::Touched;
