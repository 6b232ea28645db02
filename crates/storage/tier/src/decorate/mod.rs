//! Decorators: what makes one target behave like another.

mod deadline;
mod faults;
mod throttle;

pub use deadline::Deadline;
pub use faults::{Failure, FaultPlan, Faults};
pub use throttle::{Limits, Throttle};
