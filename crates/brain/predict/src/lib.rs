//! The prediction of the costs of encodings on some data, and the choice of an encoding.

pub mod analyze;
mod candidates;
pub mod made;
mod model;
mod probe;
mod profiled_tier;
mod tournament;

pub use model::{Compared, LoadError, profiled};
pub use profiled_tier::ProfiledTier;
pub use tournament::{Choice, Memory, Outcome, Predictor, Report, ReportRow, Stream};
