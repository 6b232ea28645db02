//! The evaluations of HReplica and HCompress: the same data, tiers and requirements for all contenders, on real
//! throttled tiers.

mod contender;
mod data;
mod measured;
mod profile;
mod replay;
mod run;
mod side;

pub use contender::Contender;
pub use data::Data;
pub use measured::{Measured, is_papers};
pub use profile::Profile;
use replay::replay;
pub use run::{Job, Outcome, Phase, Work, contest};
pub use side::{Side, side_by_side};

/// The number of ranks. Each has a core.
const RANK_COUNT: usize = 2;
/// The number of objects that a rank has in flight, so that all targets have work, as with the ranks of a cluster.
const OBJECTS_IN_FLIGHT: usize = 4;
