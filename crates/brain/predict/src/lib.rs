//! The prediction of the costs of encodings on some data, and the choice of an encoding.

mod aim;
pub mod analyze;
mod candidates;
pub mod made;
mod model;
mod probe;
mod profiled_tier;
mod series;
mod studied;
mod tournament;

pub use aim::{Aim, Pace};
pub use model::{Compared, LoadError, profiled};
pub use profiled_tier::ProfiledTier;
pub use series::series;
pub use studied::{StudiedStream, weigh};
pub use tournament::{Choice, Memory, Outcome, Predictor, Report, ReportRow, Stream};

/// Shorter bytes are not worth a study. They use what is known of their stream.
pub const MIN_STUDIED_BYTES: usize = 8 << 10;
