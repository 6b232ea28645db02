//! Decorators: what makes one target behave like another.

mod faults;
mod throttle;

pub use faults::{Fault, Faults};
pub use throttle::{Limits, Throttle};
