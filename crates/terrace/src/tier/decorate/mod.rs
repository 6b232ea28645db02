//! Decorators: what makes one target behave like another.

mod faults;
mod throttle;

pub use faults::{Failure, FaultPlan, Faults};
pub use throttle::{Limits, Throttle};
