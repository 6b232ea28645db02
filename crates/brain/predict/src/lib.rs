//! What an encoding will cost on some data, and which one to choose.

pub mod analyze;
mod candidates;
pub mod made;
mod model;
mod objective;
mod probe;
mod tournament;

pub use model::{Compared, LoadError, profiled};
pub use objective::{Expected, Objective, Tier, Weights};
pub use probe::thread_seconds;
pub use tournament::{Choice, Memory, Outcome, Predictor, Report, ReportRow, Stream};
